"""The web application: the endpoints, the event socket, and the page."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from sonde.core.errors import SondeError, UsageError
from sonde.server.http.body import read_body
from sonde.server.http.endpoint import Call, Context, Endpoint
from sonde.server.http.openapi import openapi
from sonde.server.http.security import problem_response
from sonde.server.routes import comparisons as comparison_routes
from sonde.server.routes import findings as finding_routes
from sonde.server.routes import graphs as graph_routes
from sonde.server.routes import health as health_routes
from sonde.server.routes import ranks as rank_routes
from sonde.server.routes import runs as run_routes
from sonde.server.routes import summaries as summary_routes
from sonde.server.routes import tensors as tensor_routes
from sonde.server.routes import watchpoints as condition_routes
from sonde.server.run import NpyFile
from sonde.wire.shapes import Plain

PREFIX: Final = "/api/v1"
_METHODS: Final = ("GET", "POST", "PUT", "DELETE")

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *run_routes.endpoints,
    *condition_routes.endpoints,
    *graph_routes.endpoints,
    *finding_routes.endpoints,
    *tensor_routes.endpoints,
    *rank_routes.endpoints,
    *comparison_routes.endpoints,
    *health_routes.endpoints,
    *summary_routes.endpoints,
)
_log = logging.getLogger("sonde.server")
_STATUS: Final = {
    "server-failed": 500,
    "run-ended": 409,
    "run-connected": 409,
    "not-live": 409,
    "rank-gone": 409,
    "slow-body": 408,
    "too-large": 413,
    "rank-unreadable": 502,
    "rank-busy": 504,
}
_MOST_NAME_BYTES: Final = 255
_PAGE: Final = Path(__file__).parent / "static"
_PAGE_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NO_PAGE: Final = """<!doctype html><title>Sonde</title>
<body style="font: 16px/1.5 system-ui; margin: 3em auto; max-width: 40em">
<h1>Sonde is running</h1>
<p>This installation does not contain the page. Build it with <code>make web</code> in a checkout,
or install a package of Sonde, which contains it.</p>
<p>The server also works without the page: <code>sonde ctl status</code>, or
<a href="/api/v1/openapi.json">the HTTP API</a>.</p>
"""


def build_app(context: Context) -> Starlette:
    """The app without the access checks of ``server.http.security``."""
    routes: list[BaseRoute] = [_route(context, endpoint) for endpoint in ENDPOINTS]
    routes.append(WebSocketRoute(f"{PREFIX}/events", _events(context)))
    routes.append(Route(f"{PREFIX}/openapi.json", _openapi))
    for path in ("/docs", "/openapi.json", "/api", "/api/", PREFIX, f"{PREFIX}/", f"{PREFIX}/docs"):
        routes.append(Route(path, _to_openapi))
    routes.append(Route("/api/{rest:path}", _unknown, methods=list(_METHODS)))
    routes.append(Route("/{path:path}", _page, methods=["GET"]))
    return Starlette(routes=routes, exception_handlers={HTTPException: _refused})


def _route(context: Context, endpoint: Endpoint) -> Route:
    async def serve(request: Request) -> Response:
        try:
            call, arguments = await _call(context, endpoint, request)
            answer = await endpoint.handler(call, **arguments)
        except SondeError as error:
            return problem(error)
        except Exception as error:  # A bug of Sonde: reported and logged; the server continues.
            _log.exception("%s %s failed", endpoint.method, endpoint.path)
            text = f"the server failed on this request: {type(error).__name__}: {error}"
            return problem(SondeError(text, slug="server-failed"))
        if isinstance(answer, NpyFile):
            return _download(answer, request)
        if answer is None:
            return Response(status_code=204)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    return Route(PREFIX + endpoint.path, serve, methods=[endpoint.method])


async def _call(
    context: Context, endpoint: Endpoint, request: Request
) -> tuple[Call, dict[str, Plain]]:
    """What the handler of ``endpoint`` is called with for ``request``."""
    arguments: dict[str, Plain] = {}
    if endpoint.query is not None:
        given = {name: value for name, value in request.query_params.items() if value}
        try:
            arguments["query"] = msgspec.convert(given, endpoint.query, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"query parameters: {error}", slug="bad-request") from None
    run = request.path_params.get("run")
    number = request.path_params.get("number", "0")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise UsageError(f"{number[:40]!r} is not a number", slug="bad-request")
    found = context.runs.find(run) if run is not None else None
    if endpoint.body is not None:
        arguments["body"] = await read_body(request, endpoint.body)
    return Call(context, found, int(number)), arguments


def problem(error: SondeError) -> Response:
    status = 404 if error.slug.startswith("no-") else _STATUS.get(error.slug, 400)
    return problem_response(status, error.message, error.slug)


def _download(file: NpyFile, request: Request) -> Response:
    op = request.query_params.get("op", "tensor").rpartition("/")[2]
    slot = f"{request.query_params.get('io', 'output')}.{request.query_params.get('slot', '0')}"
    name = re.sub(r"[^\w.-]", "_", f"{op}.{slot}", flags=re.ASCII)[:200]
    headers = {
        "content-length": str(file.size),
        "content-disposition": f'attachment; filename="{name}.npy"',
    }
    return StreamingResponse(file.chunks, headers=headers, media_type="application/octet-stream")


async def _openapi(request: Request) -> Response:
    body = msgspec.json.encode(openapi(ENDPOINTS, PREFIX))
    return Response(body, media_type="application/json")


async def _to_openapi(request: Request) -> Response:
    return RedirectResponse(f"{PREFIX}/openapi.json")


async def _refused(request: Request, error: Exception) -> Response:
    """Answer a request that Starlette refused: a method that the route does not have."""
    assert isinstance(error, HTTPException)
    text = f"{request.method}: {error.detail}"
    return problem_response(error.status_code, text, "bad-request", error.headers)


async def _unknown(request: Request) -> Response:
    text = f"no route {request.url.path[:200]!r}; {PREFIX}/openapi.json describes the routes"
    return problem(UsageError(text, slug="no-such-file"))


def _events(context: Context) -> Callable[[WebSocket], Awaitable[None]]:
    async def serve(socket: WebSocket) -> None:
        if context.broker.is_full:
            await socket.close(1013)
            return
        await socket.accept()
        subscriber = context.broker.subscribe()
        disconnected = asyncio.ensure_future(_until_disconnected(socket))
        send = asyncio.ensure_future(_send(socket, subscriber.events()))
        try:
            await asyncio.wait({disconnected, send}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            context.broker.unsubscribe(subscriber)
            for task in (disconnected, send):
                task.cancel()
            await asyncio.gather(disconnected, send, return_exceptions=True)

    return serve


async def _send(socket: WebSocket, events: Any) -> None:
    async for event in events:
        await socket.send_text(msgspec.json.encode(event).decode())


async def _until_disconnected(socket: WebSocket) -> None:
    """Wait until the browser disconnects; its messages are ignored."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _page(request: Request) -> Response:
    """Serve a file of the page; for any other path the page itself, which parses the path."""
    return await asyncio.to_thread(_file, request.path_params["path"])


def _file(path: str) -> Response:
    found = _below(_PAGE, path)
    if found is not None and found.is_file():
        is_hashed = path.startswith("assets/")
        age = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
        kind = _PAGE_TYPES.get(found.suffix, "application/octet-stream")
        return Response(found.read_bytes(), headers={"cache-control": age, "content-type": kind})
    if path.startswith("assets/"):
        return Response("not found", 404, media_type="text/plain")
    index = _PAGE / "index.html"
    if not index.is_file():
        return HTMLResponse(_NO_PAGE)
    return HTMLResponse(index.read_bytes(), headers={"cache-control": "no-cache"})


def _below(root: Path, path: str) -> Path | None:
    """The file at ``path`` below ``root``; None for a path that could lead elsewhere, or is longer
    than a name can be."""
    found = root
    for part in path.split("/"):
        if not part or part.startswith(".") or "\\" in part or "\0" in part:
            return None
        if len(part.encode("utf-8", "replace")) > _MOST_NAME_BYTES:
            return None
        found = found / part
    return found
