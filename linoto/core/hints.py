"""Words and numbers of people: what was probably meant, long lists made short, large numbers readable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from math import ceil, floor, isfinite, log10

UNIT = "units of reward"  # what rewards are counted in where nobody said
SHOWN = 8  # names that a list shows
MOST = 2_000  # words that are compared, in less than 0.1 s: a catalogue of arms may have millions


def nearest(word: str, known: Iterable[str], otherwise: str = "", *, ask: str = "did you mean") -> str:
    """The known word closest to this one, as the end of a sentence.

    >>> nearest("reprodcue", ["demo", "reproduce"])
    ": did you mean 'reproduce'?"
    >>> nearest("Linucb", ["LinTS", "LinUCB"])
    ": did you mean 'LinUCB'?"
    """
    close = closest(word, known)
    return otherwise if close is None else f": {ask} {close!r}?"


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to this one; None if none is close, or there are too many to look at.

    >>> closest("prot", ["host", "port"]), closest("x", ["host", "port"])
    ('port', None)
    >>> closest("prot", ["port", *map(str, range(MOST))])
    """
    words = list(islice(known, MOST + 1))
    if len(words) > MOST:
        return None
    but_for_case = [other for other in words if other.casefold() == word.casefold()]
    close = but_for_case or get_close_matches(word, words, n=1, cutoff=0.5)
    return close[0] if close else None


def shortened_list(names: Sequence[str]) -> str:
    """A few names, and how many more there are.

    >>> shortened_list("abcdefghijk")
    'a, b, c, d, e, f, g, h and 3 more'
    """
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def as_names(names: str | Iterable[str]) -> list[str]:
    """Names that were given; one alone is one name, not as many as it has letters.

    >>> as_names("violet"), as_names(("red", "blue"))
    (['violet'], ['red', 'blue'])
    """
    return [names] if isinstance(names, str) else list(names)


def counted(number: float, what: str) -> str:
    """So many of something, to the nearest whole number.

    >>> counted(1, "round"), counted(5000, "round")
    ('1 round', '5,000 rounds')
    """
    return f"{number:,.0f} {what}" + ("s" if round(number) != 1 else "")


def amount(value: float | None) -> str:
    """A number for people: four digits that count, and no powers of ten where a price may be meant.

    >>> amount(0.0038), amount(3932.8), amount(205_400.4), amount(-18_823.0), amount(1e-9)
    ('0.0038', '3933', '205,400', '-18,820', '1e-09')
    """
    if value is None:
        return "unknown"
    rounded = float(f"{value:.4g}")
    return f"{rounded:,.0f}" if 1e4 <= abs(rounded) < 1e15 else f"{rounded:.4g}"


def as_sure_as(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A number and the ends of its interval, with as many digits as the interval allows: two of its width.

    The ends are rounded outwards, so that what is shown holds too.

    >>> as_sure_as(0.362, 0.2761, 0.4479), as_sure_as(20_311.0, 18_030.0, 24_040.0)
    (('0.36', '0.27', '0.45'), ('20,300', '18,000', '24,100'))
    >>> as_sure_as(4.1e-5, 1e-7, 4.8e-4)  # no row of zeros
    ('4e-05', '0', '0.00048')
    """
    width = high - low
    if not (isfinite(width) and width > 1e-12 * max(abs(low), abs(high))):
        return amount(value), amount(low), amount(high)
    place = floor(log10(width)) - 1
    unit, close = 10.0**place, 1e-6
    ends = (round(value / unit), floor(low / unit + close), ceil(high / unit - close))
    shown = [end * unit if place >= 0 else end / 10.0**-place for end in ends]
    if max(map(abs, shown)) < 1e-3:
        first, least, most = (f"{number + 0.0:.12g}" for number in shown)  # they end at their place
    else:
        first, least, most = (
            f"{number + 0.0:{',' if abs(number) >= 1e4 else ''}.{max(-place, 0)}f}" for number in shown
        )
    return first, least, most
