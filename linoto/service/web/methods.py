"""Which methods there are at an address: for OPTIONS, and for those who used another one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler


def options(handlers: Iterable[Any]) -> list[HTTPRouteHandler]:
    """A handler of OPTIONS for every path; the framework's own knows only the first handler of a path."""
    methods = defaultdict[str, set[str]](lambda: {"OPTIONS"})
    for handler in handlers:
        for path in handler.paths:
            methods[path] |= handler.http_methods
    return [options_at(path, sorted(found)) for path, found in methods.items()]


def options_at(path: str, methods: list[str]) -> HTTPRouteHandler:
    """The handler of OPTIONS at one path."""

    async def say_methods() -> Response[None]:
        return Response(None, status_code=204, headers={"allow": ", ".join(methods)})

    say_methods.__name__ = f"options_{abs(hash(path))}"
    made = HTTPRouteHandler(path, http_method="OPTIONS", include_in_schema=False, status_code=204)
    return made(say_methods)


def allowed_at(app: Litestar, path: str) -> str:
    """The methods of the route that a path leads to."""
    parts = path.strip("/").split("/")
    found = set[str]()
    for route in app.routes:
        wanted = route.path.strip("/").split("/")
        if len(wanted) == len(parts) and all(map(fits, wanted, parts)):
            found |= set(getattr(route, "methods", ()))
    return ", ".join(sorted(found))


def fits(wanted: str, part: str) -> bool:
    """Whether a part of a path is what a route wants there."""
    return wanted.startswith("{") or wanted == part
