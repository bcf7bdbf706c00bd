"""What can be seen of a loop whose gate throws a coin: what practice would have earned, and what is left."""

from __future__ import annotations

from msgspec import Struct

from linoto.service.loops.lift import LEVEL
from linoto.service.loops.loop import Loop
from linoto.service.loops.readings import practice_books


class PracticeView(Struct):
    """What a coin has told of current practice, in the explored decisions whose reward is known."""

    explored: int  # how many these are
    missing: int  # other explored decisions: their reward is to come, or lost, or came before its turn
    control: int  # rewards of control rounds
    earned: float  # what the explored decisions earned
    estimate: float  # what practice would have earned in them
    lower: float  # and where that lies, at any time
    upper: float
    level: float
    counts_rewards: (
        bool  # whether the promise counts rewards as they come, as these numbers do, or their means
    )


def practice_view(loop: Loop) -> PracticeView | None:
    """What the coin has told so far, where there is one."""
    books = practice_books(loop)
    if loop.coin_books is None or books is None:
        return None
    terms, known = loop.coin_books[0], books.explored - books.missing
    lower, upper = terms.bounds(books)
    return PracticeView(
        explored=known,
        missing=loop.coin_books[1].explored - known,
        control=books.control,
        earned=books.earned,
        estimate=terms.estimate(books),
        lower=lower,
        upper=upper,
        level=LEVEL,
        counts_rewards=getattr(loop.agent.gate, "promise", "realised") == "realised",
    )
