"""A detector of change that starts anew at all times: old good times do not delay it.

For a reward x in [0, 1] with a mean of at least m, e = exp(-l x) / (1 - m (1 - exp(-l))) has a mean of at
most 1 for every tilt l. M_t = (M_{t-1} + 1) e_t is the sum, over all times at which a change could have
begun, of the product of e from there on: an e-detector (Shin, Ramdas & Rinaldo 2023). While nothing changes,
M_t - t is a supermartingale, so M_t >= c comes after c plays or more, on average. An average over tilts is
one too.

Rewards come late and in any order. So plays are kept in blocks, in the order of their decisions: the number
of plays, and the sum of their rewards, in which an open one counts as the best. Changes may begin with each
block. A block is folded in when all of it and of those before is closed; until then it is computed anew. If
many blocks are open, neighbours are merged, so what is kept is bounded.

The detector is looked at after every block, closed or open: after t plays it is at most M_t, so an alarm
never comes before M reaches c for the first time in the order of decisions. Late rewards do not blind it:
after the last closed block it is M_t itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, log

from msgspec import Struct, field

from linoto.service.loops.log_sums import log_add, log_mean_exp

TILTS = tuple(2.0 * 0.6**j for j in range(10))  # l, of a reward scaled to [0, 1] or in units of its noise
NOTHING = -1e300  # the log of 0, which JSON can hold
MOST_BLOCKS = 64  # open ones; then neighbours are merged
FIRST_BLOCK = 8  # plays in a block, until blocks are merged
Pair = Sequence[Sequence[float]]  # (2, tilts) for a fall, and for a rise
LOOK_EVERY = 4  # rewards, or as many as there are blocks: a look at a block takes some 10 microseconds


class Block(Struct, array_like=True):
    """Plays that follow each other: of the logging mixture, and others that must earn as much."""

    first: int  # number of its first decision
    plays: int = 0
    closed: int = 0
    rewards: float = 0.0
    mixed: int = 0  # of these, the plays of the mixture
    mixed_closed: int = 0
    mixed_rewards: float = 0.0

    def absorb(self, other: Block) -> None:
        """The next block becomes a part of this one."""
        self.plays += other.plays
        self.closed += other.closed
        self.rewards += other.rewards
        self.mixed += other.mixed
        self.mixed_closed += other.mixed_closed
        self.mixed_rewards += other.mixed_rewards


class Detector(Struct):
    """What is kept of the plays so far."""

    size: int = FIRST_BLOCK
    rewards: int = 0  # so far
    blocks: list[Block] = field(default_factory=list)  # those with open plays, and the current one
    # log M of the blocks before, for a fall and for a rise
    logs: list[list[float]] = field(default_factory=lambda: [[NOTHING] * len(TILTS), [NOTHING] * len(TILTS)])

    def add_play(self, number: int, mixture: bool) -> None:
        """A decision whose reward is still to come."""
        if not self.blocks or self.blocks[-1].plays >= self.size:
            if len(self.blocks) < MOST_BLOCKS // 4:
                self.size = max(FIRST_BLOCK, self.size // 2)
            self.blocks.append(Block(number))
            if len(self.blocks) > MOST_BLOCKS:
                self._merge()
        block = self.blocks[-1]
        block.plays += 1
        block.mixed += mixture

    def add_reward(self, number: int, mixture: bool, rewards: tuple[float, float]) -> None:
        """The reward of an earlier decision, twice; where it is lost, the worst and the best it can be."""
        place = bisect_right(self.blocks, number, key=lambda block: block.first) - 1
        if place < 0:
            return  # of a decision before the detector was reset
        block = self.blocks[place]
        self.rewards += 1
        block.closed += 1
        block.rewards += rewards[1]
        if mixture:
            block.mixed_closed += 1
            block.mixed_rewards += rewards[0]

    @property
    def is_due(self) -> bool:
        """Whether it is time for a look."""
        return self.rewards % max(LOOK_EVERY, len(self.blocks)) == 0

    def evidence(self, claim: Claim, *, now: bool = False) -> float:
        """log of the e-detector, the most over all ends of blocks; blocks that are closed are folded in.

        With `now` only at the last decision, as loops up to version 4 look.
        """
        logs, folded = self.logs, 0
        most = claim.averaged(logs)
        for place, block in enumerate(self.blocks):
            logs = claim.grown(logs, block)
            most = claim.averaged(logs) if now else max(most, claim.averaged(logs))
            current = place == len(self.blocks) - 1 and block.plays < self.size
            if place == folded and block.closed == block.plays and not current:
                folded += 1
                self.logs = logs
        del self.blocks[:folded]
        return most

    def reset(self) -> None:
        """Start again: somebody knows of the change."""
        self.blocks, self.logs = [], [[NOTHING] * len(TILTS), [NOTHING] * len(TILTS)]

    def _merge(self) -> None:
        """Blocks of twice the size; full ones stay full."""
        merged: list[Block] = []
        for block in self.blocks:
            if merged and merged[-1].plays + block.plays <= 2 * self.size:
                merged[-1].absorb(block)
            else:
                merged.append(block)
        self.blocks, self.size = merged, 2 * self.size


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What plays earn while nothing has changed: a mean in [low, high], apart from rounding."""

    per_play: Pair  # log of what exp(-l x) is divided by
    tilts: Sequence[float]  # per unit of reward
    limits: tuple[float, float]  # what an open reward can be
    allowances: Pair  # what rounding can add to the log of a product, negative
    skewed: bool = False  # whether it is not what plays earn: see `about`

    @classmethod
    def about(
        cls,
        interval: tuple[float, float],
        limits: tuple[float, float],
        noise: float | None,
        rounding: float,
        *,
        as_before: bool = False,
    ) -> Claim:
        """The mean lies in `interval`; rewards in `limits`, or around their means with sub-Gaussian `noise`.

        `rounding` is how many plays a stretch of the mixture can lack of its shares. It changes the sum of
        means by at most as much; log (1 - m w) then by at most rounding w / (1 - m w).

        `as_before`: loops up to version 8 divided the ends of a range twice by its width. Where that is not
        1, false alarms came after some twenty plays, or true ones never.
        """
        (low, high), unit = limits, limits[1] - limits[0]
        if noise is not None:
            scaled = [tilt / noise for tilt in TILTS]
            half = [tilt * tilt / 2 for tilt in TILTS]
            fall = [each - tilt * interval[0] for tilt, each in zip(scaled, half, strict=True)]
            rise = [each + tilt * interval[1] for tilt, each in zip(scaled, half, strict=True)]
            lost = [-tilt * rounding * unit for tilt in scaled]
            return cls(per_play=(fall, rise), tilts=scaled, limits=limits, allowances=(lost, lost))
        per_play, allowances = list[list[float]](), list[list[float]]()
        for mean, end in (
            ((interval[0] - low) / unit, -low / unit),
            ((high - interval[1]) / unit, high / unit),
        ):
            left = [1 + min(max(mean, 0.0), 1.0) * expm1(-tilt) for tilt in TILTS]
            shift = end / unit if as_before else end
            per_play.append([log(rest) + shift * tilt for rest, tilt in zip(left, TILTS, strict=True)])
            allowances.append(
                [rounding * expm1(-tilt) / rest for rest, tilt in zip(left, TILTS, strict=True)]
            )
        tilts = [tilt / unit for tilt in TILTS]  # x is counted from its own end of the range
        skewed = as_before and unit != 1.0
        return cls(per_play=per_play, tilts=tilts, limits=limits, allowances=allowances, skewed=skewed)

    def averaged(self, logs: Pair) -> float:
        """log of the average over tilts and both directions."""
        sides = zip(logs, self.allowances, strict=True)
        return log_mean_exp([x + lost for side in sides for x, lost in zip(*side, strict=True)])

    def grown(self, logs: Pair, block: Block) -> list[list[float]]:
        """The logs after one more block; open rewards count as the best, for each side."""
        low, high = self.limits
        best = block.rewards + (block.plays - block.closed) * high
        worst = block.mixed_rewards + (block.mixed - block.mixed_closed) * low
        sides = zip(logs, self.per_play, (-best, worst), (block.plays, block.mixed), strict=True)
        return [
            [
                max(log_add(x, 0.0) + (earned * tilt - plays * each), NOTHING)
                for x, each, tilt in zip(side, per_play, self.tilts, strict=True)
            ]
            for side, per_play, earned, plays in sides
        ]
