"""Serves the files of the page, from ``server/static``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

_ROOT: Final = Path(__file__).parents[1] / "static"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_MISSING: Final = """<!doctype html><title>Sonde</title>
<body style="font: 16px/1.5 system-ui; margin: 3em auto; max-width: 40em">
<h1>Sonde is running</h1>
<p>This installation does not contain the page. Build it with <code>make web</code> in a checkout,
or install a package of Sonde, which contains it.</p>
<p>The server also works without the page: <code>sonde ctl status</code>, or
<a href="/api/v1/openapi.json">the HTTP API</a>.</p>
"""


async def page(request: Request) -> Response:
    """Serve a file of the page; for any other path the page itself, which parses the path."""
    return await asyncio.to_thread(_file, request.path_params["path"])


def _file(path: str) -> Response:
    found = _below(_ROOT, path)
    if found is not None and found.is_file():
        is_hashed = path.startswith("assets/")
        age = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
        kind = _TYPES.get(found.suffix, "application/octet-stream")
        return Response(found.read_bytes(), headers={"cache-control": age, "content-type": kind})
    if path.startswith("assets/"):
        return Response("not found", 404, media_type="text/plain")
    index = _ROOT / "index.html"
    if not index.is_file():
        return HTMLResponse(_MISSING)
    return HTMLResponse(index.read_bytes(), headers={"cache-control": "no-cache"})


def _below(root: Path, path: str) -> Path | None:
    """The file at ``path`` below ``root``; None for a path that could lead elsewhere."""
    found = root
    for part in path.split("/"):
        if not part or part.startswith(".") or "\\" in part or "\0" in part:
            return None
        found = found / part
    return found
