"""A guardrail of a loop: what its metric is compared with, in books of its own.

Inside, more is better: where people count what there should be less of, values are turned around here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from linoto.core.certificates import Certificate
from linoto.core.decisions import Decision
from linoto.core.guardrail import Guardrail
from linoto.service.loops.events import DecisionMade
from linoto.service.loops.ledgers import Ledger
from linoto.service.loops.practice import PracticeTerms
from linoto.service.loops.state import MetricBooks


@dataclass(frozen=True)
class Metric:
    """A guardrail at work."""

    guardrail: Guardrail
    place: int  # among those of the policy
    terms: PracticeTerms

    def ledger(self, kept: MetricBooks) -> Ledger:
        """Its books."""
        return Ledger(self.terms, kept.practice, kept.books)

    def play(self, event: DecisionMade) -> Decision:
        """A decision as its ledger knows it."""
        centre = None if event.centres is None else event.centres[self.place]
        return replace(event.as_decision(), centre=centre)

    @property
    def default(self) -> float:
        """What a lost value counts as in sums by arm, from which it is taken out again to show them."""
        return self.guardrail.reward_range[0]

    @property
    def alarm_text(self) -> str:
        """What it means that practice would have been better."""
        moved, there = ("up", "more") if self.guardrail.lower_is_better else ("down", "less")
        name = self.guardrail.name
        return f"{name} went {moved}: the explored rounds had {there} than current practice would have had"


def metrics_of(certificate: Certificate) -> dict[str, Metric]:
    """The guardrails of a promise, by name."""
    return {
        rail.name: Metric(rail, place, PracticeTerms.of_guardrail(rail, certificate))
        for place, rail in enumerate(certificate.guardrails)
    }
