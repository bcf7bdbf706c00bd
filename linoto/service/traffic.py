"""Bookings that `linoto serve --demo` simulates, on the same durable path as requests.

Nothing is remembered here. What a decision earns, and when that becomes known, follows from its loop, its
number and its arm; which decisions are open, the loop knows. So traffic goes on after a crash where it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from linoto.core.gates import Control
from linoto.core.policies import Gated
from linoto.core.snapshots import to_dict
from linoto.experiments.takeover import BUDGET, contenders
from linoto.service.errors import Refused, Unavailable
from linoto.service.loops.loop import Loop
from linoto.service.loops.operations import Clock, Loops
from linoto.service.loops.seeded import seed_of, seeded_uniform
from linoto.service.loops.spec import Arm, LogStatistics, LoopSpec, canonical
from linoto.service.storage.connection import Connection
from linoto.service.storage.store import Store
from linoto.worlds import flights

logger = logging.getLogger("linoto.service")
STEP = 0.1  # seconds between looks at the clock
CATCH_UP = 1.0  # seconds: no more decisions than that are made at once, also after the machine slept
SLOWEST_REWARD = 3.0  # seconds until a reward is reported
WINDOW = 30 * 86400.0  # seconds: decisions are still open when the demo is started again weeks later
STORM = 0.5  # how often a flight is on time in the storm, as a share of before
MOST_DECISIONS = 500_000  # decisions of a loop, six hours of them: a forgotten demo must not fill a disk


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A loop of the demo and the world it is in."""

    name: str
    story: str
    rate: float  # decisions a second
    storm_after: int  # decisions
    by_coin: bool = False  # compares with current practice, not with the log


STORY = (
    "Books flights out of New York: an arm is a carrier, an airport and a block of hours, and a flight that "
    "is at most 15 minutes late earns 1. The log is what current practice booked in February and March 2013; "
    "at most 120 flights on time may be lost against {}. Flights are real, luck is simulated."
)
STORM_STORY = " After its 300th booking a storm comes: every flight is on time half as often."
SCENES = (
    Scene(name="flights", story="", rate=25.0, storm_after=MOST_DECISIONS),
    # The alarm comes before its 600th decision: within a minute.
    Scene(
        name="flights-storm",
        story=STORM_STORY,
        rate=10.0,
        storm_after=300,
    ),
    Scene(
        name="flights-storm-control",
        story=f"{STORM_STORY} It hits current practice too, which control rounds show: exploring goes on.",
        rate=10.0,
        storm_after=300,
        by_coin=True,
    ),
)


def spec_of(scene: Scene) -> LoopSpec:
    """Real flights and the log of current practice, with the promise of the story."""
    world = flights.load()
    arms = zip(world.names, world.actions.tolist(), strict=True)
    good = world.log.reward_sums.tolist()  # rewards are 0 or 1: the squares are the same
    policy = contenders()["Gated"]
    if scene.by_coin:
        policy = Gated(gate=Control(budget=BUDGET), confidence=policy.composed().assumed)
    return canonical(
        LoopSpec(
            arms=[Arm(name=name, features=action) for name, action in arms],
            policy=to_dict(policy),
            description=STORY.format("current practice" if scene.by_coin else "it") + scene.story,
            default_reward=0.0,  # a flight that nobody reports on counts as late
            offline=LogStatistics(pulls=world.log.pulls.tolist(), reward_sums=good, reward_squares=good),
            window=WINDOW,
            holdback=0.0 if scene.by_coin else 0.05,
            on_alarm="safe-only",
            unit="flights",
            seed=seed_of(scene.name),  # a demonstration shows the same to everybody
            drift_allowed=0.05,  # flights are on time less often later in the year: 0.875, in the log 0.905
        )
    )


def create_loops(loops: Loops, store: Store) -> None:
    """Make the loops of the demo, or find them as they were made."""
    for scene in SCENES:
        spec = spec_of(scene)
        try:
            _, made = store.write_sync(partial(loops.create, loop=Loop.fresh(scene.name, spec)))
        except Refused:
            wrong = f"loop {scene.name!r} of {store.path} must be the demo's, got another"
            raise ValueError(f"{wrong}: give another file as --db") from None
        if made:
            logger.info("loop created", extra={"loop": scene.name, "by": "demo"})


# -- the world


def scene_reward(scene: Scene, number: int, arm: int) -> float:
    """Whether the flight of a decision is on time."""
    likely = float(flights.load().bandit.means[arm])
    if number > scene.storm_after:
        likely *= STORM
    return float(seeded_uniform(scene.name, "reward", number, arm) < likely)


def delay_of(scene: Scene, number: int) -> float:
    """Seconds until the reward of a decision is reported."""
    return SLOWEST_REWARD * seeded_uniform(scene.name, "delay", number)


def known_rewards(scene: Scene, loop: Loop, now: float, pace: float) -> Iterator[tuple[int, float]]:
    """(number, reward) of open decisions whose reward has become known."""
    for number, decision in list(loop.pending.items()):
        if (now - (decision.expires_at - WINDOW)) * pace >= delay_of(scene, number):
            yield number, scene_reward(scene, number, decision.arm)


# -- the bookings


def book(connection: Connection, loops: Loops, scene: Scene, count: int, pace: float) -> None:
    """Report what has become known, then decide so many times."""
    loop = loops.get(scene.name)
    for number, reward in known_rewards(scene, loop, loops.now(loop), pace):
        loops.reward(connection, scene.name, loop.decision_id(number), reward)
    if loop.state.archived:
        return
    for _ in range(min(count, MOST_DECISIONS - loop.state.decided)):
        loops.decide(connection, scene.name)


class Pacer:
    """How many decisions are due since the last call."""

    def __init__(self, clock: Clock, rate: float) -> None:
        self.clock, self.rate = clock, rate
        self.last, self.due = clock(), 0.0

    def take(self) -> int:
        """Whole decisions; the fraction is kept for the next time."""
        now = self.clock()
        self.due += min(max(now - self.last, 0.0), CATCH_UP) * self.rate
        self.last = now
        count = int(self.due)
        self.due -= count
        return count


async def run_traffic(loops: Loops, store: Store, *, pace: float = 1.0) -> None:
    """Book until cancelled, `pace` times as fast as in the demo."""
    pacers = {scene: Pacer(loops.clock, scene.rate * pace) for scene in SCENES}
    while True:
        await asyncio.sleep(STEP)
        counts = {scene: pacer.take() for scene, pacer in pacers.items()}

        def step(connection: Connection, counts: dict[Scene, int] = counts) -> None:
            for scene, count in counts.items():
                book(connection, loops, scene, count, pace)

        try:
            await store.write(step)
        except Unavailable as error:
            logger.error("no traffic", extra={"error": str(error)})
