"""What every composed policy can do: start, alone or in contexts, and say what it promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.agent import LinearAgent
from linoto.core.certificates import Certificate, Situation, certify
from linoto.core.coins import coins_for
from linoto.core.contexts.agent import ContextualAgent
from linoto.core.contexts.rounds import Features
from linoto.core.contexts.start import start_contextual
from linoto.core.explorers import rule_of
from linoto.core.features.moments import Moments
from linoto.core.offline import Offline, as_offline
from linoto.core.protocols import Composition
from linoto.core.validation import as_actions, as_names, generator_for


@dataclass(frozen=True, kw_only=True)
class Composed:
    """Shared by the policies below: start what they are composed of."""

    words: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """What commands call it as an explorer, and with which arguments."""

    def composed(self) -> Composition:
        """This policy as explorer, gate and fallback."""
        raise TypeError(f"{type(self).__name__} must say what it is composed of")

    @property
    def needs_one_hot(self) -> bool:
        """Whether it plays one-hot arms only."""
        gated = self.composed()
        return rule_of(gated.explorer).one_hot or gated.assumed.radius == "arms"

    def with_parameter(self, name: str, value: float) -> Any:
        """The policy with another value of one of its gate's parameters."""
        raise ValueError(f"policy must have a gate with {name}, got {self!r}")

    def start(
        self,
        actions: npt.ArrayLike,
        offline: Offline,
        rng: int | np.random.Generator | None = None,
        names: Sequence[str] | None = None,
    ) -> LinearAgent:
        """A running agent for these arms (k, d) and this log.

        Its draws, and the coin of its gate, are the system's own and nobody knows them; a seed or a generator
        as `rng` makes a run that can be repeated, whose coin is known to whoever knows the seed.
        """
        arms = as_actions(actions)
        log = as_offline(offline, len(arms))
        gated, generator = self.composed(), generator_for(rng)
        agent = LinearAgent.begin(
            policy=self,
            composition=gated,
            params=gated.params(arms, log),
            state=kernels.allocate(arms, log.pulls, log.reward_sums, gated.assumed.shift > 0),
            rng=generator,
            coins=coins_for(rng, generator) if gated.gate.throws_coin else None,
            reward_squares=log.reward_squares,
            names=as_names(names, len(arms)),
        )
        gated.gate.check_start(agent._state, gated.assumed, log)
        return agent

    def composed_contextual(self) -> Composition:
        """The same for rounds that bring their own arms."""
        return self.composed()

    def start_contextual(
        self,
        offline: Moments | None = None,
        *,
        d: int | None = None,
        features: Features | None = None,
        rng: int | np.random.Generator | None = None,
    ) -> ContextualAgent:
        """A running agent for rounds that bring their own arms, each a vector of d features.

        `features`, an object with `d` and `transform(context, arms)`, makes those from contexts. `rng` is as
        in `start`.
        """
        return start_contextual(self, offline, d, features, rng)

    def certificate_contextual(
        self, offline: Moments | None = None, *, d: int | None = None, features: Features | None = None
    ) -> Certificate:
        """What is guaranteed with contexts, against the practice that is given with each decision."""
        return self.start_contextual(offline, d=d, features=features).certificate

    def certificate(self, actions: npt.ArrayLike, offline: Offline) -> Certificate:
        """What is guaranteed on these arms with this log, before the first round."""
        gated, agent = self.composed(), self.start(actions, offline)
        return certify(
            Situation(
                gate=gated.gate,
                fallback=gated.resolved_fallback(),
                confidence=gated.assumed,
                params=agent._params,
                run=agent._state.run,
                state=agent._state,
                offline=offline,
            )
        )
