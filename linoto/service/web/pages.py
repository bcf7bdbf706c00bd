"""The dashboard: files that come with the package, read once, served without a token.

They hold no data; what they show they ask of /v1 as any caller would.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

from litestar import Response, get
from litestar.params import Parameter

from linoto.service.errors import not_found

TYPES = {  # the framework adds the charset to text
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",  # for browsers that do not know frame-ancestors: nobody frames the switch
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def read_files() -> dict[str, bytes]:
    """Every file of the dashboard by its name."""
    folder = files("linoto.service") / "dashboard"
    return {
        file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in TYPES
    }


FILES = read_files()


def page(name: str) -> Response[bytes]:
    """A file with its type; only names known at the start are looked up, so none leads elsewhere."""
    body = FILES.get(name)
    if body is None:
        raise not_found("page", name)
    return Response(body, media_type=TYPES[name.rpartition(".")[2]], headers=HEADERS)


@get("/", include_in_schema=False)
async def dashboard() -> Response[bytes]:
    """The page itself."""
    return page("index.html")


@get("/dashboard/{file:str}", include_in_schema=False)
async def dashboard_file(file: Annotated[str, Parameter(max_length=64)]) -> Response[bytes]:
    """What the page is made of."""
    return page(file)


HANDLERS = (dashboard, dashboard_file)
