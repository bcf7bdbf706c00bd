"""What was probably meant by a word that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

MOST = 10_000  # words that are compared: a catalogue of arms may have millions


def nearest(word: str, known: Iterable[str], otherwise: str = "", *, ask: str = "did you mean") -> str:
    """The known word closest to this one, as the end of a sentence.

    >>> nearest("reprodcue", ["demo", "reproduce"])
    ": did you mean 'reproduce'?"
    """
    close = get_close_matches(word, list(islice(known, MOST)), n=1, cutoff=0.5)
    return f": {ask} {close[0]!r}?" if close else otherwise
