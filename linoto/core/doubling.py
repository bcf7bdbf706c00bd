"""The doubling trick: any policy, for an unknown horizon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linoto.core import codec
from linoto.core.agent import Agent
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.certificates import Certificate
from linoto.core.coins import KeyedCoins
from linoto.core.composed import stated_log
from linoto.core.confidence import Confidence
from linoto.core.decisions import Decision, check_round
from linoto.core.false_bounds import at_any_ridge
from linoto.core.features.moments import Moments
from linoto.core.offline import Offline, as_offline
from linoto.core.one_hot import RECOGNISED, is_compact, recognising
from linoto.core.open_rounds import OpenRounds, check_awaited
from linoto.core.protocols import Log, Policy, is_log, of_log
from linoto.core.saving import SNAPSHOT_FORMAT
from linoto.core.slices import SLICED, slicing
from linoto.core.usual_confidence import confidence_from_log
from linoto.core.validation import as_arm, as_floats, as_names, as_reward, generator_for
from linoto.core.whitening import WHITENED, whitening

FIXED_ARMS = (
    "policy must be another than Doubling for arms that come and go: every epoch begins anew from the log "
    "and the arms it was started with; start a new agent"
)


IN_ROUNDS = "policy must not be Doubling with contexts: each epoch forgets what is owed to practice"


@dataclass(frozen=True, kw_only=True)
class Doubling:
    """Run a policy in epochs of 1, 2, 4, 8, ... rounds, forgetting everything but the log between them.

    `delta="epoch"` gives epoch j the confidence level 1 - 2^-j that a horizon of 2^j rounds would ask for
    (1/2 in the first two); None leaves the policy's own.
    """

    policy: Policy
    delta: Literal["epoch"] | None = None

    def __post_init__(self) -> None:
        if not callable(getattr(self.policy, "start", None)):
            raise ValueError(f"policy must have a start method, got {self.policy!r}")
        if getattr(self.policy, "guardrails", ()):
            raise ValueError("policy must have no guardrails for Doubling: each epoch forgets their books")
        if self.delta not in (None, "epoch"):
            raise ValueError(f"delta must be 'epoch' or None, got {self.delta!r}")
        if self.delta and not hasattr(self.policy, "confidence"):
            raise ValueError(f"policy must have a confidence for delta='epoch', got {self.policy!r}")

    @property
    def needs_one_hot(self) -> bool:
        """Whether it plays one-hot arms only."""
        return bool(getattr(self.policy, "needs_one_hot", False))

    def why_not(self, log: Offline | Moments) -> str | None:
        """Why it cannot play what this log is about, or None."""
        return IN_ROUNDS if isinstance(log, Moments) else None

    def start(
        self,
        actions: npt.ArrayLike | Log | Moments | None = None,
        offline: Offline | Moments | None = None,
        rng: int | np.random.Generator | None = None,
        names: Sequence[str] | None = None,
        **rounds: Any,  # d or features, of rounds that bring their own arms
    ) -> DoublingAgent:
        """A running agent; its inner agent starts anew with every epoch."""
        if is_log(actions):
            return self.start(**of_log(actions), rng=rng)
        arms, log = stated_log(actions, offline, **rounds)
        reason = self.why_not(log)
        if reason is not None:
            raise ValueError(reason)
        extra = {} if names is None else {"names": as_names(names, len(arms))}
        agent = DoublingAgent(
            policy=self,
            actions=arms,
            offline=as_offline(log, len(arms)),
            rng=generator_for(rng),
            coins=KeyedCoins.fresh() if rng is None else None,
            extra=extra,
            recognises=RECOGNISED.get(),
            sliced=SLICED.get(),
            whitened=WHITENED.get(),
        )
        agent.restart(epoch=0)
        return agent

    def certificate(self, actions: npt.ArrayLike, offline: Offline) -> Certificate:
        """The policy's own, for one epoch: a promise does not outlive the reset."""
        if not hasattr(self.policy, "certificate"):
            raise ValueError(f"policy must say what it promises, got {self.policy!r}")
        with confidence_from_log(False):  # as every epoch starts
            certificate: Certificate = self.policy.certificate(actions, offline)
        return replace(
            certificate,
            holds=False,
            theorem="a promise holds within one epoch only: each starts anew",
            per_round=None,
            constant=None,
            kappa=None,
            vacuous=False,
            realised=False,
            assumes=(),
        )

    def in_epoch(self, epoch: int) -> Policy:
        """The policy as it runs in this epoch, for the rounds that it has, if it asks for a horizon."""
        policy: Any = self.policy
        if hasattr(policy, "for_horizon"):
            policy = policy.for_horizon(2**epoch)
        if self.delta is None:
            return policy  # type: ignore[no-any-return]
        confidence = policy.confidence or Confidence()
        return replace(policy, confidence=replace(confidence, delta=2.0 ** -max(epoch, 1)))  # type: ignore[no-any-return]


FORWARDED = (
    *("rewards", "theta", "means", "lcb", "ucb", "baseline", "ellipsoid", "names", "k", "d"),
    *("explorer", "gate", "against", "confidence", "rule", "interval", "propensity", "check_reward"),
    *("fallback_source", "mixture_plays", "next_mixture_arm", "budget", "counts_control", "bounds"),
    *("estimates", "changes", "change_texts", "present", "amended", "practice_propensity"),
)
"""What this epoch's agent knows, and the agent of all epochs passes on."""


class DoublingAgent:
    """The policy's own agent, replaced by a fresh one after 1, 2, 4, ... rounds."""

    inner: Agent  # the agent of this epoch

    def __init__(
        self,
        *,
        policy: Doubling,
        actions: Floats,
        offline: Offline,
        rng: np.random.Generator,
        coins: KeyedCoins | None,  # of which every epoch has its own; None: from `rng`
        extra: dict[str, Any],
        recognises: bool,
        sliced: bool,
        whitened: bool,
    ) -> None:
        self.policy, self.actions, self.offline = policy, actions, offline
        self.recognises = recognises  # one-hot arms, in every epoch: zeros give other last digits
        self.sliced = sliced  # where there are many arms, in every epoch: a whole refresh gives others, too
        self.whitened = whitened  # the same
        self.epoch = 0
        self.played = 0  # rounds of this epoch
        self.stale = np.zeros(len(actions), dtype=np.int64)  # (k,) rewards still owed to epochs that are over
        self._rng, self._coins, self._extra = rng, coins, extra
        self._open, self._trusts, self._looks_at_all = OpenRounds(), False, False

    def __getattr__(self, name: str) -> Any:
        if name not in FORWARDED:
            raise AttributeError(f"a DoublingAgent has no attribute {name!r}")
        found = getattr(self.inner, name)
        return partial(self._propensity, found) if name == "propensity" else found

    def _propensity(self, ask: Callable[..., float | None], *question: Any, **how: Any) -> float | None:
        """What this epoch's agent says; `decided` is numbered as all epochs are."""
        if how.get("decided") is not None:
            how["decided"] = self._for_inner(how["decided"])
        return ask(*question, **how)

    def __repr__(self) -> str:
        return f"<agent of {self.policy!r}: {self.rounds} rounds, epoch {self.epoch}>"

    @property
    def rounds(self) -> int:
        """Decisions committed so far, in all epochs."""
        return int(2**self.epoch) - 1 + self.played

    @property
    def pending(self) -> Ints:
        """(k,) committed plays that await their reward, those of earlier epochs included."""
        return self.stale + getattr(self.inner, "pending", 0)

    @property
    def certificate(self) -> Certificate:
        """None that outlives an epoch."""
        return self.policy.certificate(self.actions, self.offline)

    def use_coins(self, source: KeyedCoins) -> None:
        """Other coins from now on, of which every epoch has its own."""
        self._coins = source
        if hasattr(self.inner, "use_coins"):
            self.inner.use_coins(source.derived(self.epoch))

    def restart(self, *, epoch: int) -> None:
        """Begin an epoch with nothing but the log."""
        if epoch:
            self.stale = self.pending
        self.epoch, self.played = epoch, 0
        policy = self.policy.in_epoch(epoch)
        first = at_any_ridge(epoch == 0)  # later epochs have the same log
        as_said = confidence_from_log(False)  # what it doubles is in units of what it was given
        with recognising(self.recognises), slicing(self.sliced), whitening(self.whitened), first, as_said:
            agent: Any = policy.start(self.actions, self.offline, rng=self._rng, **self._extra)
        if self._coins is not None and hasattr(agent, "use_coins"):
            agent.use_coins(self._coins.derived(epoch))
        self.inner = agent  # what another's agent lacks, this one lacks too
        if self._trusts:
            self.trust_decisions()
        if self._looks_at_all:
            self.look_at_every_arm()

    def look_at_every_arm(self) -> None:
        """Keep no lists of the arms that can be the best, in this epoch and in those to come."""
        self._looks_at_all = True
        if hasattr(self.inner, "look_at_every_arm"):
            self.inner.look_at_every_arm()

    def trust_decisions(self) -> None:
        """Take every decision from now on for what it says, in this epoch and in those to come."""
        self._trusts = True
        if hasattr(self.inner, "trust_decisions"):
            self.inner.trust_decisions()

    def await_rounds(self, rounds: Iterable[int]) -> None:
        """Say which rounds await their reward, the oldest first, where a snapshot did not hold them."""
        known = list(rounds)
        self._open, before = OpenRounds.awaiting(known), self.rounds - self.played
        self.inner.await_rounds(round - before for round in known if round > before)

    def use_draws(self, rng: np.random.Generator) -> None:
        """Another generator for what the explorer draws, in this epoch and in those to come."""
        self._rng = rng
        self.inner.use_draws(rng)

    def select(self, allowed: npt.ArrayLike | None = None) -> int:
        """The arm to play now."""
        return int(self.inner.select() if allowed is None else self.inner.select(allowed))

    def decide(self, allowed: npt.ArrayLike | None = None, **safe: Any) -> Decision:
        """The arm to play now, with the reasons."""
        decision = self.inner.decide(allowed, **safe)
        return replace(decision, round=self.rounds + 1)

    def guard(self, arm: int, allowed: npt.ArrayLike | None = None, **safe: Any) -> Decision:
        """Somebody else's proposal through this epoch's gate."""
        decision = self.inner.guard(arm, allowed, **safe)
        return replace(decision, round=self.rounds + 1)

    def play_safe(self, decision: Decision) -> Decision:
        """What is safe in place of the decision just made."""
        numbered: Any = self._for_inner(decision)
        safe = self.inner.play_safe(numbered)
        return replace(safe, round=self.rounds + 1)

    def commit(self, decision: Decision | int) -> None:
        """Count a decision as played; the last one of an epoch ends it."""
        self.inner.commit(self._for_inner(decision))
        self._open.open(self.rounds + 1)
        self._count(1)

    def observe(self, decision: Decision | int, reward: float) -> None:
        """Learn from a reward; one owed to an epoch already over is taken and forgotten, oldest first."""
        self._learn("observe", decision, reward)

    def lose(self, decision: Decision | int, stand_in: float) -> None:
        """Learn from what stands in for a lost reward, as `observe` does from a reward."""
        self._learn("lose", decision, stand_in)

    def _learn(self, how: Literal["observe", "lose"], decision: Decision | int, reward: float) -> None:
        chosen = decision.arm if isinstance(decision, Decision) else decision
        arm = as_arm(chosen, self.stale.size)
        over = isinstance(decision, Decision) and decision.round < 2**self.epoch
        getattr(self.inner, "check_reward", as_reward)(reward)
        if isinstance(decision, Decision):
            check_awaited(self._open, decision.round)
        if self.stale[arm] and (over or not isinstance(decision, Decision)):
            self.stale[arm] -= 1
        else:
            inside: Any = decision
            if isinstance(decision, Decision):
                inside = replace(decision, round=decision.round - self.rounds + self.played)
            getattr(self.inner, how)(inside, reward)
        if isinstance(decision, Decision):
            self._open.close(decision.round)
        if not self.pending.any():
            self._open.clear()  # an arm alone closes no round

    def update(self, decision: Decision | int, reward: float) -> None:
        """Commit and observe at once."""
        self.inner.update(self._for_inner(decision), reward)
        self._count(1)

    def play(self, means: Floats, draws: Floats, **rewards: Any) -> tuple[Ints, Bools]:
        """Play `draws.size` rounds in a known world, epoch by epoch."""
        draws = as_floats("draws", draws, ndim=1)
        first = rewards.pop("first", 0)
        arms = np.empty(draws.size, dtype=np.int64)
        explored = np.empty(draws.size, dtype=np.bool_)
        start = 0
        while start < draws.size:
            part = slice(start, min(start + 2**self.epoch - self.played, draws.size))
            moved = {"first": first + start} if "starts" in rewards else {}
            arms[part], explored[part] = self.inner.play(means, draws[part], **rewards, **moved)
            self._count(part.stop - start)
            start = part.stop
        return arms, explored

    def add_arms(self, *_: Any, **__: Any) -> None:
        """Refused: see `remove_arms`."""
        raise ValueError(FIXED_ARMS)

    def remove_arms(self, *_: Any, **__: Any) -> None:
        """Refused: every epoch begins anew from the log and the arms it was started with."""
        raise ValueError(FIXED_ARMS)

    def checkpoint(self) -> bytes:
        """The same as `snapshot`: an epoch begins anew from the arms."""
        return self.snapshot()

    def snapshot(self) -> bytes:
        """Everything needed to continue, the inner agent's snapshot included."""
        header = {
            "format": SNAPSHOT_FORMAT,
            "agent": "doubling",
            "policy": codec.encode(self.policy),
            "epoch": self.epoch,
            "played": self.played,
            "extra": self._extra,
        }
        header["coins"] = None if self._coins is None else self._coins.encoded()
        inside = self.recognises and is_compact(self.actions)  # the inner agent holds them too
        arrays = {
            **({} if inside else {"actions": self.actions}),
            "pulls": self.offline.pulls,
            "reward_sums": self.offline.reward_sums,
            "stale": self.stale,
            **self._squares(),
            "inner": np.frombuffer(self.inner.snapshot(), dtype=np.uint8),
        }
        self._open.save(header, arrays)
        return codec.pack(header, arrays)

    def _squares(self) -> dict[str, Floats]:
        """The squares of the log, where the explorer of an epoch starts from them."""
        explorer, squares = getattr(self.inner, "explorer", None), self.offline.reward_squares
        if squares is None or not getattr(explorer, "estimates_noise", False):
            return {}
        return {"reward_squares": squares}

    def _for_inner(self, decision: Decision | int) -> Decision | int:
        """The decision as this epoch's agent numbers it."""
        if not isinstance(decision, Decision):
            return decision
        check_round(decision, self.rounds + 1)
        return replace(decision, round=self.played + 1)

    def _count(self, rounds: int) -> None:
        self.played += rounds
        if self.played == 2**self.epoch:
            self.restart(epoch=self.epoch + 1)
