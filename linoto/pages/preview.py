"""A preview as one page: what is the most we can lose, and what do we stand to gain?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from linoto.core.certificates import Certificate
from linoto.core.offline import Offline
from linoto.pages import figures
from linoto.pages.shell import inline, shell
from linoto.worlds.preview import GridPoint, Preview

TITLE = "What is the most we can lose, and what do we stand to gain?"
SHOWN = 8  # arms in each table
Answer = tuple[str, str]  # the question in a few words, and the answer in a sentence or two


def answers(preview: Preview, limit: float | None = None) -> list[Answer]:
    """Three lines that answer the question in plain words, for a limit on the loss if one is given."""
    if limit is None:
        own = own_point(preview)
        ask = f" Say how much you can afford to lose (--limit) to have a {noun(preview)} recommended."
        return [
            ("The most we can lose", f"With {setting(preview, own)}, {promised(preview, own)}."),
            ("What to expect", f"{seen(preview, own)}."),
            ("What we stand to gain", f"{gained(preview, own)}; {possible(preview)}.{ask}"),
        ]
    sure, likely = preview.guaranteed(limit), preview.recommend(limit)
    return [
        ("The most we can lose", sure_answer(preview, sure, limit)),
        ("In nine worlds of ten", likely_answer(preview, likely, limit)),
        ("What we stand to gain", gain_answer(preview, sure, likely)),
    ]


def sure_answer(preview: Preview, sure: GridPoint | None, limit: float) -> str:
    """The value recommended by what is guaranteed."""
    if sure is not None:
        return (
            f"Choose {setting(preview, sure)}: {promised(preview, sure)}. Of the values tried it gains most "
            f"among those guaranteed to stay within your limit of {amount(limit)}."
        )
    losses = {o.value: o.certificate.loss(preview.horizon) for o in preview.points if o.certificate.holds}
    known = {value: loss for value, loss in losses.items() if loss is not None}
    if not known:
        return f"Nothing is guaranteed here: {preview.points[0].certificate.theorem}."
    value = min(known, key=lambda value: known[value])
    return (
        f"None of the values tried is guaranteed to stay within your limit of {amount(limit)}: the smallest "
        f"guarantee is {amount(known[value])}, with {value:g}. Try smaller values, fewer rounds or a wider "
        "limit."
    )


def likely_answer(preview: Preview, likely: GridPoint | None, limit: float) -> str:
    """The value recommended by what was seen."""
    if likely is None:
        least = min(float(np.quantile(point.worst_loss, 0.9)) for point in preview.points)
        return (
            f"None of the values tried stayed within your limit of {amount(limit)} in nine of ten plausible "
            f"worlds: the best of them fell {amount(least)} below the log."
        )
    loss = likely.certificate.loss(preview.horizon)
    beyond = loss is None or loss > limit
    caution = (
        f", although only a loss of at most {amount(loss)} is guaranteed"
        if beyond and loss is not None
        else ""
    )
    return (
        f"If that is enough, choose {setting(preview, likely)}. {seen(preview, likely)}: within your limit "
        f"of {amount(limit)}{caution}."
    )


def gain_answer(preview: Preview, sure: GridPoint | None, likely: GridPoint | None) -> str:
    """The gain with each of the recommended values."""
    found = {point.value: point for point in (sure, likely) if point is not None}
    if not found:
        return f"With no value within the limit, nothing is to be compared; {possible(preview)}."
    texts = [gained(preview, point) for point in found.values()]
    return "; ".join([texts[0], *(text[0].lower() + text[1:] for text in texts[1:]), possible(preview)]) + "."


def own_point(preview: Preview) -> GridPoint:
    """The value the policy came with, or the one nearest to it on the grid."""
    policy = preview.policy
    own = getattr(policy.composed().gate, preview.parameter)
    return min(preview.points, key=lambda point: abs(point.value - own))


# -- words ------------------------------------------------------------------------------------------------


def relative(preview: Preview) -> bool:
    """Whether the tolerance is a share of the log's mean reward."""
    return bool(getattr(preview.policy.composed().gate, "relative", False))


def noun(preview: Preview) -> str:
    """What the parameter is called."""
    return "tolerance" if preview.parameter == "epsilon" else "value of alpha"


def setting(preview: Preview, point: GridPoint) -> str:
    """A value of the parameter, in words."""
    if preview.parameter == "alpha":
        return f"alpha = {point.value:g}"
    if relative(preview):
        return f"a tolerance of {100 * point.value:g}\u00a0% of the log's average reward"
    return f"a tolerance of {point.value:g} per round"


def promised(preview: Preview, point: GridPoint) -> str:
    """What is guaranteed over the horizon."""
    certificate = point.certificate
    loss = certificate.loss(preview.horizon)
    if not certificate.holds or loss is None:
        return f"nothing is guaranteed: {certificate.theorem}"
    text = (
        f"{preview.horizon:,} rounds together earn at most {amount(loss)} less than as many rounds of the "
        f"log's average reward, guaranteed with a probability of {100 * (1 - certificate.delta):g}\u00a0%"
    )
    return text + (", which says nothing: no play could lose more" if certificate.vacuous else "")


def seen(preview: Preview, point: GridPoint) -> str:
    """How deep it went in nine worlds of ten."""
    row = point.row(preview.horizon)
    deep, worst = row["worst_loss_90"] or 0.0, row["worst_loss_max"] or 0.0
    return (
        f"In nine of ten plausible worlds it was never more than {amount(deep)} below the log, and never "
        f"more than {amount(worst)} in any of the {preview.worlds}"
    )


def gained(preview: Preview, point: GridPoint) -> str:
    """Where it ends, on average and in eight worlds of ten."""
    row = point.row(preview.horizon)
    mean, low, high = (row[name] or 0.0 for name in ("gain_mean", "gain_10", "gain_90"))
    verb = "gains" if mean >= 0 else "loses"
    return (
        f"With {setting(preview, point)} it {verb} {amount(abs(mean))} against the log on average "
        f"(eight worlds of ten: {signed(low)} to {signed(high)})"
    )


def possible(preview: Preview) -> str:
    """What knowing the best arm would bring."""
    return f"knowing the best arm from the start would gain {amount(float(np.mean(preview.headroom)))}"


def amount(value: float) -> str:
    """A sum of rewards, to the precision a person wants."""
    size = abs(value)
    if size >= 10:
        return f"{value:,.0f}"
    return f"{round(value, 1) + 0.0:g}" if size >= 1 else f"{value + 0.0:.2g}"


def signed(value: float) -> str:
    """The same with a sign, so that a gain and a loss cannot be mixed up."""
    text = amount(value)
    return text if text == "0" or value < 0 else f"+{text}"


def spread(row: dict[str, Any], name: str) -> str:
    """From the lowest to the highest of eight worlds of ten."""
    return f"{signed(row[f'{name}_10'])} to {signed(row[f'{name}_90'])}"


# -- the page ---------------------------------------------------------------------------------------------


def write_preview(
    path: Path,
    preview: Preview,
    offline: Offline,
    *,
    names: Sequence[str],
    source: str,
    command: str,
    limit: float | None = None,
) -> Path:
    """Write the page; the same arguments write the same bytes."""
    body = "\n".join(
        (
            headline(preview, limit),
            setting_of_the_scene(preview, offline, source),
            f'<p class="warning">{prior_warning(preview, offline)}</p>',
            values_section(preview, limit),
            pictures(preview, limit),
            certificate_section(preview, limit),
            arms_section(preview, offline, names),
            f"<section><h2>To have this page again</h2><pre><code>{escape(command)}</code></pre></section>",
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(shell(title=TITLE, body=body, style=STYLE), encoding="utf-8")
    return path


def headline(preview: Preview, limit: float | None) -> str:
    """The question, and three lines that answer it."""
    lines = "".join(
        f"<li><strong>{escape(name)}.</strong> {escape(text)}</li>" for name, text in answers(preview, limit)
    )
    return f'<h1>{TITLE}</h1>\n<ol class="answers">{lines}</ol>'


def setting_of_the_scene(preview: Preview, offline: Offline, source: str) -> str:
    """What was played, for somebody who has never heard of any of this."""
    k, logged = offline.pulls.size, int((offline.pulls > 0).sum())
    low, high = preview.points[0].certificate.reference_interval
    parameter = (
        "The tolerance is how much less than that, per round, we accept while learning."
        if preview.parameter == "epsilon"
        else "Alpha is the paper's parameter: more of it lets the policy explore sooner."
    )
    return f"""<p>The log <b>{escape(source)}</b> holds {offline.total:,} rewards of {logged:,} of {k:,} arms
(an arm is one thing that can be chosen). On average a logged round earned {amount(offline.reference)}; the
true average of what was logged lies between {amount(low)} and {amount(high)}. Going on as before would earn
this in every round: all losses and gains here are against that, added up over {preview.horizon:,} rounds to
come. {parameter}</p>
<p>The policy starts from this log and learns as it goes. It tries something new only while what it has
earned, or what it has proven, pays for it; otherwise it does what is known to be safe. It was played in
{preview.worlds:,} <i>plausible worlds</i>: average rewards of all arms, drawn at random among those that
could have written this log.</p>"""


def prior_warning(preview: Preview, offline: Offline) -> str:
    """Where the worlds come from where the log says nothing."""
    silent = int((offline.pulls == 0).sum())
    return f"""<strong>What the log does not say, we had to assume.</strong> {silent:,} of
{offline.pulls.size:,} arms were never tried, so the log knows them only through their resemblance to those
that were. There the worlds follow a prior of scale {preview.prior:g} (--prior): how long the vector that
turns features into average rewards may be. A larger scale makes untried arms both better and worse, and
gains and losses larger. If you are unsure of it, preview with half and with twice as much. The guarantees
do not depend on it."""


def values_section(preview: Preview, limit: float | None) -> str:
    """One row for each value of the parameter, the recommended ones marked."""
    marks = recommended(preview, limit)
    head = (
        "tolerance" if preview.parameter == "epsilon" else "alpha",
        "guaranteed to lose at most",
        "lost at worst, 9 worlds of 10",
        "lost at worst, any world",
        "gain at the end, mean",
        "8 worlds of 10",
        "exploring rounds",
        "first at round",
    )
    body = "".join(
        f"<tr{' class=chosen' if point.value in marks else ''}>"
        + "".join(f"<td>{escape(text)}</td>" for text in value_cells(point.row(preview.horizon)))
        + f'<td class="note">{escape(marks.get(point.value, ""))}</td></tr>\n'
        for point in preview.points
    )
    columns = "".join(f"<th>{name}</th>" for name in head)
    return f"""<section><h2>What each {noun(preview)} brings</h2>
<p>Sums over {preview.horizon:,} rounds, in units of reward, against the log's average. “Lost at worst” is the
deepest point on the way, “gain” where it ends.</p>
<div class="scroll"><table class="values"><thead><tr>{columns}<th></th></tr></thead>
<tbody>{body}</tbody></table></div></section>"""


def value_cells(row: dict[str, Any]) -> list[str]:
    """What a value of the parameter brings, for people."""
    guaranteed, first = row["guaranteed_loss"], row["first_explored"]
    never = f" (never in {row['never_explored']:.0%})" if row["never_explored"] else ""
    return [
        f"{row['knob']:g}",
        "no promise" if guaranteed is None else amount(guaranteed),
        amount(row["worst_loss_90"]),
        amount(row["worst_loss_max"]),
        signed(row["gain_mean"]),
        spread(row, "gain"),
        f"{row['explored']:.0%}",
        "never" if first is None else f"{first:,.0f}{never}",
    ]


def recommended(preview: Preview, limit: float | None) -> dict[float, str]:
    """The values that are recommended, and by what."""
    if limit is None:
        return {}
    marks: dict[float, str] = {}
    for point, why in ((preview.guaranteed(limit), "guaranteed"), (preview.recommend(limit), "seen")):
        if point is not None:
            marks[point.value] = f"{marks[point.value]} and {why}" if point.value in marks else why
    return {value: f"within your limit: {why}" for value, why in marks.items()}


def pictures(preview: Preview, limit: float | None) -> str:
    """The trade-off and the exploration, as drawings inside the page."""
    drawn = (
        (figures.draw_tradeoff(preview, limit), "trade", "gain at the end against the deepest loss"),
        (figures.draw_losses(preview, limit), "losses", "losses seen and guaranteed"),
        (figures.draw_share(preview), "share", "share of exploring rounds"),
        (figures.draw_first(preview), "first", "round of the first exploration"),
    )
    trade, losses, share, first = (picture(figure, prefix, label) for figure, prefix, label in drawn)
    return f"""<section><h2>The trade-off</h2>
<p>Left: each point is one {noun(preview)}; further right is a deeper loss on the way, higher is a larger gain
at the end. Right: what was lost at the deepest point, and what is guaranteed. The gap between the two is the
price of a promise that holds in every world, not only in plausible ones. Bars and bands hold eight worlds of
ten; lines across are means, or medians where it says so.</p>
<div class="pictures">{trade}{losses}</div>
<h2>How much it explores, and when it begins</h2>
<p>A round explores when the policy plays what it wants to learn about instead of what is safe.</p>
<div class="pictures">{share}{first}</div></section>"""


def picture(figure: Any, prefix: str, label: str) -> str:
    """A figure as part of the page."""
    with TemporaryDirectory() as folder:
        svg = figures.save(figure, Path(folder) / prefix)[1].read_text("utf-8")
    return f'<div class="figure">{inline(svg, prefix, label)}</div>'


def certificate_section(preview: Preview, limit: float | None) -> str:
    """The promise of the recommended value, line by line, and its symbols in words."""
    sure = None if limit is None else preview.guaranteed(limit)
    point = sure or own_point(preview)
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>\n"
        for name, text in certificate_rows(point.certificate, preview.horizon)
    )
    return f"""<section><h2>The certificate, with {setting(preview, point)}</h2>
<p>What is guaranteed before the first round, and what the guarantee leans on. If one of the assumptions
does not hold where you work, neither does the guarantee.</p>
<table class="certificate"><tbody>{rows}</tbody></table></section>"""


WORDS = (
    ("R_off_t", "R_off_t: how much less the first t rounds earn together than t rounds of the log's average"),
    ("vacuous", "vacuous: a promise that says nothing, because no play at all could lose more"),
    ("epsilon", "epsilon: the tolerance per round"),
    (
        "kappa",
        "kappa: how far playing the log's arms in its own proportions can be off by rounding, in plays",
    ),
    ("hi - lo", "hi - lo: the width of the range of average rewards"),
    ("alpha", "alpha: the paper's parameter"),
    (" S ", "S: the average uncertainty about a logged reward"),
    ("r_b", "r_b: the reward per round that the budget protects"),
    ("|theta|", "|theta|: the length of the vector that turns features into average rewards"),
    ("sub-Gaussian", "sub-Gaussian: no wilder than a normal distribution with that standard deviation"),
)


def certificate_rows(certificate: Certificate, rounds: int) -> Iterable[tuple[str, str]]:
    """The certificate as it prints itself, and then every symbol in it in words."""
    rows = certificate.rows(rounds=rounds)
    text = " ".join(f"{name} {text}" for name, text in rows)
    return [*rows, *(("in words", words) for symbol, words in WORDS if symbol in text)]


def arms_section(preview: Preview, offline: Offline, names: Sequence[str]) -> str:
    """What the log tried most, and which arms are best in the plausible worlds."""
    most = np.argsort(-offline.pulls, kind="stable")[:SHOWN]
    tried = "".join(
        f"<tr><td>{escape(names[arm])}</td><td>{int(offline.pulls[arm]):,}</td>"
        f"<td>{amount(float(offline.reward_sums[arm] / offline.pulls[arm]))}</td></tr>\n"
        for arm in most
        if offline.pulls[arm]
    )
    best = Counter(preview.best.tolist()).most_common(SHOWN)
    untried = float((offline.pulls[preview.best] == 0).mean())
    winners = "".join(
        f"<tr><td>{escape(names[arm])}</td><td>{count / preview.worlds:.0%}</td>"
        f"<td>{int(offline.pulls[arm]):,}</td></tr>\n"
        for arm, count in best
    )
    return f"""<section><h2>The arms</h2>
<p>In {untried:.0%} of the plausible worlds the best arm is one that the log never tried: only exploring can
find it.</p>
<div class="pair">
<table><caption>Tried most often</caption><thead><tr><th>arm</th><th>times</th><th>average
reward</th></tr></thead>
<tbody>{tried}</tbody></table>
<table><caption>Best most often</caption><thead><tr><th>arm</th><th>of the worlds</th><th>times
tried</th></tr>
</thead><tbody>{winners}</tbody></table>
</div></section>"""


STYLE = """
.answers { background: var(--box); border-radius: 8px; padding: .9rem 1.2rem .9rem 2.4rem;
  margin: .8rem 0 1.2rem; }
.answers li { margin: .35rem 0; max-width: 56rem; }
.warning { border-left: 4px solid var(--open); padding: .1rem 0 .1rem .9rem; max-width: 56rem; }
.values td, .pair td { font-variant-numeric: tabular-nums; white-space: nowrap; }
.values th { white-space: normal; vertical-align: bottom; min-width: 5.5rem; }
.values td:not(:last-child), .values th:not(:last-child) { text-align: right; padding-right: 1.1rem; }
.values .chosen td { font-weight: 700; background: var(--box); }
.values .chosen td.note { color: var(--good); font-weight: 400; }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
.pictures .figure { margin: 0; }
.certificate th { padding-right: 1.4rem; }
.certificate td { max-width: 46rem; }
.pair { display: flex; flex-wrap: wrap; gap: 1rem 3rem; align-items: flex-start; }
.pair caption { text-align: left; font-weight: 600; padding: .3rem 0; }
.pair td:not(:first-child), .pair th:not(:first-child) { text-align: right; padding-left: 1rem; }
.pair td:first-child { white-space: normal; overflow-wrap: anywhere; max-width: 20rem; }
@media (max-width: 44rem) { .certificate th, .certificate td { display: block; border: 0; padding: .1rem 0;
  white-space: normal; }
  .certificate tr { display: block; padding: .4rem 0; border-bottom: 1px solid var(--line); } }
"""
