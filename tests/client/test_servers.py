"""Both clients with the addresses of several servers: one that does not answer is not waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from helpers.scripted_service import DECISION, NOTHING, AnyClient, Raw, Script, answer, error, scripted
from helpers.service_process import free_port

from linoto import AsyncClient, Client
from linoto.client import ServiceError

STANDBY = error(503, "standby", retry_after="1")


@pytest.fixture(params=[Client, AsyncClient])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@contextmanager
def two(kind: Any, first: list[Raw], second: list[Raw]) -> Iterator[tuple[AnyClient, Script, Script]]:
    with (
        scripted(*first) as one,
        scripted(*second) as other,
        AnyClient(kind, [one.url, other.url]) as client,
    ):
        yield client, one, other


@pytest.mark.parametrize("failure", [NOTHING, STANDBY])
def test_another_server_is_asked_at_once_with_the_same_key(kind: Any, failure: bytes) -> None:
    with two(kind, [failure], [answer(200, DECISION)] * 2) as (client, one, other):
        assert client.decide("loop").arm == "a"
        assert client.pauses == [0.0] and one.seen == other.seen
        client.decide("loop")  # whoever answered is asked first
        assert len(one.seen) == 1 and len(other.seen) == 2


def test_a_server_that_is_not_there_is_passed_over(kind: Any) -> None:
    with scripted(answer(200, DECISION)) as there:
        urls: Any = [f"http://127.0.0.1:{free_port()}", there.url]
        with AnyClient(kind, urls) as client:
            assert client.decide("loop").arm == "a"


def test_after_all_servers_comes_a_pause_that_doubles(kind: Any) -> None:
    with two(kind, [STANDBY] * 3, [STANDBY] * 2 + [answer(200, DECISION)]) as (client, *_):
        client.decide("loop")
        assert client.pauses == [0.0, 0.05, 0.0, 0.1, 0.0]


def test_an_answer_names_who_is_asked_about_a_loop_from_then_on(kind: Any) -> None:
    said = [answer(200, DECISION)] * 2
    with two(kind, [], said) as (client, one, other):
        one.answers = iter([answer(200, DECISION, **{"x-linoto-server": other.url}), answer(200, [])])
        client.decide("loop")
        client.decide("loop")
        assert (len(one.seen), len(other.seen)) == (1, 1)


def test_an_address_that_was_not_given_is_not_sent_a_token(kind: Any) -> None:
    with (
        scripted() as stranger,
        scripted(*[answer(200, DECISION, **{"x-linoto-server": stranger.url})] * 2) as one,
        AnyClient(kind, [one.url], token="secret") as client,
    ):
        client.decide("loop")
        client.decide("loop")
        assert len(one.seen) == 2 and not stranger.heads


@pytest.mark.parametrize("status", [404, 429])
def test_what_one_server_refuses_no_other_is_asked(kind: Any, status: int) -> None:
    refusal = error(status, "no", retry_after="2")
    with two(kind, [refusal, answer(200, DECISION)], []) as (client, _, other):
        if status == 404:
            with pytest.raises(ServiceError):
                client.decide("loop")
        else:
            client.decide("loop")
            assert client.pauses == [2.0]
        assert not other.seen


def test_retries_are_counted_in_rounds_of_all_servers(kind: Any) -> None:
    with (
        scripted(*[STANDBY] * 2) as one,
        scripted(*[STANDBY] * 2) as other,
        AnyClient(kind, [one.url, other.url], retries=1) as client,
    ):
        with pytest.raises(ServiceError, match="standby"):
            client.decide("loop")
        assert (len(one.seen), len(other.seen)) == (2, 2)


def test_no_address_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="at least one"):
        kind([])
