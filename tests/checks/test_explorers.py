"""An explorer of one's own is checked like any policy, and a wrong one is caught by the right law."""

from typing import Any

import pytest
from helpers import own_explorers
from helpers.own_explorers import Dice, Optimist, Worst

from linoto.checks import LawError, check_policy
from linoto.checks.suite import LAWS
from linoto.core.doubling import Doubling
from linoto.core.gates import Budget, Open, Tolerance
from linoto.core.policies import Gated

NOT_FOR_OWN = {
    *("repr_round_trips", "json_round_trips", "memory_of_the_loop_is_constant"),
    "both_ways_play_the_same",  # a round that brings its arms has no counts to look at
}
SYMMETRY = {"permuting_arms_permutes_decisions", "rotating_the_space_changes_no_decision"}
WRONG = [
    ("OutsideDraws", "select_is_pure"),
    ("WrongShape", "select_gives_an_arm"),
    ("OutOfRange", "select_gives_an_arm"),
    ("SixArms", "one_arm"),
    ("CountsCalls", "select_is_pure"),
    ("CountsRounds", "same_seed_same_run"),
    ("KeepsHistory", "memory_is_constant"),
]
LAWS_OF_OWN = [law.__name__ for _, laws in LAWS for law in laws if law.__name__ not in NOT_FOR_OWN]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(Gated(explorer=Optimist(), gate=Tolerance(epsilon=0.1)), id="a score"),
        pytest.param(
            Gated(explorer=Worst(), gate=Budget(alpha=1.0), fallback=2),
            marks=pytest.mark.slow,
            id="a proposal",
        ),
        pytest.param(
            Doubling(policy=Gated(explorer=Optimist(scale=0.1), gate=Open())),
            marks=pytest.mark.slow,
            id="Doubling",
        ),
    ],
)
@pytest.mark.few(0)
def test_a_right_explorer_obeys_every_law(policy: Any) -> None:
    assert check_policy(policy) == LAWS_OF_OWN


@pytest.mark.slow
def test_a_right_explorer_that_draws_obeys_every_law_but_symmetry() -> None:
    """Ten seconds; in the usual suite: the explorers of test_suite.py that draw."""
    assert check_policy(Gated(explorer=Dice())) == [law for law in LAWS_OF_OWN if law not in SYMMETRY]


@pytest.mark.parametrize("name, law", WRONG)
def test_a_wrong_explorer_is_caught_by_the_right_law(name: str, law: str) -> None:
    """By its own law, and the two before it find nothing."""
    names = [each.__name__ for _, laws in LAWS for each in laws]
    own = names.index(law)
    with pytest.raises(LawError) as error:
        wrong = Gated(explorer=getattr(own_explorers, name)(), gate=Tolerance(epsilon=1.0))
        check_policy(wrong, skip=[*names[: max(own - 2, 0)], *names[own + 1 :]])
    assert error.value.law == law


@pytest.mark.slow
@pytest.mark.parametrize("name, law", WRONG)
def test_a_wrong_explorer_is_caught_by_no_law_before_its_own(name: str, law: str) -> None:
    with pytest.raises(LawError) as error:
        check_policy(Gated(explorer=getattr(own_explorers, name)(), gate=Tolerance(epsilon=1.0)))
    assert error.value.law == law
