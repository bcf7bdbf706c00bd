"""How likely an arm is: over practice's draw, the coin, and the explorer's own draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic

from linoto.core import coins, kernels
from linoto.core.arrays import Bools, Floats
from linoto.core.decisions import Decision
from linoto.core.drivers.driver import Driver, Q
from linoto.core.explorers import Odds, Shares, all_shares, redraws_for, share_of

Redraw = Callable[[str, int], list[int]] | None  # what fresh draws would have proposed, or played
MOST_DRAWN = 20_000_000  # numbers of the draws that are asked for: 160 MB
MOST_WORK = 20_000_000  # multiplications of all draws: ten to twenty milliseconds


def propensity(
    driver: Driver[Q],
    arm: int,
    asked: Q,
    proposal: int | None,
    redraws: int,
    rng: Any,
    decided: Decision | None = None,
) -> float | None:
    """How likely `decide`, or `guard` of the proposal, plays this arm now; None where nobody can say."""
    redraw = Redraws(driver, asked, redraws, rng) if redraws else None
    if decided is not None:
        check_decided(decided, driver.running.rounds + 1)
    if decided is not None and decided.control_share is not None:  # else the room is no longer what it was
        return by_coin(driver, arm, asked, decided, proposal is not None, redraw)
    if driver.has_moved and not driver.gate.throws_coin:  # practice was drawn before, and stands
        return None
    decision = driver.peek(proposal, asked)
    if driver.gate.throws_coin:
        return by_coin(driver, arm, asked, decision, proposal is not None, redraw)
    safe, run = driver.safe_chance(arm, asked), driver.running.run
    if proposal is not None:
        return float(arm == proposal) if run["explored"] else safe
    accepted = driver.acceptable(asked)
    affordable = driver.affordable(asked) & accepted
    if not affordable.any():
        return safe
    best = bool(driver.running.params[0]["reach"] == kernels.AFFORDABLE)
    if best or not driver.mixes_practice:
        odds = Odds(
            played=int(run["arm"]),
            fallback=decision.fallback,
            allowed=accepted,
            affordable=affordable,
            best_affordable=best,
            chances=driver.chances(asked),
            redrawn=None if redraw is None else partial(redraw, "arm"),
        )
        return share_of(driver.rule.propensity(odds), arm)
    odds = odds_of_proposals(driver, asked, decision.proposal, redraw)
    proposed = driver.rule.propensity(odds)
    return None if proposed is None else mixed(all_shares(proposed, affordable.size), affordable, arm, safe)


def mixed(proposed: Floats, affordable: Bools, arm: int, safe: float) -> float:
    """How likely an arm is where proposals (k,) that cannot be afforded are replaced by what is safe."""
    return float(proposed[arm] * affordable[arm]) + float(proposed[~affordable].sum()) * safe


def by_coin(
    driver: Driver[Q], arm: int, asked: Q, decision: Decision, given: bool, redraw: Redraw
) -> float | None:
    """The same where a coin is thrown; `given`: the proposal is the caller's, and no draw."""
    certain = given or driver.rule.deterministic
    if driver.running.params[0]["loan"] > 0 and (driver.practice_is_drawn(asked) or not certain):
        if not certain or driver.has_moved:  # what vouches is asked anew
            return None
        return driver.vouched_propensity(arm, decision.proposal, asked)
    share = decision.control_share
    share = float(driver.running.run["entry_share"]) if share is None else share
    practice = driver.practice_chance(arm, asked)
    proposed: Shares | None = {decision.proposal: 1.0}
    if share == 1:
        return practice
    if not given and driver.has_forgotten(asked):
        return None
    if not certain:
        proposed = driver.rule.propensity(odds_of_proposals(driver, asked, decision.proposal, redraw))
    if proposed is None:
        return None
    chosen = share_of(proposed, arm) or 0.0
    likely = coins.mixed_propensity(chosen, share, practice)
    ways = None if given else driver.giving_way(arm, asked)
    if ways is None:
        return likely
    givers, takers, weights = ways  # without a coin, practice is played where one was thrown
    left = float(all_shares(proposed, givers.size) @ givers) * practice
    return likely + (1 - share) * (left - chosen * float(weights @ takers))


def odds_of_proposals(driver: Driver[Q], asked: Q, proposal: int, redraw: Redraw) -> Odds:
    """What the explorer could have proposed of the arms on offer."""
    offered = driver.acceptable(asked)
    return Odds(
        played=proposal,
        fallback=None,
        allowed=offered,
        affordable=offered,
        best_affordable=True,
        chances=driver.chances(asked),
        redrawn=None if redraw is None else partial(redraw, "proposal"),
    )


def check_decided(decided: object, current: int) -> None:
    """Refuse what was decided in another round: its coin had another share."""
    if not isinstance(decided, Decision):
        raise ValueError(f"decided must be what decide or guard just returned, got {decided!r}")
    if decided.round != current:
        raise ValueError(f"decided must be of round {current}, got a decision of round {decided.round}")


def check_redraws(redraws: int, d: int) -> None:
    """Refuse more draws than memory is meant for."""
    most = max(1_000, MOST_DRAWN // d)
    if redraws > most:
        raise ValueError(f"redraws must be at most {most:,} with {d:,} features, got {redraws:,}")


class Redraws(Generic[Q]):
    """Fresh draws of the explorer, made when they are first asked for."""

    def __init__(self, driver: Driver[Q], asked: Q, redraws: int, rng: Any) -> None:
        self.driver, self.asked, self.redraws = driver, asked, redraws
        self.generator = redraws_for(rng, driver.running.state)
        k, self.d = driver.running.held.arms.shape[1], driver.running.held.vectors.shape[1]
        check_redraws(redraws, self.d)
        work = self.d * (k + self.d)
        self.most = redraws if driver.limits_proposals else max(redraws, MOST_WORK // work)
        self.drawn: dict[str, list[int]] = {"arm": [], "proposal": []}

    def __call__(self, chosen: str, times: int) -> list[int]:
        """What so many times the draws that were asked for choose; of fewer where they would take long."""
        drawn, wanted = self.drawn[chosen], min(times * self.redraws, self.most)
        if wanted > len(drawn):
            normals = self.generator.standard_normal((wanted - len(drawn), self.d))
            drawn += self.driver.redrawn(self.asked, chosen, normals)
        return drawn[:wanted]
