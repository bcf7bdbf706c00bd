"""The same explorer behind different gates, in worlds that stand still and in worlds that move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from linoto.core.certificates import LOG, Certificate
from linoto.core.gates import Control, Gate, Open, Tolerance
from linoto.core.hints import UNIT
from linoto.core.notebook import html_table
from linoto.core.offline import Offline
from linoto.core.policies import Gated
from linoto.core.protocols import ComposedPolicy
from linoto.core.validation import check_positive
from linoto.engines import THREADS, Engine, Track
from linoto.worlds.moving import drift_text
from linoto.worlds.outcomes import GridPoint, play_worlds
from linoto.worlds.plausible import Drawing, Plausible, plausible
from linoto.worlds.posterior import LoggedArms

NO_GATE, OF_LOG, CONTROL = "no gate", "the log's gate", "Control"


@dataclass(frozen=True, kw_only=True, eq=False)
class GateOutcome:
    """What came of an explorer behind one gate."""

    gate: str  # "no gate", "the log's gate" or "Control"
    still: GridPoint  # in worlds that stand still
    moving: GridPoint  # in the same worlds, whose means move

    @classmethod
    def of(cls, gate: str, point: GridPoint) -> GateOutcome:
        """What came of worlds that stand still, and then of as many whose means move."""
        half = point.regret.size // 2
        return cls(gate=gate, still=point.part(slice(half)), moving=point.part(slice(half, None)))

    def row(self, horizon: int) -> dict[str, Any]:
        """Plain data: what was promised, in how many worlds more was lost, and what was gained."""
        facts: dict[str, Any] = {"gate": self.gate, "promised": self.still.certificate.loss(horizon)}
        for name, point in (("still", self.still), ("moving", self.moving)):
            summary = point.row(horizon)
            facts[f"broken_{name}"] = point.broken_in(horizon)
            for measure in ("worst_loss_90", "worst_loss_max", "gain_mean", "control", "explored"):
                facts[f"{measure}_{name}"] = summary[measure]
        return facts


@dataclass(frozen=True, kw_only=True, eq=False)
class GatePreview:
    """Three gates with one limit on the loss, in worlds that stand still and in worlds that move.

    `missing` says why there is none of a gate. A gate without a promise is held against the limit.
    """

    policy: ComposedPolicy  # whose explorer and limit they have
    drift: float  # how far an average reward moves until the last round (standard deviation)
    horizon: int
    worlds: int
    seed: int
    limit: Certificate  # of that policy
    outcomes: tuple[GateOutcome, ...]
    missing: dict[str, str]

    def table(self) -> list[dict[str, Any]]:
        """One row for each gate."""
        return [outcome.row(self.horizon) for outcome in self.outcomes]

    def of(self, gate: str) -> GateOutcome | None:
        """What came of one gate; None where there is none of it."""
        return next((outcome for outcome in self.outcomes if outcome.gate == gate), None)

    @property
    def nothing(self) -> float:
        """What rounding leaves of no gain, in the units of these rewards."""
        return max(point.nothing for outcome in self.outcomes for point in (outcome.still, outcome.moving))

    @property
    def price(self) -> float | None:
        """What Control gains less than the log's gate where nothing moves, on average over worlds."""
        log, control = self.of(OF_LOG), self.of(CONTROL)
        if log is None or control is None:
            return None
        return float(control.still.final_loss.mean() - log.still.final_loss.mean())

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        facts = {"drift": self.drift, "horizon": self.horizon, "worlds": self.worlds, "seed": self.seed}
        kind = drift_text(self.drift, UNIT, self.horizon)
        return {**facts, "kind": kind, "price": self.price, "gates": self.table(), "missing": self.missing}

    def _repr_html_(self) -> str:
        columns = {
            "gate": "gate",
            "promised": "promised to lose at most",
            "broken_still": "worlds that lost more, standing still",
            "broken_moving": "worlds that lost more, moving",
            "gain_mean_still": "mean gain, standing still",
            "gain_mean_moving": "mean gain, moving",
        }
        rows = [[cell_text(row[name]) for name in columns] for row in self.table()]
        caption = f"{self.horizon:,} rounds in {self.worlds:,} plausible worlds"
        return html_table(rows, columns=list(columns.values()), caption=caption)


def cell_text(value: Any) -> str:
    """A cell of a table."""
    return value if isinstance(value, str) else "none" if value is None else f"{value:.3g}"


def preview_gates(
    actions: npt.ArrayLike,
    offline: Offline,
    *,
    policy: ComposedPolicy,
    drift: float,
    horizon: int = 5000,
    worlds: int = 30,
    prior: float | None = None,
    logged_arms: LoggedArms = "good",
    delay: int = 0,
    seed: int = 0,
    engine: Engine = THREADS,
    track: Track | None = None,
) -> GatePreview:
    """Play the explorer of a policy without a gate, behind the log's gate and behind Control.

    All have the limit on the loss that the policy has, and meet the same worlds twice: standing still, and
    with means that wander after the log as in `preview(drift=...)`. Losses and gains are against current
    practice: what the log's arms earn now, in the log's shares. `logged_arms` and `delay` are as in
    `preview`.

    >>> import numpy as np
    >>> from linoto import Confidence, Control, Gated, Offline
    >>> clicks = Confidence(noise="bounded", reward_range=(0, 1))
    >>> log = Offline(pulls=[400, 100, 0], reward_sums=[200.0, 40.0, 0.0])
    >>> policy = Gated(gate=Control(budget=20), confidence=clicks)
    >>> found = preview_gates(np.eye(3), log, policy=policy, drift=0.1, horizon=300, worlds=4)
    >>> [outcome.gate for outcome in found.outcomes]
    ['no gate', "the log's gate", 'Control']
    """
    known = plausible(actions, offline)
    check_positive("drift", drift)
    asked = Drawing(worlds=worlds, horizon=horizon, prior=prior, logged_arms=logged_arms, seed=seed)
    limit = known.certificate(policy)
    if not limit.holds:
        raise ValueError(f"policy must promise something to be compared, got {policy!r}: {limit.theorem}")
    rivals, missing = rivals_of(policy, limit, known)
    law = known.law(policy.composed().assumed)
    still, moving = known.draw(law, asked), known.draw(law, replace(asked, drift=drift))
    points = play_worlds(
        list(rivals.values()),
        still.beside(moving),
        known,
        horizon=horizon,
        values=[0.0] * len(rivals),
        delay=delay,
        limit=replace(limit, against=LOG, realised=False, every=None),  # in means, in all rounds
        engine=engine,
        track=track,
    )
    return GatePreview(
        policy=policy,
        drift=float(drift),
        horizon=horizon,
        worlds=worlds,
        seed=seed,
        limit=limit,
        outcomes=tuple(map(GateOutcome.of, rivals, points)),
        missing=missing,
    )


def rivals_of(
    policy: ComposedPolicy, limit: Certificate, known: Plausible
) -> tuple[dict[str, Any], dict[str, str]]:
    """The explorer behind each gate, with the limit of the policy; and why a gate is missing."""
    composed: Any = policy.composed()
    confidence = composed.assumed
    parts: dict[str, Any] = {"budget": limit.budget or 0.0, "epsilon": limit.per_round or 0.0}
    promise: Any = "realised" if confidence.noise == "bounded" else "expected"

    def behind(gate: Gate) -> Gated:
        return Gated(explorer=composed.explorer, gate=gate, confidence=confidence)

    makers: dict[str, Callable[[], Any]] = {
        NO_GATE: lambda: behind(Open()),
        OF_LOG: lambda: behind(Tolerance(**parts)),
        CONTROL: lambda: behind(Control(**parts, promise=promise)),
    }
    makers[CONTROL if composed.gate.throws_coin else OF_LOG] = lambda: policy
    found: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, make in makers.items():
        try:
            made = make()
            known.certificate(made)
        except ValueError as error:
            missing[name] = str(error)
        else:
            found[name] = made
    return found, missing
