"""What every gate answers about itself."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats
from linoto.core.certificates import LOG, PRACTICE, Promise, Situation
from linoto.core.confidence import Confidence
from linoto.core.features.moments import Moments
from linoto.core.gates.mixture import mixture_rounding
from linoto.core.guardrail import Guardrail
from linoto.core.hints import amount
from linoto.core.kernels import State
from linoto.core.offline import Offline

USUAL_BUDGET, USUAL_SHARE = 100.0, 0.02
USUAL_PART = 0.1  # of what a whole log earned, beyond which no usual budget goes; a rate, of its mean


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Can we afford to explore this arm? A gate is its record, and its branch in the kernels' `measure_room`.

    A new gate overrides what differs; everything outside asks these, and no other place knows gates by name.
    """

    code: ClassVar[int]  # its branch in the kernels
    word: ClassVar[str] = ""  # what a command calls it, where `--gate` offers it
    measures: ClassVar[bool] = True  # whether a decision has a budget to tell
    keeps_ledger: ClassVar[bool] = False  # whether it counts every play; one that does knows mixture plays
    needs_every_arm: ClassVar[bool] = False  # whether its promise is about unrestricted rounds only
    throws_coin: ClassVar[bool] = False  # whether a coin decides: a round is then decided once
    trusts_model: ClassVar[bool] = False  # where rounds bring arms: whether a wrong model breaks it
    compares_with_log: ClassVar[bool] = True  # False: what it compares with is current practice
    rows: ClassVar[Set[str]] = frozenset()  # of the state, that it keeps for itself
    arms_may_change: ClassVar[bool] = False  # whether its theorem knows arms that come and go
    fallbacks: ClassVar[tuple[str, ...]] = ()  # those that its theorem knows
    parameters: ClassVar[tuple[str, ...]] = ()  # what says how much may be lost

    def why_no_rounds(self, confidence: Confidence) -> str | None:
        """Why it has no theorem for rounds that bring their own arms, or None."""
        return (
            f"gate must be Open, Closed, Tolerance or Control with contexts, got {type(self).__name__}: what "
            "it promises is about arms that stay the same"
        )

    def fill(self, p: np.void, confidence: Confidence, actions: Floats, offline: Offline) -> None:
        """Write this gate into the kernels' Params, for these arms (k, d) and their log."""
        p["gate"], p["keeps_ledger"] = self.code, self.keeps_ledger

    def fill_for_rounds(self, p: np.void, confidence: Confidence, moments: Moments) -> None:
        """The same for rounds that bring their own arms, and a log of their features."""
        p["gate"], p["keeps_ledger"] = self.code, self.keeps_ledger

    @property
    def reads_squares(self) -> bool:
        """Whether what it writes into the Params depends on the squares of the log."""
        return False

    def check_start(
        self, state: State, confidence: Confidence, offline: Offline, names: Sequence[str] | None
    ) -> None:
        """Refuse what the log contradicts, once the estimate is there; arms are called by their `names`."""

    def reads_bounds(self, confidence: Confidence) -> bool:
        """Whether it trusts the confidence set of the estimate, which must then rest on every reward."""
        return True

    def why_no_guardrails(self, confidence: Confidence, guardrails: Sequence[Guardrail]) -> str | None:
        """Why it has no theorem for these metrics besides the reward, or None."""
        return f"gate must be a Control or a Tolerance for guardrails, got {self!r}"

    def trusts_model_of(self, guardrail: Guardrail) -> bool:
        """Whether the linear model pays for what is lost of this metric."""
        return False

    def for_guardrail(self, guardrail: Guardrail) -> Gate:
        """The same gate for a metric besides the reward."""
        raise TypeError(f"{type(self).__name__} knows no guardrails")

    def practice_bounds(self, confidence: Confidence, offline: Offline) -> Floats:
        """(2, k) what a gate that throws a coin knows of practice's arms from the log alone."""
        raise TypeError(f"{type(self).__name__} throws no coin")

    def default_fallback(self, confidence: Confidence) -> str:
        """What `fallback="auto"` means."""
        return "lcb"

    def bounds_sums(self, confidence: Confidence) -> bool:
        """Whether it bounds sums of arms by the confidence set, which must be an ellipsoid then."""
        return True

    def counts_control(self, plays_mixture: bool) -> bool:
        """Whether a control play of the logging mixture is one of its own; if it `plays_mixture` too."""
        return self.keeps_ledger

    def compared_with(self, fallback: str | int) -> str:
        """What is promised is a distance to this."""
        return LOG if self.compares_with_log else PRACTICE

    def owed(self, fallback: str | int, means: Floats, reference: float) -> float:
        """What a round of that earns, where the means (k,) of the arms and that of the log are known."""
        return reference

    def needs_logged_arms(self, plays_mixture: bool) -> bool:
        """Whether an arm of the log must stay, to compare with; if it `plays_mixture` too."""
        return True

    def per_round_after(self, situation: Situation) -> float | None:
        """What a round can lose from now on, without the arms just removed; None: as before."""
        return None

    def rounding_after(self, practice: Offline, situation: Situation) -> float:
        """kappa of what is left of the log, of which only the pulls are given."""
        return mixture_rounding(practice)

    def needs_model(self, situation: Situation) -> bool:
        """Whether the promise needs rewards that are linear in the features."""
        return situation.fallback != "mixture"

    def why_unproven(self, situation: Situation) -> str:
        """Why this gate promises nothing here, or nothing."""
        if self.fallbacks and situation.fallback not in self.fallbacks:
            names = " or ".join("auto" if name == "certified" else name for name in self.fallbacks)
            return f"a {type(self).__name__} gate is proven with the {names} fallback only"
        return ""

    def promised(self, situation: Situation) -> Promise:
        """The theorem, and the loss that it allows."""
        raise TypeError(f"{type(self).__name__} must say what it promises")

    def assumptions(self, situation: Situation) -> tuple[str, ...]:
        """What the promise needs."""
        return situation.assumptions(every_arm=self.needs_every_arm)

    def not_assumed(self, situation: Situation) -> tuple[str, ...]:
        """What a reader might think that the promise needs, and it does not."""
        return ()

    def refusal(self, room: float | None) -> str:
        """Why an arm was refused, as a sentence."""
        short = "" if room is None else f": it would leave the budget at {amount(room)}"
        return f"The gate refused{short}."

    @property
    def varied(self) -> str:
        """The parameter that a preview varies; "": there is none."""
        return next(iter(self.parameters), "")

    def usual(self, confidence: Confidence, *, earned: float = inf, rows: int = 0) -> Gate:
        """This gate with the usual allowance, where nobody says how much may be lost.

        `earned` is what the whole log earned in so many `rows`, where that is known.
        """
        return self

    def grid(self, earned: float, horizon: int) -> tuple[float, ...]:
        """The values that a preview tries, for a log that earns so much a round, over so many rounds."""
        raise TypeError(f"{type(self).__name__} must say which values a preview tries")


def loss_without(situation: Situation, earned: float) -> float | None:
    """What a round can lose below practice where it earns at least this; None without a log."""
    run = situation.run[0]
    if run["logged"] == 0:
        return None
    return max(situation.upper_reference(float(run["radius"] + run["lost_radius"])) - earned, 0.0)


def safe_arm_promise(situation: Situation) -> Promise:
    """The promise of a fallback that is played whatever happens."""
    if situation.fallback == "mixture":
        return situation.mixture_promise
    assert situation.state is not None  # without features there is no fallback but the mixture
    upper = situation.upper_reference(float(situation.run[0]["radius"]))  # on the event of every lower bound
    lcb = situation.state.arms[kernels.LCB]
    arm = situation.fallback if isinstance(situation.fallback, int) else int(lcb.argmax())
    return Promise("the lower bound of the arm that is played never falls", max(upper - float(lcb[arm]), 0.0))
