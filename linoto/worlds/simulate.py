"""Play a policy in a world, and measure both regrets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.hints import amount
from linoto.core.kernels import Bools, Floats, Ints
from linoto.core.notebook import html_table
from linoto.core.offline import Offline, as_offline
from linoto.core.plain_play import rounds_in_python, segments
from linoto.core.protocols import Agent, Policy
from linoto.core.validation import as_floats, check_count, check_seed
from linoto.worlds.bandits import World

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """What happened in n rounds."""

    arms: Ints  # (n,)
    explored: Bools  # (n,) the explorer's arm, not the fallback
    rewards: Floats  # (n,) as they came, noise and all
    regret: Floats  # (n,) R_t, cumulative, against the best arm
    offline_regret: Floats  # (n,) R_t^off, cumulative, against the log's arms in its shares; may be negative
    control: Bools  # (n,) control rounds of a Control gate
    practice_shortfall: Floats  # (n,) cumulative: what the fallback would have earned more in explored rounds

    def to_frame(self) -> pd.DataFrame:
        """One row per round, as a pandas data frame (extra `frames`)."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError('to_frame needs pandas: pip install "linoto[frames]"') from None
        columns = {"arm": self.arms, "explored": self.explored}
        regrets = {"regret": self.regret, "offline_regret": self.offline_regret}
        rounds = np.arange(1, self.arms.size + 1)
        practice = {"control": self.control, "practice_shortfall": self.practice_shortfall}
        return pd.DataFrame({"round": rounds, **columns, **regrets, **practice})

    def _repr_html_(self) -> str:
        rows = [
            ("rounds", f"{self.arms.size:,}"),
            ("exploring rounds", f"{self.explored.mean():.1%}"),
            *([("control rounds", f"{self.control.mean():.1%}")] if self.control.any() else []),
            ("arms played", f"{np.unique(self.arms).size:,}"),
            ("regret at the end", f"{amount(self.regret[-1])}"),
        ]
        if np.isfinite(self.offline_regret).all():  # there is a log to compare with
            last, largest = self.offline_regret[-1], max(0.0, self.offline_regret.max())
            rows.append(("shortfall below the log at the end", f"{amount(last)}"))
            rows.append(("largest shortfall below the log", f"{amount(largest)}"))
        return html_table(rows, caption="A simulated run")


def simulate(
    policy: Policy,
    bandit: World,
    offline: Offline,
    *,
    horizon: int | None = None,
    seed: int = 0,
    noise: npt.ArrayLike | None = None,
) -> Run:
    """Play `horizon` rounds of a policy in a world, warm-started from a log.

    `seed` drives the world's noise and, independently, the policy. With `noise` (n,) given, reward t is
    `means[arm] + noise[t]` whatever the arm, and the horizon is n. Any object with `start(actions, offline,
    rng=...)`, whose agent has `select()` and `update(arm, reward)`, can be played.

    >>> from linoto import LinOtO, LinearBandit, Offline
    >>> bandit = LinearBandit(actions=[[1.0, 0.0], [0.6, 0.8]], theta=[0.5, 0.5])
    >>> run = simulate(LinOtO(), bandit, Offline(pulls=[9, 0], reward_sums=[4.5, 0.0]), horizon=100)
    >>> run.arms.size, bool(run.regret[-1] <= 20)
    (100, True)
    """
    log = as_offline(offline, len(bandit.actions))
    check_seed(seed)
    world, own = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    bernoulli = bandit.rewards == "bernoulli"
    if noise is not None:
        draws, bernoulli = as_floats("noise", noise, ndim=1), False
        if horizon not in (None, draws.size):
            raise ValueError(f"horizon must be {draws.size}, the length of noise, got {horizon!r}")
        check_count("horizon", draws.size)
    else:
        check_count("horizon", horizon)
        draws = bandit.draw(int(horizon), world)  # type: ignore[arg-type]
    agent = policy.start(bandit.actions, log, rng=own)
    spread = None if noise is not None else bandit.spread
    arms, explored, control, fallbacks = played(agent, bandit, draws, bernoulli, spread)
    table, starts = bandit.segments
    now = segments(starts, 0, arms.size)  # (n,) the row of each round
    earned = table[now, arms]
    low, steps = bandit.reward_range[0], bandit.steps[arms] if noise is None else np.ones(arms.size)
    two_point = np.where(draws * steps < earned - low, low + steps, low)
    logged = table @ log.pulls / log.total if log.total else np.full(len(table), np.nan)  # mu_off, as it is
    return Run(
        arms=arms,
        explored=explored,
        rewards=two_point if bernoulli else earned + steps * draws,
        regret=np.cumsum(table.max(axis=1)[now] - earned),
        offline_regret=np.cumsum(logged[now] - earned),
        control=control,
        practice_shortfall=np.cumsum(np.where(explored, table[now, fallbacks] - earned, 0.0)),
    )


def played(
    agent: Agent, bandit: World, draws: Floats, bernoulli: bool, spread: Floats | None
) -> tuple[Ints, Bools, Bools, Ints]:
    """The arms, which were explored, which were control rounds, and the fallbacks (else, the arms)."""
    table, starts = bandit.segments
    world: dict[str, Any] = {"bernoulli": bernoulli, "reward_range": bandit.reward_range, "spread": spread}
    means = table[0]
    if starts.size > 1:
        means, world["starts"] = table, starts
    compiled = hasattr(getattr(agent, "inner", agent), "play")  # an agent may wrap another
    if compiled and hasattr(agent, "play") and not hasattr(agent, "play_rounds"):
        arms, explored = agent.play(means, draws, **world)
        return arms, explored, np.zeros(arms.size, np.bool_), arms
    play = getattr(agent, "play_rounds", None) or partial(rounds_in_python, agent)
    rounds = play(means, draws, **world)
    known = np.where(rounds.fallbacks >= 0, rounds.fallbacks, rounds.arms)
    return rounds.arms, rounds.explored, rounds.sources == kernels.FROM_CONTROL, known
