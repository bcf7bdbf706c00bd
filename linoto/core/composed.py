"""What every composed policy can do: start, on arms that stay or on rounds that bring theirs, and promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from linoto.core.agent import Agent
from linoto.core.arrays import Floats
from linoto.core.certificates import Certificate
from linoto.core.coins import coins_for
from linoto.core.drivers.driver import Driver
from linoto.core.drivers.fixed import FixedArms
from linoto.core.drivers.questions import Features, dimension
from linoto.core.drivers.rounds import RoundArms
from linoto.core.explorers import rule_of
from linoto.core.features.digests import check_same_features
from linoto.core.features.moments import Moments, as_moments
from linoto.core.item_changes import learnt_policy
from linoto.core.offline import Offline, as_offline
from linoto.core.parameters import why_no_rounds
from linoto.core.plain_python import only_looking
from linoto.core.plausible import with_plausible_confidence
from linoto.core.protocols import Composition, Log, is_log, of_log
from linoto.core.validation import as_features, as_names, generator_for


def stated_log(
    actions: Any, offline: Any, *, d: int | None = None, features: Features | None = None
) -> tuple[Floats, Offline | Moments]:
    """The arms (k, d) and their log; or no arms (0, d), and a log of rounds that bring their own."""
    if isinstance(actions, Moments):
        actions, offline = None, actions
    if actions is None and not isinstance(offline, Offline):
        moments = as_moments(offline, dimension(d, features))
        return np.empty((0, moments.d)), moments
    if actions is None:
        raise ValueError("actions must be given with a log of fixed arms, got None")
    if d is not None or features is not None:
        raise ValueError("d and features must be None where actions are given, got both")
    arms = as_features(actions)
    return arms, as_offline(offline, len(arms))


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

    @property
    def scores_by_arm(self) -> bool:
        """Whether an arm without a reward is as any other such arm to it, whatever its features."""
        return rule_of(self.composed().explorer).by_arm

    def with_parameter(self, name: str, value: float) -> Any:
        """The policy with another value of one of its gate's parameters."""
        raise ValueError(f"policy must have a gate with {name}, got {self!r}")

    def start(
        self,
        actions: npt.ArrayLike | Log | Moments | None = None,
        offline: Offline | Moments | None = None,
        rng: int | np.random.Generator | None = None,
        names: Sequence[str] | None = None,
        *,
        d: int | None = None,
        features: Features | None = None,
    ) -> Agent:
        """A running agent. There are three ways to say what is known:

        - `start(actions, offline)`: these arms (k, d) in every round, and what the log says of each;
        - `start(moments, features=recipe)`: every round brings its own arms, vectors of d features,
          or a context from which `features` (an object with `d` and `transform(context, arms)`) makes them.
          Without a log or features, `d` says how many there are;
        - `start(log)`: what `read_log` or `load` returned, with contexts or without.

        Its draws, and the coin of its gate, are the system's own and nobody knows them; a seed or a generator
        as `rng` makes a run that can be repeated, whose coin is known to whoever knows the seed.
        """
        if is_log(actions):
            return self.start(**of_log(actions), rng=rng)
        log = actions if isinstance(actions, Moments) else offline
        policy = with_plausible_confidence(self, lambda: stated_log(actions, offline, d=d, features=features))
        in_rounds = isinstance(log, Moments) or (actions is None and log is None)
        summed = as_moments(log, dimension(d, features)) if in_rounds else None
        policy = policy.suited_to(summed, features)
        driver = policy.driver_for(actions, offline, rng, names, d=d, features=features)
        return Agent(policy, driver)

    def suited_to(self, log: Moments | None, features: Features | None) -> Composed:
        """The policy with what nobody chose, for a log of rounds or, where it is None, for arms that stay."""
        return self

    def driver_for(
        self,
        actions: Any,
        offline: Any,
        rng: Any = None,
        names: Sequence[str] | None = None,
        *,
        d: int | None = None,
        features: Features | None = None,
    ) -> Driver[Any]:
        """What measures rounds."""
        if is_log(actions):
            return self.driver_for(**of_log(actions), rng=rng)
        arms, log = stated_log(actions, offline, d=d, features=features)
        reason, generator = self.why_not(log), generator_for(rng)
        if reason is not None:
            raise ValueError(reason)
        if isinstance(log, Moments):
            coins = coins_for(rng, generator)
            if (learnt := learnt_policy(self.composed_for_rounds().explorer)) is not None:
                check_same_features(learnt.recipe.digests, features, "the learnt policy")
            rounds = RoundArms.begin(
                self.composed_for_rounds(), log, rng=generator, coins=coins, features=features
            )
            rounds.check_length()
            return rounds
        composition = self.composed()
        return FixedArms.begin(
            composition,
            arms,
            log,
            rng=generator,
            coins=coins_for(rng, generator) if composition.gate.throws_coin else None,
            names=as_names(names, len(arms)),
        )

    def composed_for_rounds(self) -> Composition:
        """What it is composed of where rounds bring their own arms."""
        return self.composed()

    def why_not(self, log: Offline | Moments) -> str | None:
        """Why it cannot play what this log is about, or None; `start` refuses with the same words.

        That is arms which stay the same (an `Offline`), or rounds that bring their own (`Moments`).
        """
        if isinstance(log, Offline):
            return None
        composition = self.composed_for_rounds()
        if self.needs_one_hot:
            return f"policy must be one for arms with features, got {self!r}, which needs one-hot arms"
        if rule_of(composition.explorer).keeps_scores:
            return (
                "explorer must score the arms in every round with contexts, got "
                f"{type(composition.explorer).__name__}"
            )
        if rule_of(composition.explorer).by_arm:
            return (
                "explorer must score arms by their features with contexts, got "
                f"{type(composition.explorer).__name__}"
            )
        return why_no_rounds(composition, log)

    def certificate(
        self,
        actions: npt.ArrayLike | Log | Moments | None = None,
        offline: Offline | Moments | None = None,
        *,
        d: int | None = None,
        features: Features | None = None,
    ) -> Certificate:
        """What is guaranteed before the first round; what is known is said as to `start`."""
        given: dict[str, Any] = {"actions": actions, "offline": offline, "d": d, "features": features}
        known = of_log(actions) if is_log(actions) else given
        told = {name: known.get(name) for name in given}
        policy = with_plausible_confidence(self, lambda: stated_log(**told))
        with only_looking():
            return policy.driver_for(**told, names=known.get("names")).certified()
