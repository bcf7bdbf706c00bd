"""Where the coin of a round comes from: a key or a seed, and nothing shows it before it is thrown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.coin_kinds import ACTIONS, KINDS, LOG

import linoto
from linoto import Gated
from linoto.core.coins import GeneratorCoins, KeyedCoins, decode_coins

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
every_kind = pytest.mark.parametrize("kind", KINDS)


# -- the sources


def test_a_key_gives_a_round_the_same_numbers_in_any_order() -> None:
    coins = KeyedCoins(KEY)
    rows = coins.rows(3, 5)
    assert [coins.at(t) for t in (7, 3, 5)] == [tuple(rows[t - 3]) for t in (7, 3, 5)]
    assert KeyedCoins(KEY).at(3) == coins.at(3) != KeyedCoins(OTHER).at(3)
    assert coins.derived(1).at(3) == KeyedCoins(KEY).derived(1).at(3) != coins.derived(2).at(3)
    assert coins.rows(1, 0).shape == (0, 2)


def test_coins_of_a_key_are_uniform_and_independent() -> None:
    """Chi-square over a 4 x 4 grid, 15 degrees: above 37.7 with probability 0.001; the key is fixed."""
    rows = KeyedCoins(KEY).rows(1, 16_000)
    assert rows.min() >= 0.0 and rows.max() < 1.0
    cells = np.bincount((4 * rows[:, 0]).astype(int) * 4 + (4 * rows[:, 1]).astype(int), minlength=16)
    assert ((cells - 1000) ** 2 / 1000).sum() < 37.7


@pytest.mark.parametrize("key", [b"short", "x" * 32, None, bytes(33)])
def test_a_wrong_key_is_refused_and_not_shown(key: Any) -> None:
    with pytest.raises(ValueError, match=r"^key must be 32 bytes, got another value$"):
        KeyedCoins(key)


def test_a_generator_draws_each_round_once() -> None:
    """One by one or in blocks, and rounds that nobody asked for are passed over."""
    drawn = np.random.default_rng(5).random((9, 2))
    coins = GeneratorCoins(np.random.default_rng(5))
    assert coins.at(1) == tuple(drawn[0])
    np.testing.assert_array_equal(coins.rows(2, 3), drawn[1:4])
    assert coins.at(7) == tuple(drawn[6])
    with pytest.raises(ValueError, match=r"^round must be 8 or later: a generator draws once, got 7$"):
        coins.at(7)


def test_coins_that_are_drawn_ahead_leave_the_generator_where_it_stands() -> None:
    """One by one, in blocks or after a snapshot: round t has the numbers of row t."""
    drawn = np.random.default_rng(5).random((400, 2))
    coins, rng = GeneratorCoins(np.random.default_rng(5)), np.random.default_rng(6)
    t = 1
    while t < 300:
        assert coins.at(t) == tuple(drawn[t - 1])
        if rng.random() < 0.1:
            passed, rounds = rng.integers(3), rng.integers(1, 5)
            first = t + 1 + int(passed)
            np.testing.assert_array_equal(coins.rows(first, int(rounds)), drawn[first - 1 :][:rounds])
            t = first + int(rounds) - 1
        if rng.random() < 0.1:
            kept, apart = coins.encoded(), GeneratorCoins(np.random.default_rng(5))
            apart.rows(t, 1)
            assert kept == apart.encoded()
            again = decode_coins(kept, t)
            assert again.at(t + 1) == tuple(drawn[t])
        t += 1


# -- agents that use them


@every_kind
def test_the_coin_of_a_round_is_that_of_its_number(kind: str) -> None:
    play = KINDS[kind]()
    play.agent.use_coins(KeyedCoins(KEY))
    for t in range(1, 6):
        assert (play.run["practice_draw"], play.run["coin"]) == KeyedCoins(KEY).at(t)
        play.agent.update(play.ask(), 1.0)


@every_kind
def test_other_coins_begin_where_none_is_thrown_yet(kind: str) -> None:
    """A thrown coin stands: its decision is the same afterwards, and the next round has the new coins."""
    play = KINDS[kind](rng=0)
    before = play.ask()
    assert before.control_share is not None
    thrown = float(play.run["coin"])
    play.agent.use_coins(KeyedCoins(KEY))
    assert play.ask() == before and play.run["coin"] == thrown
    play.agent.update(before, 1.0)
    assert play.run["coin"] == KeyedCoins(KEY).at(2)[1]
    play.agent.use_coins(KeyedCoins(OTHER))
    assert play.run["coin"] == KeyedCoins(OTHER).at(2)[1]


@every_kind
@pytest.mark.parametrize("rng", [None, 0])
@pytest.mark.parametrize("thrown", [False, True])
def test_a_restored_agent_throws_the_coins_of_the_first(kind: str, rng: int | None, thrown: bool) -> None:
    play = KINDS[kind](rng=rng)
    for _ in range(3):
        play.agent.update(play.ask(), 1.0)
    if thrown:
        assert play.ask().control_share is not None
    twin = KINDS[kind](rng=1)
    twin.agent = linoto.restore(play.agent.snapshot())
    assert twin.agent.snapshot() == play.agent.snapshot()
    for _ in range(40):
        decision = play.ask()
        assert decision == twin.ask()
        play.agent.update(decision, 1.0)
        twin.agent.update(decision, 1.0)


@every_kind
def test_nothing_that_is_printed_shows_a_key_or_a_coin(kind: str) -> None:
    play = KINDS[kind]()
    play.agent.use_coins(KeyedCoins(KEY))
    play.agent.update(play.ask(), 1.0)
    coming = KeyedCoins(KEY).at(2)
    decision = play.ask()
    shown = f"{play.agent!r} {play.agent.certificate} {play.coins!r} {decision!r}"
    for secret in (KEY.hex(), repr(KEY), *(f"{number:.6f}" for number in coming)):
        assert secret not in shown


def test_a_gate_without_a_coin_draws_none() -> None:
    agent = Gated().start(ACTIONS, LOG, rng=0)
    before = agent.snapshot()
    agent.use_coins(KeyedCoins(KEY))
    assert agent.snapshot() == before


@pytest.mark.parametrize("kind", ["fixed arms", "contexts"])
def test_the_compiled_loop_throws_the_coins_of_the_rounds(kind: str) -> None:
    """After 300 compiled rounds the coin at hand is that of round 301, whatever was thrown before."""
    play = KINDS[kind](rng=0)
    play.agent.use_coins(KeyedCoins(KEY))
    means, draws = np.array([0.6, 0.5, 0.7]), np.random.default_rng(1).random(300)
    if kind == "contexts":
        arms = {"actions": np.tile(ACTIONS, (300, 1)), "weights": np.tile([0.6, 0.4, 0.0], 300)}
        ends = 3 * np.arange(1, 301)
        play.agent.play(np.tile(means, 300), draws, ends=ends, **arms, bernoulli=True)
    else:
        play.agent.play(means, draws, bernoulli=True)
    assert (play.run["practice_draw"], play.run["coin"]) == KeyedCoins(KEY).at(301)
