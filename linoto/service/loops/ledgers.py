"""What a coin tells of one number, the reward or a metric: of all decisions, and in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linoto.core.decisions import Decision
from linoto.service.loops.books import Books, Page
from linoto.service.loops.practice import PracticeBooks, PracticeTerms, books_of, sums_of


@dataclass(frozen=True)
class Ledger:
    """The books of one number in a loop whose gate throws a coin; more of it is better."""

    terms: PracticeTerms
    practice: PracticeBooks  # of all decisions
    books: Books  # in their order

    def enter(self, decision: Decision, value: float | None) -> Sequence[float]:
        """A play, or its value, in the books of all decisions: what these grow by."""
        if decision.control_share is None:
            return ()
        before = sums_of(self.practice)
        if value is None:
            self.terms.play(self.practice, decision)
        else:
            self.terms.reward(self.practice, decision, value)
        return [after - was for after, was in zip(sums_of(self.practice), before, strict=True)]

    def evidence(self, decided: int, moved: bool) -> float:
        """log evidence that practice would have earned more than explored decisions did."""
        now, page = self.terms.evidence(self.practice, decided), to_read(self.books, moved)
        if page is None or not page.coin:
            return now
        return max(now, self.terms.evidence(books_of(page.coin), page.decisions))

    @property
    def told(self) -> PracticeBooks:
        """What is known of practice, by the closed part of the books or by all: whichever tells more."""
        if not self.books.pages or not self.books.closed.coin:
            return self.practice
        closed = self.terms.with_bounds(books_of(self.books.closed.coin))
        return min((self.practice, closed), key=self.terms.uncertainty)


def to_read(books: Books, moved: bool) -> Page | None:
    """The closed part of the books, if there is something new in it, and something open behind it."""
    return books.closed if moved and books.pages else None
