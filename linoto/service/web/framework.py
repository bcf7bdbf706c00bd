"""Where the web framework says or does less than we promise: descriptions of bodies, errors of callers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from functools import reduce
from operator import getitem
from typing import Any

import msgspec
from litestar import Request
from litestar.datastructures import State
from litestar.exceptions import InternalServerException
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.types import Receive, Scope, Send

from linoto.service.errors import Refused
from linoto.service.loops.spec import LoopSpec
from linoto.service.web.examples import EXAMPLES
from linoto.service.web.messages import (
    Change,
    DecideBatch,
    DecideRequest,
    NewArms,
    RewardBatch,
    RewardReport,
    RewardValue,
)
from linoto.service.web.policy_schemas import SCHEMAS, policy_schemas

NO_BODY = "the body must be JSON, got nothing: send {} where there is nothing to say"
SAID_AS = {"oneOf": "anyOf", "DecisionResponse": "Decision"}  # the latter as in version 0.1
SHORTEST = (DecideBatch, DecideRequest, RewardBatch, RewardReport, RewardValue)  # written without defaults
EACH = "[...]"  # how msgspec calls the values of a mapping
MOST_DIGITS = 400  # of a whole number that are read: no float has as many
SMALL = 65_536  # bytes of a body that is read in the event loop; larger ones have a thread


def body_schemas() -> dict[str, Any]:
    """What msgspec says of bodies, which is what will check them, with policies and examples."""
    bodies = [LoopSpec, DecideRequest, DecideBatch, Change, NewArms, RewardBatch, RewardReport, RewardValue]
    _, described = msgspec.json.schema_components(bodies, ref_template=SCHEMAS)
    policy, parts = policy_schemas()
    described["LoopSpec"]["properties"]["policy"] = policy
    del described["LoopSpec"]["properties"]["arms"]["default"]  # left out they are read from the log file
    for name, examples in EXAMPLES.items():
        described[name]["examples"] = examples
    found: dict[str, Any] = plain({**described, **parts})
    return found


def plain(schema: Any) -> Any:
    """The same in words that generators of clients know: `maxItems` closes a tuple, one value is `const`.

    A union is `anyOf`: 3 is an integer and a number, so it is not `oneOf` them.
    """
    if isinstance(schema, list):
        return [plain(part) for part in schema]
    if not isinstance(schema, dict):
        return renamed(schema)
    said = {
        SAID_AS.get(key, key): plain(part) for key, part in schema.items() if (key, part) != ("items", False)
    }
    only = said.get("enum")
    if isinstance(only, list) and len(only) == 1:
        said["const"] = said.pop("enum")[0]
    return said


def renamed(text: Any) -> Any:
    """A name of ours as others know it, or a reference to it."""
    if not isinstance(text, str):
        return text
    where, slash, name = text.rpartition("/")
    return f"{where}{slash}{SAID_AS[name]}" if name in SAID_AS else text


class Description(JsonRenderPlugin):
    """What the framework says of us, but of bodies what msgspec says.

    The framework forgets limits inside lists and unions, and that unknown fields are refused.
    """

    bodies = body_schemas()
    rendered: bytes | None = None

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """The description as JSON, which stays the same."""
        if self.rendered is None:
            said = plain(openapi_schema)
            said["components"]["schemas"] |= self.bodies
            self.rendered = super().render(request, said)
        return self.rendered


class JsonResponse:
    """An answer in JSON, sent as it is: the framework's own takes several times as long to make."""

    def __init__(
        self, answer: msgspec.Struct | Sequence[msgspec.Struct | msgspec.Raw], **headers: int | str
    ) -> None:
        self.body = msgspec.json.encode(answer)
        self.headers = [
            (name.replace("_", "-").encode(), str(value).encode()) for name, value in headers.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers + self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


class JsonRequest(Request[Any, Any, State]):
    """A request whose body is refused where the framework would answer with an error of its own."""

    async def body(self) -> bytes:
        """The bytes of it; a caller who hangs up in the middle is not an error of the service."""
        try:
            body = await super().body()
        except InternalServerException as error:
            raise Refused(400, "bad_request", error.detail) from None
        if not body and "data" in self.route_handler.parsed_fn_signature.parameters:
            raise Refused(400, "bad_request", NO_BODY)
        return body

    async def json(self) -> Any:
        """The body as the handler wants it. The framework itself would take "1" for a number."""
        body = await self.body()
        wanted = self.route_handler.parsed_fn_signature.parameters["data"].annotation
        if len(body) <= SMALL:
            return read_body(body, wanted)
        return await asyncio.to_thread(read_body, body, wanted)


def read_body(body: bytes, wanted: Any) -> Any:
    """A body of this type, or a refusal that says what is wrong and where."""
    if not body.strip():
        raise Refused(400, "bad_request", NO_BODY)
    try:
        read = decode(body, wanted)
        if may_repeat(body, read):
            json.loads(body, object_pairs_hook=refuse_repeated)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        place = where.strip("`.") or "the body"
        if EACH in place and len(body) <= SMALL:
            place = place.replace(EACH, f"[{refused_key(body, wanted, place, str(error))}]", 1)
        raise Refused(400, "bad_request", f"{place}: {what}") from None
    except (ValueError, RecursionError) as error:
        message = str(error)
        if isinstance(error, RecursionError):
            message = "the body must not be nested this deep"
        if isinstance(error, UnicodeDecodeError):
            message = "the body must be JSON in UTF-8"
        raise Refused(400, "bad_request", message) from None
    return read


def refused_key(body: bytes, wanted: Any, place: str, said: str) -> str:
    """The key of the value that is refused, of those at a place that are one for each key: "'refunds'".

    Of a body that cannot be read to its end, nobody knows.
    """
    steps = re.findall(r"[^.\[\]]+", place.partition(EACH)[0])
    try:
        read = json.loads(body, parse_int=whole, object_pairs_hook=fields_once)
    except (ValueError, RecursionError):
        return "..."
    *above, last = (int(step) if step.isdigit() else step for step in steps)
    holder = reduce(getitem, above, read)
    for key, value in holder[last].items():
        holder[last] = {key: value}  # the body with this one alone is refused in the same words
        try:
            msgspec.convert(read, type=wanted)
        except msgspec.ValidationError as error:
            if str(error) == said:
                return repr(key)
    return "..."


def decode(body: bytes, wanted: Any) -> Any:
    """Strictly, but 3.0 is a whole number too, as JSON Schema says."""
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.ValidationError as error:
        if not str(error).startswith("Expected `int") or "got `float`" not in str(error):
            raise
        return msgspec.convert(json.loads(body, parse_int=whole, parse_float=whole_or_not), type=wanted)


def whole_or_not(text: str) -> int | float:
    """A number with a point, as a whole one if it is."""
    value = float(text)
    return int(value) if value.is_integer() else value


def whole(text: str) -> int:
    """A whole number; of one that no float can be, the first digits: Python reads no number of 5,000."""
    return int(text[:MOST_DIGITS])


def may_repeat(body: bytes, read: Any) -> bool:
    """Whether a body may name a field twice: it has more colons then than what was read of it.

    That is surely so where defaults are left out when it is written, and nothing is escaped.
    """
    if not isinstance(read, SHORTEST) or b"\\" in body or not body.isascii():
        return True
    return msgspec.json.encode(read).count(b":") != body.count(b":")


def refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    """Which of two values was meant, nobody can know."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(400, "bad_request", f"a field must be given once, got {twice!r} twice")


def fields_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What was read of an object that gives every field once."""
    refuse_repeated(pairs)
    return dict(pairs)
