"""A model for each arm: the numbers of a context, and a parameter of each arm's own for every one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.features.digests import Digested
from linoto.core.hints import as_names as listed
from linoto.core.hints import nearest
from linoto.core.validation import as_floats, as_names, check_count


@dataclass(frozen=True, kw_only=True)
class OwnFeatures(Digested):
    """Features of each arm's own: `width` numbers say who is asking, and no arm learns from another.

    An agent needs no more time for them than a ridge model for each arm would.

    >>> from linoto import LinUCB
    >>> features = OwnFeatures(items=("red", "blue"), width=3)
    >>> features.transform([1.0, 0.5, 2.0]).tolist()
    [[1.0, 0.5, 2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.5, 2.0]]
    >>> agent = LinUCB().start(None, features=features, rng=0)
    >>> agent.decide(context=[1.0, 0.5, 2.0]).name
    'red'
    """

    items: tuple[str, ...]  # (k,) the arms
    width: int  # numbers in a context

    def __post_init__(self) -> None:
        if isinstance(self.items, str):
            raise ValueError(f"items must be names, got {self.items!r}, which is one: say ({self.items!r},)")
        object.__setattr__(self, "items", as_names(tuple(self.items), len(tuple(self.items))) or ())
        check_count("width", self.width)
        if not self.items:
            raise ValueError("items must be at least one name, got none")

    @property
    def d(self) -> int:
        """The number of features."""
        return self.width * len(self.items)

    @property
    def own_width(self) -> int:
        """How many features each item has of its own: as many as a context has."""
        return self.width

    @cached_property
    def by_item(self) -> Ints:
        """(d,) the features item by item: as they are."""
        return np.arange(self.d)

    @cached_property
    def item_places(self) -> dict[str, int]:
        """Where an item is."""
        return {name: place for place, name in enumerate(self.items)}

    def transform(self, context: Any, arms: Sequence[str] | None = None) -> Floats:
        """(k, d) the actions of a round: of all items, or of these."""
        rows, places = self.few(context, arms)
        actions = np.zeros((len(rows), self.d))
        np.put_along_axis(actions, places[:, None] + np.arange(self.width), rows, axis=1)
        return actions

    def few(self, context: Any, arms: Sequence[str] | None = None) -> tuple[Floats, Ints]:
        """(k, width) the same without their zeros, and (k,) where those features begin."""
        x = context if type(context) is np.ndarray and context.dtype == np.float64 else None
        if x is None or x.shape != (self.width,):
            x = as_floats("context", context, ndim=1)  # says what is wrong
        if x.size != self.width:
            raise ValueError(f"context must have {self.width} numbers, got {x.size}")
        places = self.first_places if arms is None else self.places_of(arms)
        rows = np.empty((self.width, places.size)).T  # one column after the other
        rows[:] = x
        return rows, places

    @cached_property
    def first_places(self) -> Ints:
        """(k,) where the features of each item begin."""
        places = np.arange(len(self.items)) * self.width
        places.flags.writeable = False  # the same array in every round
        return places

    def places_of(self, arms: Sequence[str]) -> Ints:
        """The same of these items."""
        for name in arms:
            if name not in self.item_places:
                hint = nearest(str(name), self.items)
                raise ValueError(f"arms must be among the {len(self.items)} items, got {name!r}{hint}")
        if not len(arms):
            raise ValueError("arms must be at least one item, got none")
        return np.array([self.item_places[name] for name in arms], dtype=np.int64) * self.width

    # -- items that come later ------------------------------------------------------------------------

    def item_indices(self, names: Sequence[Any]) -> Ints:
        """(k,) where these items are."""
        return self.places_of(names) // self.width

    def with_items(
        self, names: Sequence[str], values: Sequence[Sequence[float]] | None = None
    ) -> OwnFeatures:
        """The same features with more items, of which only their names are known: `values` must be None.

        >>> OwnFeatures(items=("red", "blue"), width=3).with_items(["green"]).d
        9
        """
        added = listed(names)
        if not added:
            raise ValueError("items must be at least one name, got none")
        if values is not None:
            raise ValueError("features of new items must be left out: OwnFeatures knows items by name alone")
        return OwnFeatures(items=(*self.items, *added), width=self.width)

    def places_in(self, larger: OwnFeatures) -> Ints:
        """(d,) where each feature is in features that have more items: where it was."""
        return larger.by_item[: self.d]
