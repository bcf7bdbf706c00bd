"""The HTTP application. Everything under /v1 is described by /v1/openapi.json."""

from __future__ import annotations

from pathlib import Path

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme

from linoto.service.loops.operations import Loops
from linoto.service.storage.store import Store
from linoto.service.web import decision_routes, error_answers, loop_routes, pages, status_routes
from linoto.service.web.access import Access
from linoto.service.web.creation import LoopCreation
from linoto.service.web.error_answers import never_html
from linoto.service.web.framework import Description, JsonRequest
from linoto.service.web.live_views import LiveViews
from linoto.service.web.methods import options
from linoto.service.web.metrics import MetricsPage
from linoto.version import __version__

BODY = 1_000_000  # bytes of any request


def make_app(loops: Loops, store: Store, access: Access, logs: Path | None = None) -> Litestar:
    """The application over these loops; `logs` is the folder that new ones may read their logs from."""
    described = [*loop_routes.HANDLERS, *decision_routes.HANDLERS]
    watched = [*status_routes.HANDLERS, *pages.HANDLERS]
    parts = {"loops": loops, "store": store, "access": access, "shown": LiveViews(loops, store)}
    parts |= {"creation": LoopCreation(), "logs": logs, "metrics": MetricsPage(store)}
    return Litestar(
        [Router("/v1", route_handlers=[*options(described), *described]), *options(watched), *watched],
        state=State(parts),
        openapi_config=OpenAPIConfig(
            title="linoto",
            version=__version__,
            openapi_router=Router(
                "/v1", route_handlers=[], include_in_schema=False, after_request=never_html
            ),
            operation_id_creator=lambda handler, method, paths: handler.handler_name,
            use_handler_docstrings=True,
            render_plugins=[Description(path="/openapi.json")],
            components=Components(security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}),
            security=[{}, {"token": []}],
        ),
        exception_handlers=error_answers.HANDLERS,
        request_max_body_size=BODY,
        request_class=JsonRequest,
        logging_config=None,
    )
