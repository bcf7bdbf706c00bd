"""Loading the compiled kernels, or compiling them once per machine, before the first decision needs them."""

from __future__ import annotations

import gc
import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats, Records
from linoto.core.kernels import Part, Parts, State

logger = logging.getLogger("linoto")
PATIENCE = 2.0  # seconds
SELDOM = 50_000  # objects that Python makes before it looks for unused ones, while kernels are compiled
PLAIN, TOLERANT, BY_COIN = Parts(budget=1), Parts(ledger=1, draws=1, model=1), Parts(coin=1, draws=1)
Sampling = tuple[Part, Part, Part]  # `shift`, `draws` and `chances` of kernels


class Kind(NamedTuple):
    """Of a state, as far as kernels are compiled once more for another."""

    numbers: str = "float64"  # of the features of arms
    writeable: bool = True
    blocks: bool = False

    @classmethod
    def of(cls, state: State) -> Kind:
        """That of this one."""
        return cls(state.actions.dtype.name, state.actions.flags.writeable, state.blocks is not None)


OWNED = Kind()


@cache
def explain_the_wait() -> None:
    """Said once in a process, however many kernels are compiled."""
    logger.warning(
        "linoto compiles what this kind of policy computes, once on this machine: half a minute of a core"
    )


@contextmanager
def announced() -> Iterator[None]:
    """Say why nothing happens, if it takes long because kernels are compiled and not only loaded."""
    done = threading.Event()
    threading.Thread(target=explain_compiling, args=(done,), daemon=True).start()
    try:
        with seldom_collected():
            yield
    finally:
        done.set()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Look for unused objects less often: numba makes millions, and nearly all are used until it is done.

    With Python's own number, looking takes 7 % of compiling; with this one, memory grows by 3 % instead.
    A thread that finds the larger number leaves it to whoever set it.
    """
    first, *others = gc.get_threshold()
    if not 0 < first < SELDOM:  # 0: never
        yield
        return
    gc.set_threshold(SELDOM, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


def explain_compiling(done: threading.Event) -> None:
    """Look every now and then until it is done; loading can take as long on a busy machine."""
    while not done.wait(PATIENCE):
        if any_compiled(all_kernels()):
            explain_the_wait()
            return


def all_kernels() -> Iterator[Any]:
    """Every kernel of the files that are loaded."""
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{kernels.__name__}."):
            yield from list(vars(module).values())  # another thread may be importing it


def any_compiled(functions: Iterable[Any]) -> bool:
    """Whether one of these was not found in the cache on disk, and so is being compiled, or was."""
    return any(function.stats.cache_misses for function in functions if hasattr(function, "stats"))


@cache
def warm_up(parts: Parts = PLAIN, kind: Kind = OWNED) -> None:
    """Load (or, once per machine, compile) what deciding needs with these parts, on a problem of one arm."""
    with announced():
        params, state = tiny_problem(parts, kind)
        kernels.begin(params, state, *parts[:5])
        kernels.decide(params, state, -1, *parts)
        kernels.commit(params, state, 0, False, *parts[:2])
        kernels.observe(params, state, 0, False, 0.0, 0.0, True, *parts[:6])


@cache
def warm_up_loop(parts: Parts = PLAIN, kind: Kind = OWNED) -> None:
    """Load (or compile) the simulator's loop."""
    with announced():
        params, state = tiny_problem(parts, kind)
        kernels.begin(params, state, *parts[:5])
        kernels.play(params, state, *(*tiny_world(), None, *parts))


@cache
def warm_up_lists(coin: Part = None, ledger: Part = None, kind: Kind = OWNED) -> None:
    """Load (or compile) what lists of arms need."""
    with announced():
        params, state, lists = tiny_lists(kind)
        kernels.list_decide(params, state, lists, -1, coin)
        kernels.list_observe(params, state, lists, 0, False, 0.0, 0.0, False, coin, ledger)
        kernels.list_commit(params, state, lists, 0, False, coin, ledger)
        kernels.list_meet(params, state, lists, 0)
        kernels.list_settle(params, state, lists, 0, 1)


@cache
def warm_up_list_loop(coin: Part = None, ledger: Part = None, kind: Kind = OWNED) -> None:
    """Load (or compile) the simulator's loop by lists of arms."""
    with announced():
        kernels.list_play(*tiny_lists(kind), *(*tiny_world(), coin, ledger))


@cache
def warm_up_contexts(coin: Part = None, shift: Part = None) -> None:
    """Load (or compile) what deciding in contexts needs, in a round of one arm."""
    with announced():
        params, state, one = tiny_round(coin, shift)
        width = kernels.frame_arms(np.ones((1, 1)), np.zeros(1), 1)
        kernels.cut_arms(np.ones((1, 1)), np.zeros(1), 1, np.ones((width, 1)))
        kernels.context_follow(state)
        kernels.context_decide(params, state, np.ones((1, 1)), one, 1, -1, coin, shift)
        kernels.context_commit(params, state, one, one, False, coin)
        kernels.context_observe(params, state, one, one, 0, 0, False, 0.0, 0.0, True, coin, shift)


@cache
def warm_up_context_loop(coin: Part = None, shift: Part = None) -> None:
    """Load (or compile) the simulator's loop over rounds with contexts."""
    with announced():
        params, state, one = tiny_round(coin, shift)
        rounds = np.ones(1, np.int64), np.ones((1, 1)), one, one, one, False
        draws = np.empty((1, 0)), np.zeros((1, 2)), np.zeros((2, 1))
        played = np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.int64)
        kernels.context_play(params, state, *rounds, *draws, *played, None, coin, shift)


@cache
def warm_up_rails() -> None:
    """Load (or compile) what the books of guardrails need."""
    with announced():
        params, books, run = np.zeros(1, kernels.PARAMS), np.zeros(1, kernels.RUN), np.zeros(1, kernels.RUN)
        params["unit"] = 1.0
        kernels.rails_begin(params, books)
        kernels.rails_measure(params, books, run)
        kernels.rails_commit(params, books, run, False)
        kernels.rails_observe(params, books, 0, 0, 0.0, 0.0, 0.0, False)
        one, square = np.ones(1), np.ones((1, 1))
        told = kernels.Told(
            np.ones((6, 1)), np.ones((1, 1, 1)), square, np.ones((2, 1)), np.ones(1, np.int64), np.ones(0)
        )
        kernels.told_learn(told, 0, one, 0.0)
        kernels.told_compare(told, square, one)
        kernels.told_accept(told, books, square, np.ones(1, np.int64))


@cache
def warm_up_proposals(shift: Part = None) -> None:
    """Load (or compile) what an explorer that is told of guardrails needs in contexts."""
    with announced():
        params, state, _ = tiny_round(None, shift)
        kernels.context_propose(params, state, np.ones((1, 1)), np.ones(1, np.int64), 1, shift)


@cache
def warm_up_redraws(sampling: Sampling, kind: Kind = OWNED) -> None:
    """Load (or compile) what the propensities of an explorer that samples need."""
    with announced():
        params, state = tiny_problem(Parts(shift=sampling[0]), kind)
        params["explorer"] = kernels.GREEDY
        kernels.redraw(params, state, np.zeros((1, 1)), 1, False, np.zeros(1, np.int64), *sampling)


def warm_up_usual() -> None:
    """What most loops of a service need, so that no caller waits for it."""
    for parts in (PLAIN, TOLERANT, BY_COIN):
        warm_up(parts)


def tiny_problem(parts: Parts, kind: Kind = OWNED) -> tuple[Records, State]:
    """One arm, one feature, an empty log."""
    shifted = parts.shift is not None
    params, features = np.zeros(2 if shifted else 1, dtype=kernels.PARAMS), np.ones((1, 1), kind.numbers)
    params["ridge"], features.flags.writeable = 1.0, kind.writeable
    state = kernels.allocate(np.ones((1, 1)), np.zeros(1, np.int64), np.zeros(1), shifted)
    blocks = np.zeros(kernels.NO_BLOCKS) if kind.blocks else None
    return params, state._replace(actions=features, blocks=blocks)


def tiny_lists(kind: Kind) -> tuple[Records, State, kernels.Lists]:
    """The same with its lists, begun."""
    params, state = tiny_problem(PLAIN, kind)
    kernels.begin(params, state, *PLAIN[:5])
    lists = kernels.allocate_lists(1, 1, 1, 1, kind.numbers)
    kernels.list_begin(params, state, lists, False)
    return params, state, lists


def tiny_world() -> tuple[Any, ...]:
    """One round of that arm, with what is drawn in it, and room for what is played."""
    world = np.zeros((1, 1)), np.zeros(1, np.int64), 0, np.zeros(1), False, 0.0, np.zeros(1)
    randoms = np.empty((1, 0)), np.zeros((1, 2))
    return *world, *randoms, np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.int64)


def tiny_round(coin: Part, shift: Part) -> tuple[Records, State, Floats]:
    """The same for a round with its own arm, begun; and the number 1."""
    params, one = np.zeros(1 if shift is None else 2, dtype=kernels.PARAMS), np.ones(1)
    params["ridge"] = 1.0
    state = kernels.with_arms(kernels.allocate_rounds(params, np.zeros((1, 1)), one), np.ones((1, 1)))
    kernels.context_begin(params, state, np.ones((1, 1)), one, coin, shift)
    return params, state, one
