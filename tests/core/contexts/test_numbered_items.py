"""Items that are called by numbers: what may be an index or a name is refused, never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from linoto import LinUCB, Numeric, OwnFeatures, Recipe

RECIPES: dict[str, tuple[Any, Any]] = {
    "a recipe": (Recipe(items=("1", "2", "3"), context=(Numeric(name="x"),)), {"x": 0.5}),
    "own features": (OwnFeatures(items=("1", "2", "3"), width=2), [1.0, 0.5]),
    "own features of many": (OwnFeatures(items=tuple(map(str, range(1, 101))), width=2), [1.0, 0.5]),
}


@pytest.mark.parametrize("kind", RECIPES)
@pytest.mark.few(3)
def test_an_index_that_is_the_name_of_another_item_is_refused(kind: str) -> None:
    features, context = RECIPES[kind]
    agent = LinUCB().start(None, features=features, rng=0)
    for allowed in (None, ["2", "3"]):
        with pytest.raises(ValueError, match="practice must say which arm it means"):
            agent.decide(context=context, allowed=allowed, practice=1)
    named = agent.decide(context=context, practice="1")
    assert agent.decide(context=context, practice=0).practice == named.practice


def test_an_index_that_is_no_name_or_its_own_is_taken() -> None:
    features = OwnFeatures(items=("0", "1", "b"), width=1)
    agent = LinUCB().start(None, features=features, rng=0)
    for practice, name in ((0, "0"), (1, "1"), (2, "b")):
        by_index = agent.decide(context=[1.0], practice=practice)
        assert by_index.practice == agent.decide(context=[1.0], practice=name).practice
