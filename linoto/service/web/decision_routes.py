"""Handlers about decisions and their rewards: the hot path, and what can be looked up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec
from litestar import get, post, put
from litestar.params import Parameter
from litestar.types import ASGIApp

from linoto.service.errors import Refused
from linoto.service.loops import explanations
from linoto.service.loops.operations import RewardResult
from linoto.service.storage.connection import Connection, Keys
from linoto.service.web.access import AnyRequest
from linoto.service.web.framework import JsonResponse
from linoto.service.web.messages import (
    DecideBatch,
    DecideRequest,
    DecisionBatch,
    DecisionResponse,
    RewardBatch,
    RewardReport,
    RewardResults,
    RewardValue,
    decision_response,
)
from linoto.service.web.routing import (
    DecisionId,
    Json,
    LoopName,
    loops_of,
    read_database,
    responses_with,
    route,
    store_of,
    write,
)

Limit = Annotated[int, Parameter(ge=1, le=1000, description="how many at most")]
Before = Annotated[int | None, Parameter(ge=1, le=2**53, description="only decisions before this number")]

KeyWanted = Annotated[str | None, Parameter(max_length=200, description="only the decision of this key")]
KeyGiven = Annotated[str, Parameter(min_length=1, max_length=200, description="of the request to decide")]


def keys_of(loop: str, asked: Sequence[DecideRequest | RewardReport]) -> Keys:
    """What requests will look up."""
    return [(loop, each.key) for each in asked if each.key is not None]


@route(post, "/loops/{name:str}/decide", "writer", responses=responses_with(DecisionResponse))
async def decide(request: AnyRequest, name: LoopName, data: Json[DecideRequest]) -> ASGIApp:
    """Decide."""
    loops = loops_of(request)

    def job(connection: Connection) -> DecisionResponse:
        event = loops.decide(connection, name, **msgspec.structs.asdict(data))
        return decision_response(loops.get(name), event)

    return JsonResponse(await write(request, job, keys=keys_of(name, [data])))


@route(post, "/loops/{name:str}/decisions", "writer", responses=responses_with(DecisionBatch))
async def decide_many(request: AnyRequest, name: LoopName, data: Json[DecideBatch]) -> ASGIApp:
    """Decide many times; all of it or nothing, and the message names the request that was refused."""
    loops, asked = loops_of(request), [msgspec.structs.asdict(each) for each in data.decisions]

    def job(connection: Connection) -> DecisionBatch:
        made = loops.decide_many(connection, name, asked)
        return DecisionBatch([decision_response(loops.get(name), event) for event in made])

    try:
        return JsonResponse(await write(request, job, keys=keys_of(name, data.decisions)))
    except Refused as refusal:
        if refusal.after_draws:  # before it is told: what it says may depend on what was drawn
            await write(request, loops.draw_anew, name)
        raise


@route(get, "/loops/{name:str}/decisions", "viewer")
async def list_decisions(
    request: AnyRequest, name: LoopName, limit: Limit = 50, before: Before = None, key: KeyWanted = None
) -> list[explanations.DecisionRow]:
    """Recent decisions, newest first, or the one that was asked for with a key."""
    contexts = request.user.sees_contexts
    if key is not None and not contexts:
        raise Refused(403, "forbidden", "to find a decision by its key needs the role reader")
    return await read_database(request, name, explanations.recent, before, limit, key, contexts)


@route(get, "/decisions", "reader")
async def find_decisions(request: AnyRequest, key: KeyGiven) -> list[explanations.FoundDecision]:
    """The decisions that were asked for with a key, in every loop that the caller may see."""
    store, loops = store_of(request), loops_of(request).by_name.items()
    seen = [loop for name, loop in list(loops) if request.user.may_see(name)]
    read = partial(explanations.with_key, loops=seen, key=key)
    return await asyncio.to_thread(store.read_database, read)


@route(get, "/loops/{name:str}/decisions/{decision_id:str}", "viewer")
async def explain_decision(
    request: AnyRequest, name: LoopName, decision_id: DecisionId
) -> explanations.Explanation:
    """Explain a decision."""
    contexts = request.user.sees_contexts
    return await read_database(request, name, explanations.explain, decision_id, contexts)


@route(
    put,
    "/loops/{name:str}/decisions/{decision_id:str}/reward",
    "writer",
    responses=responses_with(RewardResult),
)
async def reward_decision(
    request: AnyRequest, name: LoopName, decision_id: DecisionId, data: Json[RewardValue]
) -> ASGIApp:
    """Report the reward of a decision."""
    told = data.reward, data.metrics
    return answer_to(await write(request, loops_of(request).reward, name, decision_id, *told))


@route(put, "/loops/{name:str}/reward", "writer", responses=responses_with(RewardResult))
async def reward_one(request: AnyRequest, name: LoopName, data: Json[RewardReport]) -> ASGIApp:
    """Report a reward for a decision_id, or for the key that the decision was asked for with."""
    loops = loops_of(request)
    keys = keys_of(name, [data])
    return answer_to(await write(request, lambda connection: data.record(loops, connection, name), keys=keys))


def answer_to(result: RewardResult) -> ASGIApp:
    """What became of one reward, as an answer."""
    if result.code != 200:
        raise Refused(result.code, result.status, result.message or result.status)
    return JsonResponse(result)


@route(post, "/loops/{name:str}/rewards", "writer", responses=responses_with(RewardResults))
async def reward_many(request: AnyRequest, name: LoopName, data: Json[RewardBatch]) -> ASGIApp:
    """Report many rewards; each gets its own answer."""
    loops = loops_of(request)
    for place, each in enumerate(data.rewards):  # before any is recorded
        each.check(f"rewards[{place}]: ")

    keys = keys_of(name, data.rewards)
    return JsonResponse(RewardResults(await write(request, loops.reward_many, name, data.rewards, keys=keys)))


HANDLERS = (
    decide,
    decide_many,
    list_decisions,
    find_decisions,
    explain_decision,
    reward_decision,
    reward_one,
    reward_many,
)
