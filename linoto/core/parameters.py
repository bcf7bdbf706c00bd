"""A composition as the kernels read it: codes and scalars."""

from __future__ import annotations

from math import exp, log, log1p
from typing import Any

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats, Records
from linoto.core.certificates import check_range
from linoto.core.confidence import Confidence, RadiusTerms, radius_terms, terms_of_log
from linoto.core.explorers import forgetting_of, rule_of
from linoto.core.features.moments import Moments
from linoto.core.gates import mixture_rounding
from linoto.core.offline import Offline
from linoto.core.one_hot import find_one_hot, squared_lengths
from linoto.core.protocols import Composition
from linoto.core.rails import share_of
from linoto.core.validation import as_arm, exact

FALLBACK_CODES: dict[str | int, int] = {
    "lcb": kernels.LCB_ARM,
    "frozen": kernels.FROZEN_ARM,
    "mixture": kernels.MIXTURE,
    "certified": kernels.CERTIFIED,
}
FALLBACKS_IN_ROUNDS = ("lcb", "mixture", "certified")
REACHES = ("proposal", "affordable")
LAWS = ("posterior", "agrawal-goyal", "abeille-lazaric", "whole prior")


def check_scales(ridge: float, actions: Floats, offline: Offline) -> None:
    """Refuse numbers so large or small that V would overflow or vanish."""
    with np.errstate(over="ignore"):
        largest = float(squared_lengths(actions).max()) * max(int(offline.pulls.max()), 1) / ridge
    if not np.isfinite(largest) or largest > 1e200:
        raise ValueError(
            f"actions must be of a size that ridge {ridge:g} can regularise, got |a|^2 / ridge = {largest:g}"
        )


def is_arm(fallback: Any) -> bool:
    """Whether a fallback names one arm."""
    return isinstance(fallback, int | np.integer) and not isinstance(fallback, bool)


def params_of(composition: Composition, actions: Floats, offline: Offline) -> Records:
    """(1,) for these arms (k, d) and this log; (2,) with a shift: the second without the log."""
    params = params_with(composition, composition.assumed, actions, offline)
    if composition.assumed.shift == 0:
        return params
    alone = params_with(composition, composition.assumed.without_log(), actions, offline)
    return np.concatenate([params, alone_of(alone)])


def alone_of(alone: Records) -> Records:
    """The parameters of the estimate without the log, which nothing but bounds is asked of."""
    alone["shift"], alone["explorer"], alone["by_rewards"], alone["joint"] = 0.0, kernels.UCB, 0, 0
    return alone


def params_with(
    composition: Composition, confidence: Confidence, actions: Floats, offline: Offline
) -> Records:
    """The same for one estimate."""
    explorer, gate, fallback = composition.explorer, composition.gate, composition.fallback
    check_scales(confidence.ridge_for(actions.shape[1]), actions, offline)
    if rule_of(explorer).one_hot and find_one_hot(actions) is None:
        name = type(explorer).__name__
        raise ValueError(f"actions must be one-hot for {name}, got arms that share features")
    if confidence.radius == "arms" and gate.bounds_sums(confidence):
        raise ValueError(f"radius must be another than 'arms' for {gate!r}: it bounds sums of arms")
    params = explorer_params(composition, actions.shape[1], radius_terms(confidence, actions, offline))
    p = params[0]
    fill_odds(p, explorer, offline.total, float(offline.reward_sums.sum()))
    gate.fill(p, share_of(confidence, composition.guardrails), actions, offline)
    if is_arm(fallback):
        p["fallback"], p["fixed_arm"] = kernels.FIXED_ARM, as_arm(fallback, len(actions), "fallback")
    else:
        p["fallback"] = FALLBACK_CODES[composition.resolved_fallback()]
    if p["fallback"] == kernels.MIXTURE and not gate.keeps_ledger:
        if offline.total == 0:
            raise ValueError("offline must hold at least one reward for fallback='mixture', got none")
        p["kappa"] = 0.0 if gate.throws_coin else mixture_rounding(offline)  # drawn, not rounded
    return params


def explorer_params(composition: Composition, d: int, terms: RadiusTerms) -> Records:
    """What explorer and confidence are, as the kernels read it, in d dimensions."""
    confidence, explorer = composition.assumed, composition.explorer
    params = np.zeros(1, dtype=kernels.PARAMS)
    p, rule = params[0], rule_of(explorer)
    if rule.bounded and confidence.noise != "bounded":
        name, noise = type(explorer).__name__, confidence.noise
        raise ValueError(f"noise must be 'bounded', with a reward_range, for {name}, got {noise!r}")
    p["shift"], (p["memory"], p["fade"]) = confidence.shift, forgetting_of(explorer)
    p["explorer"], p["draws"], p["keeps_factor"] = rule.code, rule.draws, rule.keeps_factor
    p["scale"] = getattr(explorer, "scale", 0.0)
    p["log_shift"] = getattr(explorer, "log_shift", 0.0)
    least = None if confidence.reward_range is None else confidence.reward_range[0]
    p["floor"] = least if least is not None and confidence.radius == "arms" else -np.inf
    p["estimates_noise"] = getattr(explorer, "estimates_noise", False)
    p["law"] = LAWS.index(getattr(explorer, "law", "posterior"))
    p["level"], p["growth"] = log(1 / confidence.delta), log1p(getattr(explorer, "growth", 0.0))
    p["reach"] = REACHES.index(composition.reach)
    p["noise"], p["ridge"] = confidence.scale, confidence.ridge_for(d)
    p["radius_fixed"], p["radius_level"], p["bias"], p["prior_is_log"], p["fixed_radius"] = terms
    if confidence.noise == "bounded" and confidence.reward_range is not None:
        low, high = confidence.reward_range  # what leaves it is refused, whatever the gate makes of it
        p["bounded"], p["low"], p["unit"] = 1, low, high - low
    return params


def fill_odds(p: np.void, explorer: object, rows: int, reward_sum: float) -> None:
    """What an explorer of clicks makes of the log's rate: half a click and half a miss are added to it."""
    spread = getattr(explorer, "spread", None)
    if spread is None:
        return
    clicks = min(max((reward_sum - p["low"] * rows) / p["unit"], 0.0), float(rows))
    rate = getattr(explorer, "rate", None) or (clicks + 0.5) / (rows + 1)
    p["precision"], p["curve"], p["odds"] = spread**-2, rate * (1 - rate), log(rate / (1 - rate))


def why_no_rounds(composition: Composition, moments: Moments) -> str | None:
    """Why a composition has no theorem for rounds that bring their own arms, or None."""
    confidence, gate, fallback = composition.assumed, composition.gate, composition.resolved_fallback()
    reason = gate.why_no_rounds(confidence)
    if reason is not None:
        return reason
    if confidence.radius == "own" and not rests_on_no_set(composition):
        return (
            f"radius must be another than 'own' for {gate!r} with fallback {fallback!r}: its bounds are of "
            "all features"
        )
    by_values = [rail for rail in composition.guardrails if not gate.trusts_model_of(rail)]
    if by_values and not gate.throws_coin:
        return (
            f"gate must be a Control for guardrails with contexts, got {type(gate).__name__}: what practice "
            "has of a metric depends on the context, so the log's mean is no reference (with a bound and "
            "sums of each metric the model can pay)"
        )
    if fallback in FALLBACKS_IN_ROUNDS and not (gate.throws_coin and fallback != "mixture"):
        return None
    words = "'auto' or 'mixture'" if gate.throws_coin else "'auto', 'lcb' or 'mixture'"
    return f"fallback must be {words} with contexts, got {fallback!r}: practice is given with each decision"


def rests_on_no_set(composition: Composition) -> bool:
    """Whether nothing is promised by a confidence set: nothing at all, or what a coin alone keeps."""
    gate: Any = composition.gate
    if gate.code == kernels.OPEN:
        return True
    fallback = composition.resolved_fallback()
    by_set = gate.reads_bounds(composition.assumed) or not (fallback == "mixture" or is_arm(fallback))
    return bool(gate.throws_coin) and not by_set


def params_for_rounds(composition: Composition, moments: Moments) -> Records:
    """A composition as the kernels read it, for rounds that bring their own arms."""
    confidence = composition.assumed
    reason = why_no_rounds(composition, moments)
    if reason is not None:
        raise ValueError(reason)
    ridge = confidence.ridge_for(moments.d)
    largest = float(np.abs(moments.gram).max()) / ridge
    if not largest < 1e100 or ridge < 1e-100:
        raise ValueError(
            f"gram must be of a size that ridge {ridge:g} can regularise, got gram / ridge = {largest:g}"
        )
    if composition.gate.measures:
        check_range(confidence, moments)
    params = params_in_rounds(composition, confidence, moments)
    if confidence.shift == 0:
        return params
    alone = params_in_rounds(composition, confidence.without_log(), moments)
    return np.concatenate([params, alone_of(alone)])


def params_in_rounds(composition: Composition, confidence: Confidence, moments: Moments) -> Records:
    """The same for one estimate."""
    params = explorer_params(composition, moments.d, terms_of_log(confidence, moments.d, moments.spectrum))
    fill_odds_in_rounds(params[0], composition.explorer, moments)
    of_gate = share_of(confidence, composition.guardrails)
    composition.gate.fill_for_rounds(params[0], of_gate, moments)
    by_estimates = params[0]["share"] == kernels.CHEAP and not composition.guardrails
    params[0]["gives_way"] = by_estimates and rule_of(composition.explorer).gives_way
    params[0]["fallback"] = FALLBACK_CODES[composition.resolved_fallback()]  # the mixture is practice
    return params


def fill_odds_in_rounds(p: np.void, explorer: object, moments: Moments) -> None:
    """What an explorer of clicks makes of a log's sums: chances are linear in log-odds near the log's rate p.

    There log-odds are b + (chance - p) / (p (1 - p)), b those of p, and chances <theta, x>.
    """
    fill_odds(p, explorer, moments.count, moments.reward_sum)
    if p["precision"] > 0 and moments.count > 0:
        if p["low"] != 0:
            raise ValueError(
                f"reward_range must begin at 0 for {type(explorer).__name__} with contexts and a log, got "
                f"{exact(float(p['low']))}: the sums of a log do not say what else a reward of 0 is"
            )
        p["odds"] -= 1 + exp(float(p["odds"]))  # p / (p (1 - p))
