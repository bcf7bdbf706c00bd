"""What a server remembers of the events it has committed, to know its database again."""

from __future__ import annotations

from linoto.service.storage.last_events import LastEvents


def test_what_is_remembered_of_loops_does_not_grow_with_their_number() -> None:
    """The last event of each loop that was written to last, whatever came before."""
    last, seqs = LastEvents(most=50), dict.fromkeys(range(200), 0)
    for turn in range(2_000):
        loop = turn * 7 % 200
        seqs[loop] += 1
        last.keep({loop: seqs[loop]})
        loops, noted = last.columns()
        assert len(loops) == min(turn + 1, 50) and noted == [seqs[loop] for loop in loops]
    assert loops == [turn * 7 % 200 for turn in range(1_950, 2_000)]
