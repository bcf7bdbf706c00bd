from __future__ import annotations

import json
from decimal import Decimal
from math import sqrt
from typing import Any

import numpy as np
import pytest
from helpers.fakes import fake_results

from linoto.core.arrays import Floats
from linoto.experiments import paper
from linoto.experiments.claims import (
    RESULTS,
    CheckedClaim,
    Claim,
    ClaimResult,
    Measurement,
    check_claims,
    distance,
    student,
)
from linoto.experiments.sentences import CLAIMS
from linoto.experiments.settings import Setting

EXPERIMENTS = {experiment.name: experiment for group in paper.FIGURES.values() for experiment in group}
CLAIM = {claim.name: claim for claim in CLAIMS}


def spread(mean: float, error: float, runs: int = 10) -> Floats:
    """Values with exactly this mean and standard error."""
    noise = np.random.default_rng(0).standard_normal(runs)
    noise -= noise.mean()
    return np.asarray(mean + noise * error / (noise.std(ddof=1) / sqrt(runs)))


# -- the rule ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "error", "verdict"),
    [
        (0.0, 1.0, "holds"),
        (0.0, 5.0, "undecided"),
        (9.0, 1.0, "undecided"),  # inside, but too near the end
        (11.0, 1.0, "undecided"),  # outside, but too near the end
        (13.0, 1.0, "does not hold"),
        (-13.0, 1.0, "does not hold"),
    ],
)
def test_a_mean_is_judged_with_its_error(mean: float, error: float, verdict: str) -> None:
    measured = Measurement(label="x", values=spread(mean, error), low=-10, high=10)
    assert measured.result == verdict
    assert (measured.mean, measured.error) == (pytest.approx(mean), pytest.approx(error))


def test_one_run_decides_nothing() -> None:
    assert Measurement(label="x", values=np.array([100.0]), high=1).result == "undecided"


def by_what_is_printed(measured: Measurement) -> str:
    """The result that a reader finds with the printed numbers and nothing else."""
    unit = 100 if measured.percent else 1
    mean, margin = map(Decimal, str(measured).removesuffix(" %").split(" ± "))
    low, high = (Decimal(unit) * Decimal(str(end)) for end in (measured.low, measured.high))
    if low < mean - margin and mean + margin < high:
        return "holds"
    return "does not hold" if mean + margin < low or mean - margin > high else "undecided"


@pytest.mark.parametrize("percent", [True, False])
@pytest.mark.parametrize("ends", [(-0.1, 0.1), (0.0, np.inf), (-np.inf, 0.05)])
def test_what_is_printed_decides(ends: tuple[float, float], percent: bool) -> None:
    rng = np.random.default_rng(5)
    for runs in (2, 5, 30):
        for size in (1e-6, 1e-3, 0.1, 3.0):
            values, per = size * rng.normal(rng.normal(), 1, runs), rng.uniform(0.2, 3, runs)
            measured = Measurement(
                label="x", values=values, per=per, low=ends[0], high=ends[1], percent=percent
            )
            assert measured.result == by_what_is_printed(measured), (str(measured), measured.wanted)


def test_more_digits_are_printed_where_the_margin_nearly_touches_the_limit() -> None:
    close = Measurement(label="x", values=spread(0.0251, 0.011), low=0)  # ten runs: the margin is 2.489 %
    assert (str(close), close.result) == ("2.51 ± 2.49 %", "holds")


def test_a_difference_of_nothing_is_decided_however_noisy_its_unit() -> None:
    """Two policies that play the same arms: 0 of any unit, in two runs as in ten."""
    for per in (np.array([0.01, 900.0]), np.random.default_rng(6).exponential(1, 10)):
        same = Measurement(label="x", values=0 * per, per=per, low=-0.1, high=0.1)
        assert (str(same), same.result) == ("0.0 ± 0.0 %", "holds")
        straight = Measurement(label="x", values=0.5 * per, per=per, low=0.475, high=0.525)
        assert (str(straight), straight.result) == ("50.0 ± 0.0 %", "holds")


def test_exactly_at_the_end_is_inside_where_equal_is_enough() -> None:
    for high in (False, True):
        ends: dict[str, Any] = {"high": 0} if high else {"low": 0}
        assert Measurement(label="x", values=np.zeros(10), **ends).result == "does not hold"
        assert Measurement(label="x", values=np.zeros(10), **ends, or_equal=True).result == "holds"
        tiny = np.full(10, 1e-15)  # a rounding error is not an improvement
        assert Measurement(label="x", values=tiny, **ends).result == "does not hold"
    assert Measurement(label="x", values=np.zeros(10), low=-1, high=1).result == "holds"


def test_no_undecided_part_prints_a_margin_of_nothing() -> None:
    for error in (1e-7, 1e-5, 1e-3):
        close = Measurement(label="x", values=spread(0.5 * error, error), low=0)
        assert close.result == "undecided" and not str(close).endswith("± 0.0 %")


def test_a_ratio_has_the_ratio_of_means_and_the_delta_method_s_error() -> None:
    rng = np.random.default_rng(1)
    per = rng.uniform(1, 2, 4000)
    values = 0.3 * per + rng.normal(0, 0.1, 4000)
    measured = Measurement(label="x", values=values, per=per, high=0.31)
    assert measured.mean == pytest.approx(values.mean() / per.mean())
    assert measured.error == pytest.approx(0.1 / 1.5 / sqrt(4000), rel=0.05)
    assert measured.result == "holds"


def test_a_ratio_without_a_unit_says_so() -> None:
    nothing = Measurement(label="x", values=np.full(5, 2000.0), per=np.zeros(5), high=0.1)
    assert nothing.result == "undecided" and np.isnan(nothing.mean)
    assert str(nothing) == "cannot be said: its unit is 0"


def test_one_failure_fails_a_claim_and_all_must_hold() -> None:
    good, bad, open_ = (Measurement(label="x", values=spread(m, 1.0), low=0) for m in (9.0, -9.0, 0.5))
    assert [m.result for m in (good, bad, open_)] == ["holds", "does not hold", "undecided"]
    claim = CLAIMS[0]
    assert CheckedClaim(claim=claim, measurements=(good, good)).result == "holds"
    assert CheckedClaim(claim=claim, measurements=(good, open_)).result == "undecided"
    mixed = CheckedClaim(claim=claim, measurements=(open_, bad, good))
    assert mixed.result == "does not hold"
    assert {name: len(labels) for name, labels in mixed.parts.items()} == dict.fromkeys(RESULTS, 1)
    assert [part["verdict"] for part in mixed.to_dict()["measurements"]] == [
        "undecided",
        "does not hold",
        "holds",
    ]


@pytest.mark.parametrize("runs", [5, 6, 10])
@pytest.mark.few(1)
def test_false_alarms_are_as_rare_as_stated(runs: int) -> None:
    # True mean exactly at the end of the interval: decided 5 % of the time by Student's t. 4000 trials have a
    # standard error of 0.34 %; the bars are more than four away.
    rng = np.random.default_rng(2)
    decided = sum(
        Measurement(label="x", values=rng.standard_normal(runs), low=0).result != "undecided"
        for _ in range(4000)
    )
    assert 0.035 < decided / 4000 < 0.07


@pytest.mark.parametrize(("few", "many"), [(0.0, 0.0), (0.5, 0.5), (0.5, -0.5), (3.0, -3.0)])
@pytest.mark.few(2)
def test_equal_distances_are_as_rarely_told_apart_as_stated(few: float, many: float) -> None:
    # At most 5 %, less where the signs are unsure; 1500 trials, four standard errors above.
    rng = np.random.default_rng(3)
    decided = 0
    for _ in range(1500):
        one, two, shared = rng.standard_normal((3, 30))
        unit = rng.normal(5, 0.2, 30)
        values = distance(few + one + shared, unit) - distance(many + 2 * two + shared, unit)
        decided += Measurement(label="x", values=values, low=0).result != "undecided"
    assert decided / 1500 < 0.073


def test_a_distance_is_that_of_the_means_and_has_its_error() -> None:
    rng = np.random.default_rng(4)
    per = rng.normal(5, 0.5, 50)
    values = -0.4 * per + rng.standard_normal(50)
    ratio = Measurement(label="x", values=values, per=per, low=0)
    far = Measurement(label="x", values=distance(values, per), low=0)
    assert ratio.mean < 0 < far.mean
    assert (far.mean, far.error) == (pytest.approx(-ratio.mean), pytest.approx(ratio.error))
    assert Measurement(label="x", values=distance(values, 0 * per), low=0).result == "undecided"


@pytest.mark.parametrize(
    ("dof", "quantile"), [(1, 12.706), (4, 2.776), (5, 2.571), (9, 2.262), (29, 2.045), (1000, 1.962)]
)
def test_student_s_quantiles(dof: int, quantile: float) -> None:
    assert student(dof) == pytest.approx(quantile, rel=2e-3)


# -- the sentences ----------------------------------------------------------------------------------------


def verdict(
    name: str, rates: dict[str, float], power: dict[str, float] | None = None, part: str = ""
) -> ClaimResult:
    """The verdict on a part of a claim if each policy's regret is rate * t^power, noise of 1 % apart."""

    def formula(setting: Setting, label: str, run: int, rounds: Floats) -> Floats:
        rng = np.random.default_rng([run, sum(map(ord, label + setting.name))])
        key = next((key for key in rates if key in (f"{setting.name} {label}", label)), "")
        rate = rates.get(f"{setting.name} {label}", rates.get(label, 1.0)) if key else 1.0
        return np.asarray(rate * rounds ** (power or {}).get(label, 1.0) * rng.normal(1, 0.01))

    claim = CLAIM[name]
    results = fake_results(EXPERIMENTS[claim.experiment], formula)
    (found,) = check_claims([claim], {claim.experiment: results})
    parts = tuple(one for one in found.measurements if one.label.endswith(part))
    return CheckedClaim(claim=claim, measurements=parts).result


@pytest.mark.parametrize(
    ("name", "rates", "expected"),
    [
        ("short-horizon-tracks-lcb", {"LinOtO": 0.31, "LinLCB": 0.30}, "holds"),
        ("short-horizon-tracks-lcb", {"LinOtO": 0.40, "LinLCB": 0.30}, "does not hold"),
        ("lcb-linear", {"LinLCB": 0.3}, "holds"),
        ("low-initial-regret", {"LinOtO": 0.2, "LinUCB": 0.4}, "holds"),
        ("low-initial-regret", {"LinOtO": 0.5, "LinUCB": 0.4}, "does not hold"),
        ("size-between", {"LinOtO": 0.3, "LinUCB": 0.4, "LinLCB": 0.2}, "holds"),
        ("size-between", {"LinOtO": 0.3, "LinUCB": 0.2, "LinLCB": 0.4}, "holds"),
        ("size-between", {"LinOtO": 0.5, "LinUCB": 0.4, "LinLCB": 0.2}, "does not hold"),
        ("size-improves", {"m=100 LinOtO": 3, "m=500 LinOtO": 2, "m=1000 LinOtO": 1}, "holds"),
        ("size-improves", {"m=100 LinOtO": 3, "m=500 LinOtO": 1, "m=1000 LinOtO": 2}, "does not hold"),
        ("best-lcb-near-zero", {"LinLCB": 0.01, "Random": 0.5}, "holds"),
        ("best-lcb-near-zero", {"LinLCB": 0.10, "Random": 0.5}, "does not hold"),
        ("best-lcb-best", {"LinLCB": 0.1}, "holds"),
        ("best-lcb-best", {"LinLCB": 2.0}, "does not hold"),
        ("nearly-the-better-size", {"LinOtO": 0.31, "LinUCB": 0.5, "LinLCB": 0.3}, "holds"),
        ("nearly-the-better-size", {"LinOtO": 0.40, "LinUCB": 0.5, "LinLCB": 0.3}, "does not hold"),
        ("best-converges", {"LinUCB x 1": 0.01, "LinOtO x 1": 0.01, "Random": 0.5}, "holds"),
        ("best-converges", {"LinUCB x 1": 0.20, "LinOtO x 1": 0.01, "Random": 0.5}, "does not hold"),
        ("budget-similar", {"exact": 0.3, "aggregate": 0.302}, "holds"),
        ("budget-similar", {"exact": 0.3, "aggregate": 0.4}, "does not hold"),
        ("doubling", {"known horizon": 0.3, "doubling": 0.6}, "holds"),
        ("doubling", {"known horizon": 0.1, "doubling": 0.6}, "does not hold"),
        ("pareto", {"alpha=0.0001": 0.2, "alpha=10000": 0.4}, "does not hold"),
    ],
)
def test_a_sentence_about_sizes_is_judged_right(name: str, rates: dict[str, float], expected: str) -> None:
    assert verdict(name, rates) == expected


@pytest.mark.parametrize(("power", "expected"), [(0.5, "holds"), (0.9, "holds"), (1.3, "does not hold")])
@pytest.mark.parametrize("name", ["sublinear", "size-sublinear", "long-horizon-matches-ucb"])
def test_a_sentence_about_growth_is_judged_right(name: str, power: float, expected: str) -> None:
    assert verdict(name, {"LinOtO": 1.0}, {"LinOtO": power}, part="sublinear") == expected


@pytest.mark.parametrize(
    ("name", "rates", "part", "expected"),
    [
        ("long-horizon-matches-ucb", {"LinOtO": 0.3, "LinUCB": 0.3}, "matching LinUCB", "holds"),
        ("long-horizon-matches-ucb", {"LinOtO": 0.4, "LinUCB": 0.3}, "matching LinUCB", "does not hold"),
        ("long-horizon-matches-ucb", {"LinOtO": 0.3, "LinUCB": 0.3}, "sublinear", "does not hold"),
        ("sublinear", {"LinOtO": 0.3, "LinUCB": 0.3}, "similar to LinUCB", "holds"),
        ("sublinear", {"LinOtO": 0.4, "LinUCB": 0.3}, "similar to LinUCB", "does not hold"),
        ("size-sublinear", {"LinOtO": 0.3}, "explores", "holds"),
        ("size-lcb-linear", {"LinLCB": 0.3}, "suboptimal", "holds"),
        ("size-lcb-linear", {"LinLCB": 0.0}, "suboptimal", "does not hold"),
        ("alpha-large", {"alpha=10000": 0.3, "LinUCB": 0.3}, "closer", "holds"),
        ("alpha-large", {"alpha=10000": 0.2, "LinUCB": 0.3}, "closer", "does not hold"),
        (
            "alpha-large",
            {},
            "budget positive more often",
            "does not hold",
        ),  # every round of the fakes explores
        ("best-converges", {"LinUCB x 1": 0.2, "LinOtO x 1": 0.2, "Random": 1.0}, "amount", "does not hold"),
        ("best-converges", {"LinUCB x 1": 0.01, "LinOtO x 1": 0.01, "Random": 1.0}, "amount", "holds"),
    ],
)
def test_each_part_of_a_sentence_is_judged_by_itself(
    name: str, rates: dict[str, float], part: str, expected: str
) -> None:
    assert verdict(name, rates, part=part) == expected


def test_equal_is_between_and_not_below() -> None:
    def same(_setting: Setting, _label: str, run: int, rounds: Floats) -> Floats:
        return np.asarray((1 + run) * rounds)

    results = {name: fake_results(EXPERIMENTS[name], same) for name in ("offline-size", "offline-size-best")}
    found = {one.claim.name: one.result for one in check_claims(CLAIMS, results)}
    assert (found["size-between"], found["best-lcb-best"]) == ("holds", "does not hold")


@pytest.mark.parametrize(
    ("few", "many", "expected"),
    [
        ((1.0, 1.2), (1.0, 1.1), "holds"),  # LinUCB's and LinOtO's regret per round
        ((1.0, 0.8), (1.0, 1.1), "holds"),  # nearer, on the other side
        ((1.0, 1.1), (1.0, 0.8), "does not hold"),
        ((1.0, 1.2), (0.1, 0.15), "does not hold"),  # less in regret, more as a share
    ],
)
def test_closer_is_a_smaller_share_on_either_side(
    few: tuple[float, float], many: tuple[float, float], expected: str
) -> None:
    rates = {
        f"{size} {label}": rate
        for size, pair in (("m=100", few), ("m=1000", many))
        for label, rate in zip(("LinUCB", "LinOtO"), pair, strict=True)
    }
    assert verdict("size-closer-to-ucb", rates) == expected


def test_noise_that_differs_from_run_to_run_is_no_distance() -> None:
    """At m = 1000 the regrets differ in every run, now this way and now that; on average not at all."""

    def formula(setting: Setting, label: str, run: int, rounds: Floats) -> Floats:
        apart = {"m=100": 0.1, "m=1000": 0.5 * (-1) ** run}.get(setting.name, 0.0)
        return np.asarray((1 + apart * (label == "LinOtO")) * rounds)

    results = {"offline-size": fake_results(EXPERIMENTS["offline-size"], formula)}
    (finding,) = check_claims([CLAIM["size-closer-to-ucb"]], results)
    assert finding.result == "undecided"
    assert finding.measurements[0].mean == pytest.approx(0.1)


@pytest.mark.parametrize(("until", "expected"), [(0.5, "holds"), (1.0, "does not hold")])
def test_a_gap_that_stops_growing_at_half_time_is_a_constant(until: float, expected: str) -> None:
    def formula(setting: Setting, label: str, run: int, rounds: Floats) -> Floats:
        more = 0.2 * np.minimum(rounds, until * setting.horizon) / until
        return np.asarray((1 + run / 100) * (rounds + more * (label == "LinOtO")))

    results = {"dimension": fake_results(EXPERIMENTS["dimension"], formula)}
    assert check_claims([CLAIM["comparable-to-ucb"]], results)[0].result == expected


def test_root_regret_is_not_linear() -> None:
    assert verdict("lcb-linear", {"LinLCB": 1.0}, {"LinLCB": 0.5}) == "does not hold"


def linear(_setting: Setting, _label: str, run: int, rounds: Floats) -> Floats:
    return np.asarray((1 + run / 100) * rounds)


def test_every_claim_can_be_judged_and_written_down() -> None:
    results = {name: fake_results(experiment, linear) for name, experiment in EXPERIMENTS.items()}
    findings = check_claims(CLAIMS, results)
    assert [finding.claim.name for finding in findings] == [claim.name for claim in CLAIMS]
    assert all(finding.measurements for finding in findings)
    data = json.loads(json.dumps([finding.to_dict() for finding in findings], allow_nan=False))
    assert {entry["verdict"] for entry in data} <= {"holds", "does not hold", "undecided"}


def test_a_policy_without_any_regret_can_be_judged_and_written_down() -> None:
    def perfect(_setting: Setting, label: str, _run: int, rounds: Floats) -> Floats:
        return np.zeros(rounds.size) if label == "LinLCB" else rounds

    results = {"offline-size-best": fake_results(EXPERIMENTS["offline-size-best"], perfect)}
    found = {finding.claim.name: finding for finding in check_claims(CLAIMS, results)}
    assert found["best-lcb-near-zero"].result == "holds"
    assert found["best-nearly-the-better"].result == "does not hold"
    json.dumps([finding.to_dict() for finding in found.values()], allow_nan=False)


def test_only_claims_about_what_was_run_are_judged() -> None:
    findings = check_claims(CLAIMS, {"alpha": fake_results(EXPERIMENTS["alpha"], linear)})
    assert {finding.claim.experiment for finding in findings} == {"alpha"}


def test_claims_are_complete_and_distinct() -> None:
    assert len(CLAIM) == len(CLAIMS)
    assert {claim.experiment for claim in CLAIMS} == set(EXPERIMENTS)
    for claim in CLAIMS:
        assert isinstance(claim, Claim) and claim.quote and claim.source and claim.measure


def test_numbers_print_with_their_unit_and_their_wish() -> None:
    values = spread(0.123, 0.01)
    assert str(Measurement(label="x", values=values, high=0.05)) == "12.3 ± 2.3 %"  # 2.26 errors at ten runs
    assert str(Measurement(label="x", values=spread(0.123, 0.001), high=0.05)) == "12.30 ± 0.23 %"
    assert Measurement(label="x", values=values, low=0, or_equal=True).wanted == "at least 0 %"
    assert Measurement(label="x", values=values, high=0.1, or_equal=True).wanted == "at most 10 %"
    assert Measurement(label="x", values=values, high=0.05).wanted == "below 5 %"
    assert Measurement(label="x", values=values, low=0).wanted == "above 0 %"
    assert Measurement(label="x", values=values, low=-0.1, high=0.1).wanted == "-10 % to 10 %"
    assert str(Measurement(label="x", values=values, percent=False)) == "0.123 ± 0.023"
    assert str(Measurement(label="x", values=values[:1] * 0 + 0.5)) == "50.0 %"


# -- what would change a result ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "low", "high"),
    [(3.0, -np.inf, 10.0), (7.0, 0.0, np.inf), (12.0, -np.inf, 4.0), (2.0, -9.0, 5.0)],
)
def test_the_result_changes_at_the_limit_that_is_named(mean: float, low: float, high: float) -> None:
    values = spread(mean, 1.0, runs=40)
    measured = Measurement(label="x", values=values, low=low, high=high, percent=False)
    named = float(measured.turning.removeprefix("a limit of "))
    moves_high = high < np.inf and (np.isinf(low) or high - mean < mean - low)

    def at(limit: float) -> str:
        ends: dict[str, Any] = {"low": low, "high": limit} if moves_high else {"low": limit, "high": high}
        return Measurement(label="x", values=values, **ends).result

    assert {at(named - 0.01), at(named + 0.01)} == {measured.result, "undecided"}


def test_the_runs_that_are_named_decide() -> None:
    few = Measurement(label="x", values=spread(1.0, 1.0, runs=20), low=0)
    assert few.result == "undecided" and few.turning == "about 77 runs"  # 20 x 1.96^2
    assert Measurement(label="x", values=spread(1.0, sqrt(20 / 80), runs=80), low=0).result == "holds"
    assert Measurement(label="x", values=spread(0.0, 1.0), low=0).turning == "no number of runs"
    assert Measurement(label="x", values=np.array([3.0]), low=0).turning == "more runs"


def test_a_claim_is_checked_with_the_exact_budget_too() -> None:
    def formula(setting: Setting, label: str, run: int, rounds: Floats) -> Floats:
        rng = np.random.default_rng([run, len(label)])
        return np.asarray({"LinUCB": 1.0, paper.LINOTO: 1.01, paper.EXACT: 1.2}.get(label, 3.0) * rounds) * (
            rng.normal(1, 0.001)
        )

    claim = CLAIM["nearly-the-better-horizon"]
    found = check_claims([claim], {"horizon": fake_results(EXPERIMENTS["horizon"], formula)})[0]
    assert (found.result, found.exact) == ("holds", "does not hold")
    assert found.changed_by_exact == dict.fromkeys(("n=1000", "n=4000", "n=8000"), "does not hold")
    assert found.to_dict()["exact_budget"] == "does not hold"
    alphas = check_claims([CLAIM["alpha-large"]], {"alpha": fake_results(EXPERIMENTS["alpha"], formula)})[0]
    assert alphas.exact is None
