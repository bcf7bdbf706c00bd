"""A preview as one page: what is the most we can lose, and what do we stand to gain?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from linoto.core import hints
from linoto.core.arrays import Floats
from linoto.core.certificates import LOG, PRACTICE, SAME_ROUNDS, Certificate
from linoto.core.hints import UNIT
from linoto.core.offline import Offline
from linoto.core.opening import spent_text
from linoto.core.validation import rounded_up
from linoto.core.verdicts import Findings, Simulated, Verdict, reach_verdict
from linoto.logs.saved import Audited
from linoto.pages.figures import preview as figures
from linoto.pages.figures.pieces import as_svg
from linoto.pages.shell import fill, write_page
from linoto.worlds.gates import GateOutcome, GatePreview
from linoto.worlds.moving import drift_text
from linoto.worlds.outcomes import FEW, GridPoint, quantile
from linoto.worlds.preview import Preview, smallest_of_best, smallest_promise

TITLE = "What is the most we can lose, and what do we stand to gain?"
SHOWN = 8  # arms in each table
WORDS = {
    "R_off_t": "the shortfall below the log: how much less the first t rounds earn together than t rounds of "
    "the log's average",
    "vacuous": "a promise that says nothing, because no play at all could lose more",
    "epsilon": "the tolerance per round",
    "budget": "the loss that is accepted in all rounds together",
    "kappa": "how far playing the log's arms in its own proportions can be off by rounding, in plays",
    "hi - lo": "the width of the range of average rewards",
    "alpha": "the paper's parameter",
    " S ": "the average uncertainty about a logged reward",
    "r_b": "the reward per round that the budget protects",
    "|theta|": "the length of the vector that turns features into average rewards",
    "sub-Gaussian": "no wilder than a normal distribution with that standard deviation",
}
"""What a certificate names, in words."""
# Of problems of each kind, in per cent: truth in the band of the gain, shortfall kept (docs/preview.md)
TRUSTED = {
    "every arm was tried": ("73 to 90\u00a0%", "90 to 100\u00a0%"),
    "untried arms are known by their features alone": ("83 to 90\u00a0%", "93 to 97\u00a0%"),
    "the logged arms were believed good": ("47 to 90\u00a0%", "87 to 100\u00a0%"),
    "the logged arms were drawn at random": ("57 to 100\u00a0%", "90 to 100\u00a0%"),
    "the logged arms are the best": ("73 to 90\u00a0%", "83 to 100\u00a0%"),
    "averages move": ("87\u00a0%", "100\u00a0%"),
    "rounds bring their own arms and those played were believed good": (
        "97 to 100\u00a0%",
        "97 to 100\u00a0%",
    ),
    "rounds bring their own arms and those played were drawn at random": (
        "0\u00a0% (it was larger in all)",
        "97\u00a0%",
    ),
    "rounds bring their own arms and those played are the best": (
        "17 to 23\u00a0% (it was larger in the others)",
        "97 to 100\u00a0%",
    ),
}
SAYS_LESS = {  # more came in all of them, or in most
    "rounds bring their own arms and those played were drawn at random",
    "rounds bring their own arms and those played are the best",
}
IN_ROUNDS = "rounds bring their own arms"
BLIND = "the promise breaks with a misfit of the linear model that this log could not have shown"


def answers(
    preview: Preview, limit: float | None = None, unit: str = UNIT, audited: Audited | None = None
) -> list[tuple[str, str]]:
    """What to do, and three answers in plain words, for a limit on the loss if one is given.

    What the audit of the log said decides too, where it is given.
    """
    _, *parts = fill("answers.txt", **findings(preview, limit, unit, audited)).split("## ")
    pairs = (part.partition("\n") for part in parts)
    return [(name, as_line(text)) for name, _, text in pairs]


def as_line(text: str) -> str:
    """The words of a template with one space between them, and none before a punctuation mark."""
    return re.sub(r" (?=[.,:;)])", "", re.sub(r"[ \n]+", " ", text)).strip()


def judge(
    preview: Preview, limit: float | None = None, audited: Audited | None = None
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict on the log and on what was simulated, by the rule of every verdict, and its reasons."""
    found = findings_of_log(preview, audited)
    refuted, blindly = preview.refuted(), preview.worth_having(limit, blindly=True)
    simulated = Simulated(
        refuted="worlds that the log finds plausible break the promise" if refuted else "",
        worthless="" if refuted or blindly else "no value that was tried is worth having",
        blind=BLIND if blindly and not preview.worth_having(limit) else "",
        gain="it gains in worlds that the log finds plausible",
    )
    return reach_verdict(found, simulated)


def kind_of(preview: Preview) -> str:
    """Which of the problems whose truth is known this one is like."""
    ways = {"good": "were believed good", "random": "were drawn at random", "best": "are the best"}
    if preview.rounds_from:
        return f"rounds bring their own arms and those played {ways[preview.logged_arms]}"
    if preview.drift:
        return "averages move"
    if preview.no_better is None and preview.logged_arms != "best":
        return "every arm was tried"
    if preview.features_alone:
        return "untried arms are known by their features alone"
    return f"the logged arms {ways[preview.logged_arms]}"


def trust_text(preview: Preview) -> str:
    """How often such previews were right, where the truth is known, and what speaks against this one."""
    return "; ".join(filter(None, (preview.contradiction, compared_text(preview))))


def compared_text(preview: Preview) -> str:
    """How often such previews were right."""
    if preview.worlds < FEW:
        return f"with fewer than {FEW} worlds nothing was compared with a known truth: take more (--worlds)"
    kind = kind_of(preview)
    right, kept = TRUSTED[kind]
    late = f"; rewards came at once there, and {late_text(preview)} here" if preview.delay else ""
    alone = kind.startswith(IN_ROUNDS)
    problems = (
        "runs on one table, of pictures of digits, and in which"
        if alone
        else "problems whose truth is known and in which"
    )
    elsewhere = "; another table may differ" if alone else ""
    return (
        f"of {problems} {kind}, the gain that came was inside its eight "
        f"worlds of ten in {right}, and the shortfall within its nine worlds of ten in {kept}"
        f"{elsewhere}{late}"
    )


def late_text(preview: Preview) -> str:
    """When rewards come."""
    return f"{hints.counted(preview.delay, 'round')} late"


def findings_of_log(preview: Preview, audited: Audited | None) -> Findings:
    """What the audit of the log found, as far as what was tried rests on it."""
    by_practice = preview.points[0].certificate.against == PRACTICE
    return Findings() if audited is None else audited.findings(by_practice=by_practice)


def doubt_of(preview: Preview, audited: Audited | None) -> str:
    """What the audit says against the log, whatever is promised; nothing where it says nothing."""
    verdict, reasons = reach_verdict(findings_of_log(preview, audited))
    if audited is None or verdict == "deploy":
        return ""
    return f"the audit of {audited.source or 'this log'} says {verdict}, because {reasons[0]}"


def findings(
    preview: Preview, limit: float | None, unit: str, audited: Audited | None = None
) -> dict[str, Any]:
    """What both templates speak of."""
    losses = [point.certificate.loss(preview.horizon) for point in preview.points]
    least_useful, nothing = preview.least_useful(), preview.nothing
    return {
        "preview": preview,
        "limit": limit,
        "unit": unit,
        "chosen": chosen_point(preview, limit),
        "sure": None if limit is None else preview.guaranteed(limit),
        "likely": None if limit is None else preview.recommend(limit),
        "safest": preview.points[int(np.argmin([inf if loss is None else loss for loss in losses]))],
        "least": min(preview.shortfall(point) for point in preview.points),
        "refuted": preview.refuted(),
        "needs_model": preview.points[0].certificate.by_model,
        "below_practice": preview.points[0].certificate.against == PRACTICE,
        "same_rounds": preview.points[0].certificate.against == SAME_ROUNDS,
        "least_useful": least_useful,
        "never_opens": {
            name: hints.amount(rounded_up(least))
            for name, least in preview.points[0].certificate.never_opens.items()
        },
        "verdict": judge(preview, limit, audited)[0],
        "doubt": doubt_of(preview, audited),
        "other": suggested(preview),
        "least_worth": smallest_promise(preview.worth_having(), preview.horizon) or least_useful,
        "blind": smallest_of_best(preview.worth_having(limit, blindly=True)),
        "deploys": judge(preview, limit, audited)[0] == "deploy",
        "pays": any(preview.gains(point) for point in preview.points),
        "dear": preview.too_dear(),
        "does": "loses" if preview.earned < 0 else "earns",
        "grid": f"--{preview.parameter}-grid",
        "least_tried": min(preview.points, key=lambda point: point.value),
        "empty": least_useful is not None and preview.is_empty(least_useful),
        "rounding": 0.0 if least_useful is None else rounding_share(least_useful, preview.horizon),
        "relative": getattr(preview.policy.composed().gate, "relative", False),
        "no_better": preview.beside(chosen_point(preview, limit)),
        "heading": heading(preview.parameter),
        "noun": "value of alpha" if preview.parameter == "alpha" else heading(preview.parameter),
        "total": lambda value: f"{amount(value, nothing)}\u00a0{unit}",
        "amount": partial(amount, nothing=nothing),
        "times": amount,
        "nothing": nothing,
        "exact": value_text,
        "few": preview.worlds < FEW,
        "says_less": kind_of(preview) in SAYS_LESS,
        "most": max(preview.points, key=lambda point: point.mean_gain),
        "inf": inf,
        "signed": partial(signed, nothing=nothing),
        "percent": percent,
    }


def chosen_point(preview: Preview, limit: float | None) -> GridPoint:
    """What the answers are about: the best value worth having, or the policy's own if none is."""
    own_value = getattr(preview.policy.composed().gate, preview.parameter)
    own = min(preview.points, key=lambda point: abs(point.value - own_value))  # the nearest on the grid
    kept = [point for point in preview.points if limit is not None and is_within(point, preview, limit)]
    return smallest_of_best(preview.worth_having(limit)) or smallest_of_best(kept) or own


def is_within(point: GridPoint, preview: Preview, limit: float) -> bool:
    """Whether a promise keeps to a limit on the loss."""
    loss = point.certificate.loss(preview.horizon)
    return loss is not None and loss <= limit


def suggested(preview: Preview) -> GridPoint | None:
    """The best value that passes the rule whatever the limit is; None: no value does."""
    return smallest_of_best(preview.worth_having())


def rounding_share(point: GridPoint, horizon: int) -> float:
    """How much of a promise comes from playing the log's mixture in whole plays."""
    certificate, loss = point.certificate, point.certificate.loss(horizon)
    once = (certificate.constant or 0.0) - (certificate.budget or 0.0)
    return once / loss if loss else 0.0


def heading(parameter: str) -> str:
    """The name of a parameter above a table."""
    return "tolerance" if parameter == "epsilon" else parameter


def heading_with_unit(preview: Preview, unit: str) -> str:
    """The same, with what its values are counted in."""
    if preview.parameter == "alpha":
        return "alpha"
    if getattr(preview.policy.composed().gate, "relative", False):
        return "budget, in rounds" if preview.parameter == "budget" else "tolerance, as a share"
    return f"{heading(preview.parameter)}, in {unit}{' per round' if preview.parameter == 'epsilon' else ''}"


def amount(value: float, nothing: float = 0.0) -> str:
    """A sum of rewards, to the precision a person wants; 0 where it is what rounding left of nothing."""
    size = abs(value)
    if size <= nothing:
        return "0"
    if size >= 10:
        return f"{value:,.0f}"
    return f"{Decimal(f'{value:.2g}'):f}"  # 0.00008, not 8e-05


def value_text(value: float) -> str:
    """A value of the parameter, as it was given: no power of ten, and all digits of a large one."""
    return f"{value:,.0f}" if value >= 1000 else hints.amount(value)


def signed(value: float, nothing: float = 0.0) -> str:
    """The same with a sign, so that a gain and a loss cannot be mixed up."""
    text = amount(value, nothing)
    return text if text == "0" or value < 0 else f"+{text}"


def percent(share: float) -> str:
    """A share as 7 %, or as 0.4 % where it is small."""
    return f"{100 * share:,.0f}\u00a0%" if share >= 0.01 else f"{100 * share:.1g}\u00a0%"


def value_cells(row: dict[str, Any], preview: Preview) -> list[str]:
    """What a value of the parameter brings, for people."""
    guaranteed, first, nothing = row["guaranteed_loss"], row["first_explored"], preview.nothing
    never = f" (never in {row['never_explored']:.0%})" if row["never_explored"] else ""
    return [
        value_text(row["knob"]),
        "no promise" if guaranteed is None else amount(guaranteed),
        amount(row["shortfall_90"], nothing),
        amount(row["shortfall_max"], nothing),
        signed(row["gain_mean"], nothing),
        f"{signed(row['gain_10'], nothing)} to {signed(row['gain_90'], nothing)}",
        f"{row['explored']:.0%}",
        "never" if first is None else f"{first:,.0f}{never}",
    ]


def no_better_cells(row: dict[str, Any], preview: Preview) -> list[str]:
    """Shortfall and gain if no untried arm is better than the worst logged one; nothing if unknown.

    No shortfall where the other one covers it.
    """
    lost, gain = row["no_better_worst_loss_90"], row["no_better_gain_mean"]
    if lost is None or gain is None:
        return []
    gained = signed(gain, preview.nothing)
    return [gained] if preview.covers_both else [amount(lost, preview.nothing), gained]


def write_preview(
    path: Path,
    preview: Preview,
    offline: Offline,
    *,
    names: Sequence[str],
    source: str,
    command: str,
    limit: float | None = None,
    unit: str = UNIT,
    gates: GatePreview | None = None,
    audited: Audited | None = None,
) -> Path:
    """Write the page, with a section for `gates` if given; the same arguments write the same bytes."""
    found = findings(preview, limit, unit, audited)
    drawn = figures.draw_all(preview, limit, unit)
    return write_page(
        path,
        "preview.html",
        **found,
        title=TITLE,
        command=command,
        source=source,
        offline=offline,
        logged=int((offline.pulls > 0).sum()),
        mean_texts=mean_texts(preview.points[0].certificate, offline),
        answers=answers(preview, limit, unit, audited),
        values=[
            (
                [*cells[:6], *no_better_cells(row, preview), *cells[6:]],
                mark(point, found),
            )
            for point, row in zip(preview.points, preview.table(), strict=True)
            for cells in [value_cells(row, preview)]
        ],
        metrics=metric_tables(preview),
        trust=trust_text(preview),
        spread=ends_of(preview.spread),
        within=None if preview.within is None else ends_of(preview.within),
        heading_with_unit=heading_with_unit(preview, unit),
        pictures=[as_svg(figure, f"picture-{i}", label) for i, (label, figure) in enumerate(drawn.items())],
        certificate=certificate_rows(found["chosen"].certificate, preview.horizon),
        late_words=late_text(preview),
        drift_words=drift_text(preview.drift, unit, preview.horizon),
        **({"gates": None} if gates is None else gate_parts(gates, unit)),
        **arm_tables(preview, offline, names),
    )


def ends_of(of_worlds: Floats) -> list[float | None]:
    """What is in eight worlds of ten between."""
    return [quantile(of_worlds, 0.1), quantile(of_worlds, 0.9)]


def metric_tables(preview: Preview) -> list[tuple[str, str, list[dict[str, str]]]]:
    """Each guardrail: its name, what it is about in words, and a row for each value of the parameter."""
    certificate, found = preview.points[0].certificate, []
    promised = {rail.name for rail in certificate.guardrails}
    against = "the log" if certificate.against == LOG else "practice"
    for metric in preview.points[0].metrics:
        rail = metric.guardrail
        better = "lower is better, and a loss is what there is more of"
        text = rail.text(against) if rail.name in promised else "nothing is promised of it"
        if (least := certificate.never_opens.get(rail.name)) is not None:
            text = f"{text}; {spent_text(least, 'rate')}"
        rows = [metric_row(row, preview, metric.nothing) for row in preview.metric_table(rail.name)]
        found.append((rail.name, f"{better if rail.lower_is_better else 'higher is better'}; {text}", rows))
    return found


def metric_row(row: dict[str, Any], preview: Preview, nothing: float) -> dict[str, str]:
    """What one value of the parameter does to a metric, for people: with guardrails, and without any."""
    reward = next(point.mean_gain for point in preview.points if point.value == row["knob"])
    both: dict[str, tuple[str, Callable[[Any], str]]] = {
        "9 worlds of 10" if preview.worlds >= FEW else "worst world": (
            "worst_loss_90" if preview.worlds >= FEW else "worst_loss_max",
            partial(amount, nothing=nothing),
        ),
        "mean gain": ("gain_mean", partial(signed, nothing=nothing)),
        f"of {preview.worlds} lost more": ("broken_in", str),
        "reward": ("reward_gain_mean", partial(signed, nothing=preview.nothing)),
    }
    found, with_both = {**row, "reward_gain_mean": reward}, "unguarded_gain_mean" in row
    return {
        heading(preview.parameter): value_text(row["knob"]),
        **{
            name: " | ".join(
                text(found[start + what] or 0) for start in (("", "unguarded_") if with_both else ("",))
            )
            for name, (what, text) in both.items()
        },
    }


def mean_texts(certificate: Certificate, offline: Offline) -> Sequence[str]:
    """The mean logged reward and the ends of its interval, where there is one."""
    if certificate.reference is None:
        return [amount(offline.reference)]
    return hints.as_sure_as(offline.reference, *certificate.reference_interval)


def gate_parts(gates: GatePreview, unit: str) -> dict[str, Any]:
    """What the section about gates in moving worlds shows."""
    picture = as_svg(figures.draw_gates(gates, unit), "picture-gates", "largest shortfall behind each gate")
    rows = [gate_row(row, gates) for row in gates.table()]
    return {
        "gates": gates,
        "gate_rows": rows,
        "gate_words": gate_answer(gates, unit),
        "gate_picture": picture,
    }


def gate_row(row: dict[str, Any], gates: GatePreview) -> dict[str, str]:
    """One gate, for people."""
    return {
        "gate": row["gate"],
        "promised to lose at most": "no promise" if row["promised"] is None else amount(row["promised"]),
        "worlds that lost more, standing still": f"{row['broken_still']} of {gates.worlds}",
        "worlds that lost more, moving": f"{row['broken_moving']} of {gates.worlds}",
        "mean gain, standing still": signed(row["gain_mean_still"], gates.nothing),
        "mean gain, moving": signed(row["gain_mean_moving"], gates.nothing),
        "control rounds, moving": percent(row["control_moving"]) if row["control_moving"] else "none",
    }


def gate_answer(gates: GatePreview, unit: str) -> str:
    """Where the promises hold, and what Control costs, in words."""
    found = [
        f"{outcome.gate[0].upper()}{outcome.gate[1:]} {kept_text(outcome, gates)}."
        for outcome in gates.outcomes
        if outcome.still.certificate.holds
    ]
    if gates.price is not None:
        size = amount(abs(gates.price), gates.nothing)
        difference = f"{size}\u00a0{unit} {'less' if gates.price >= 0 else 'more'}"
        found.append(
            f"Where nothing moves, Control gains {difference} than the log's gate: the price of control."
        )
    return " ".join(found)


def kept_text(outcome: GateOutcome, gates: GatePreview) -> str:
    """In how many worlds a gate kept its promise."""
    still, moving = (point.broken_in(gates.horizon) for point in (outcome.still, outcome.moving))
    if still + moving == 0:
        return "kept its promise in every world, still or moving"
    return (
        f"lost more than promised in {still} of {gates.worlds} worlds that stand still, and in {moving} of "
        f"{gates.worlds} that move"
    )


def mark(point: GridPoint, found: dict[str, Any]) -> str:
    """Whether a value is recommended, and by what."""
    why = [word for name, word in (("sure", "guaranteed"), ("likely", "seen")) if found[name] is point]
    return f"within your limit: {' and '.join(why)}" if why else ""


def certificate_rows(certificate: Certificate, rounds: int) -> list[tuple[str, str]]:
    """The certificate as it prints itself, and then every symbol in it in words."""
    rows = certificate.rows(rounds=rounds)
    text = " ".join(f"{name} {text}" for name, text in rows)
    words = [("in words", f"{symbol.strip()}: {words}") for symbol, words in WORDS.items() if symbol in text]
    return rows + words


def arm_tables(preview: Preview, offline: Offline, names: Sequence[str]) -> dict[str, Any]:
    """What the log tried most, and which arms are best in the plausible worlds."""
    pulls, sums = offline.pulls, offline.reward_sums
    most = [arm for arm in np.argsort(-pulls, kind="stable")[:SHOWN] if pulls[arm]]
    best = Counter(preview.best.tolist()).most_common(SHOWN)
    return {
        "tried": [
            (names[arm], f"{pulls[arm]:,}", amount(float(sums[arm] / pulls[arm]), preview.nothing))
            for arm in most
        ],
        "winners": [(names[arm], f"{count / preview.worlds:.0%}", f"{pulls[arm]:,}") for arm, count in best],
        "untried": f"{(pulls[preview.best] == 0).mean():.0%}",
    }
