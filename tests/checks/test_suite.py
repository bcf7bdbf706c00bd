"""Every exported policy obeys every law, and the laws that need something apply where it is there."""

import dataclasses
import inspect
from collections.abc import Collection
from typing import Any

import pytest
from helpers.plain_policies import Kept, KeptAgent, Leader, PatientAgent

import linoto
from linoto import research
from linoto.checks.in_rounds import draws_nothing, plays_rounds
from linoto.checks.memory import INTERACTIVE_ROUNDS, TRIES, held_after
from linoto.checks.problems import small_problem
from linoto.checks.suite import LAWS, Law, LawError, all_checks, check_policy
from linoto.core.confidence import PAPER, Confidence
from linoto.core.doubling import Doubling
from linoto.core.gates import Budget, Closed, Conservative, Control, Open, Tolerance
from linoto.core.gates.older import OlderTolerance
from linoto.core.oope import OOPE  # its laws are in tests/core/test_oope.py
from linoto.core.policies import (
    Gated,
    Greedy,
    LinLCB,
    LinOtO,
    LinTS,
    LinUCB,
    LogisticTS,
    Random,
    RandUCB,
    SquareCB,
)
from linoto.core.research import HUCB1, KLUCB, UCB1, UCBV, ArmUCB, MinUCB, OtO, RareLinUCB, WideLinTS

OF_OWN_EXPLORERS = ["explorers_do_not_write_into_their_view", "deterministic_explorers_draw_nothing"]
ALL_LAWS = [law.__name__ for _, laws in LAWS for law in laws if law.__name__ not in OF_OWN_EXPLORERS]
MEMORY = ["memory_is_constant", "memory_of_the_loop_is_constant"]  # apart, below
SYMMETRY = ["permuting_arms_permutes_decisions", "rotating_the_space_changes_no_decision"]

DETERMINISTIC = [
    LinOtO(),
    LinOtO(budget="aggregate", alpha=1.0),
    LinOtO(budget="max", alpha=0.1),
    LinUCB(scale=1.0),
    LinUCB(scale=0.25, confidence=PAPER),
    RareLinUCB(),
    LinLCB(),
    LinLCB(frozen=True),
    LinTS(scale=0.0, prior="scaled"),
    Greedy(),
    Gated(explorer=LinUCB()),
    Gated(
        explorer=LinUCB(),
        gate=Tolerance(epsilon=0.05, evidence="rewards"),
        confidence=Confidence(reward_range=(-1, 1)),
    ),
    Gated(
        explorer=LinUCB(),
        gate=Tolerance(epsilon=0.05),
        confidence=Confidence(reward_range=(-1, 1), radius="hkz"),
    ),
    Gated(
        explorer=LinUCB(),
        gate=OlderTolerance(epsilon=0.2, relative=True, bias="loose"),
        fallback="mixture",
        reach="proposal",
        confidence=Confidence(reward_range=(0, 1), bound=2.0),
    ),
    Gated(
        explorer=LinUCB(),
        gate=Conservative(mean=0.3, form="arms"),
        fallback=2,
        confidence=Confidence(reward_range=(-1, 1)),
    ),
    Gated(explorer=LinUCB(), gate=Conservative(), confidence=Confidence(reward_range=(0, 1), bound=2.0)),
    Gated(explorer=LinUCB(), gate=Open(), reach="proposal"),
    Gated(explorer=LinUCB(), gate=Closed()),
    Gated(explorer=LinUCB(), gate=Budget(alpha=0.03, slack="coverage"), fallback=2, confidence=PAPER),
    Gated(explorer=LinUCB(), gate=Budget(), fallback=0, reach="proposal"),
    Gated(explorer=LinUCB(scale=1.0), gate=Budget(form="aggregate"), fallback="frozen", reach="proposal"),
    Gated(
        explorer=Greedy(), gate=Budget(alpha=0.5, form="max"), confidence=Confidence(radius="hkz", ridge=1e-4)
    ),
    Doubling(policy=LinOtO(alpha=0.1)),
    Doubling(policy=LinUCB(scale=1.0), delta="epoch"),
    Doubling(policy=Gated(explorer=LinUCB(), fallback=2), delta="epoch"),
]
RANDOMISED = [
    LinTS(),
    WideLinTS(law="abeille-lazaric"),
    Random(),
    LogisticTS(),
    SquareCB(),
    RandUCB(),
    Gated(),
    Gated(
        explorer=LinTS(scale=2.0), gate=Budget(alpha=1.0, slack="coverage"), confidence=Confidence(noise=0.5)
    ),
    Gated(explorer=Random(), gate=Budget(alpha=2.0, form="max"), fallback=2, reach="proposal"),
    Gated(
        gate=Control(budget=6.0, epsilon=0.2, promise="expected"), confidence=Confidence(reward_range=(-1, 1))
    ),
    Gated(explorer=SquareCB(scale=1.0), gate=Tolerance(epsilon=0.2), confidence=Confidence(noise=0.5)),
    Gated(explorer=RandUCB(scale=3.0), gate=Budget(alpha=1.0), reach="proposal"),
    Doubling(policy=LinTS()),
]


ONE_HOT = [
    UCB1(),
    HUCB1(),
    KLUCB(confidence=Confidence(noise="bounded", reward_range=(-20, 20), bound=20.0)),
    UCBV(confidence=Confidence(noise="bounded", reward_range=(-20, 20), bound=20.0)),
    MinUCB(shift=0.1),
    OtO(horizon=500),
    Doubling(policy=OtO()),
]
BY_ARM = [ArmUCB()]
OF_SHARED_FEATURES = ["one_feature", "duplicate_arms", *SYMMETRY]


def laws_for(policy: Any, without: Collection[str] = ()) -> list[str]:
    """Every law; that both ways play the same only where a policy plays both, and draws nothing."""
    drawn = () if draws_nothing(policy) else ("both_ways_play_the_same",)
    return [law for law in ALL_LAWS if law not in without and law not in drawn]


def test_both_ways_are_compared_for_every_kind_of_gate_that_has_them() -> None:
    gates = (
        Open(),
        Closed(),
        Tolerance(budget=20.0, evidence="model"),
        Control(budget=200.0, promise="expected"),
    )
    for gate in gates:
        confidence = Confidence(reward_range=(-1, 1)) if gate.throws_coin else None
        assert draws_nothing(Gated(explorer=LinUCB(scale=1.0), gate=gate, confidence=confidence))


@pytest.mark.parametrize("policy", ONE_HOT, ids=str)
@pytest.mark.few(3)
def test_policies_of_one_hot_arms_obey_every_law_about_such_arms(policy: Any) -> None:
    assert check_policy(policy) == laws_for(policy, without=OF_SHARED_FEATURES)


def one_of_each(policies: list[Any]) -> list[Any]:
    """The first of each type and gate, and the others in the slow suite."""
    found, seen = [], set()
    for policy in policies:
        kind = type(policy), type(getattr(policy, "gate", None))
        found.append(pytest.param(policy, marks=pytest.mark.slow) if kind in seen else policy)
        seen.add(kind)
    return found


@pytest.mark.parametrize("policy", one_of_each(DETERMINISTIC), ids=str)
@pytest.mark.few(5)
def test_deterministic_policies_obey_every_law(policy: Any) -> None:
    assert check_policy(policy, skip=MEMORY) == laws_for(policy, without=MEMORY)


@pytest.mark.parametrize("policy", one_of_each(RANDOMISED) + BY_ARM, ids=str)
@pytest.mark.few(4)
def test_randomised_policies_and_those_of_single_arms_obey_every_law_but_symmetry(policy: Any) -> None:
    assert check_policy(policy, skip=MEMORY) == laws_for(policy, without=[*MEMORY, *SYMMETRY])


def one_of_each_agent(policies: list[Any]) -> list[Any]:
    """One with a coin, and Doubling; those of the paper and with a ledger hold every law in other tests."""
    usual = [next(each for each in policies if is_by_coin(each)), Doubling(policy=LinTS())]
    return [*usual, *(pytest.param(each, marks=pytest.mark.slow) for each in policies if each not in usual)]


def is_by_coin(policy: Any) -> bool:
    return isinstance(getattr(policy, "gate", None), Control)


@pytest.mark.parametrize("policy", one_of_each_agent(DETERMINISTIC + RANDOMISED), ids=str)
@pytest.mark.few(1)
def test_agents_hold_as_much_after_many_rounds_as_after_few(policy: Any) -> None:
    """Among all the laws, in their order: what is loaded when it is first needed is there by then."""
    assert set(MEMORY) <= set(check_policy(policy))


RANGES = [
    Confidence(reward_range=(0, 1), noise="bounded"),
    *(
        pytest.param(confidence, marks=pytest.mark.slow)
        for confidence in (
            Confidence(reward_range=(-1, 1)),
            Confidence(reward_range=(-0.1, 0.1), noise=0.01),
            Confidence(reward_range=(20, 60), noise="bounded", bound=60.0),
            Confidence(noise=0.1, bound=0.3),
        )
    ),
]


@pytest.mark.parametrize("confidence", RANGES, ids=str)
def test_laws_have_rewards_as_a_policy_assumes_them_and_run_in_rounds_too(confidence: Confidence) -> None:
    policy = Gated(confidence=confidence)
    assert plays_rounds(policy)
    assert check_policy(policy) == laws_for(policy, without=SYMMETRY)  # its explorer draws


SHARES = Confidence(reward_range=(0, 1), bound=2.0)
PUBLISHED = [
    WideLinTS(law="agrawal-goyal"),
    *(
        Gated(explorer=explorer, gate=gate, fallback=2, reach="proposal", confidence=SHARES)
        for explorer, gate in (
            (ArmUCB(), Conservative(form="arms")),
            (LinUCB(scale=1.0), Conservative(mean=0.3)),
            (LinUCB(scale=1.0), Conservative(form="separate")),
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("policy", PUBLISHED, ids=str)
def test_cucb_clucb_clucb2_and_the_widest_thompson_obey_every_law(policy: Any) -> None:
    assert "compiled_equals_interactive" in check_policy(policy)


def test_every_exported_policy_is_checked() -> None:
    exported = [getattr(module, name) for module in (linoto, research) for name in module.__all__]
    policies = {cls for cls in exported if inspect.isclass(cls) and dataclasses.is_dataclass(cls)}
    policies = {cls for cls in policies if callable(getattr(cls, "start", None))}
    assert policies == {type(policy) for policy in DETERMINISTIC + RANDOMISED + ONE_HOT + BY_ARM} | {OOPE}


def test_the_small_problem_makes_gates_open_and_close() -> None:
    problem = small_problem()
    for policy in (LinOtO(), LinOtO(budget="max", alpha=0.1), Doubling(policy=LinOtO(alpha=0.1))):
        _, explored = problem.start_agent(policy).play(problem.means, problem.noise)
        assert 0 < explored.sum() < explored.size


PLAIN_LAWS = list(all_checks(Kept(KeptAgent)))


@pytest.mark.parametrize("law", [law for _, law in PLAIN_LAWS], ids=[name for name, _ in PLAIN_LAWS])
def test_a_plain_python_policy_can_obey_the_laws(law: Law) -> None:
    law(Kept(KeptAgent))


def test_laws_apply_where_the_agent_has_what_they_need() -> None:
    leader, patient, kept = (
        {name for name, _ in all_checks(p)} for p in (Leader(), Leader(PatientAgent), Kept(KeptAgent))
    )
    records = {name for name, _ in zip(ALL_LAWS, range(5), strict=False)}
    assert "cannot_be_changed" in records and not leader & records
    assert "one_arm" in leader and not any(
        name.startswith(("compiled", "snapshots", "rewards", "inverse")) for name in leader
    )
    assert patient - leader == {
        name for name in ALL_LAWS if name.startswith(("update_is", "rewards_", "lost"))
    }
    assert kept - patient == {name for name in ALL_LAWS if name.startswith("snapshots")}


def test_doubling_of_a_plain_python_policy_obeys_the_laws() -> None:
    assert check_policy(Doubling(policy=Leader()), skip=["repr_round_trips", "json_round_trips"])


def test_only_laws_can_be_skipped() -> None:
    with pytest.raises(ValueError, match="skip must hold names of laws, got gravity"):
        check_policy(LinOtO(), skip=["gravity"])


def test_an_error_names_the_law_says_what_it_means_and_where_it_is_explained() -> None:
    class Silent:
        def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
            return Kept(KeptAgent).start(actions, offline, rng)

        def __repr__(self) -> str:
            return "Silent()"

    with pytest.raises(LawError) as error:
        check_policy(Silent(), skip=["memory_is_constant"])
    assert error.value.law == "snapshots_have_the_same_future"
    assert str(error.value) == (
        "Silent() breaks snapshots_have_the_same_future: A snapshot of any round continues as its agent did. "
        "Found: ValueError: snapshot must be bytes written by agent.snapshot(), got something else. "
        "Explained in docs/laws.md#snapshots_have_the_same_future"
    )


def test_a_law_is_one_sentence() -> None:
    for _, laws in LAWS:
        for law in laws:
            assert law.__doc__ and law.__doc__.strip().endswith(".") and "\n" not in law.__doc__


def test_names_that_python_keeps_to_find_attributes_sooner_are_no_growth() -> None:
    """As NumPy leaves them there, which makes a string of a name each time that it looks it up."""

    def look_up(rounds: int) -> None:
        for name in [f"name{number}" for number in range(rounds)]:
            getattr(look_up, name, None)

    for fewer, most, times in TRIES:
        assert held_after(look_up, INTERACTIVE_ROUNDS // fewer, most, times) <= most
