"""The last events that were committed here, by loop: a database that has lost one of them is not the same."""

from __future__ import annotations

from collections.abc import Mapping

MOST_LOOPS = 1000  # those that were written to last: an older copy lacks their events first


class LastEvents:
    """The last event of each of the loops that were written to last, of `most` of them.

    >>> last = LastEvents(most=2)
    >>> for loop in (1, 2, 1, 3):
    ...     last.keep({loop: 10 + loop})
    >>> last.columns()
    ([1, 3], [11, 13])
    """

    def __init__(self, most: int = MOST_LOOPS) -> None:
        self.most = most
        self._seqs: dict[int, int] = {}  # by loop, the latest last

    def keep(self, events: Mapping[int, int]) -> None:
        """These were committed."""
        for loop, seq in events.items():
            self._seqs.pop(loop, None)
            self._seqs[loop] = seq
        while len(self._seqs) > self.most:
            del self._seqs[next(iter(self._seqs))]

    def columns(self) -> tuple[list[int], list[int]]:
        """The loops, and the number of the last event of each."""
        return list(self._seqs), list(self._seqs.values())
