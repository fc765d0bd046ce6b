"""Who may speak to the server: hosts, origins, tokens; and headers that keep browsers strict.

A page of another site must not reach this server through the user's browser. Three things stand
before it: the ``Host`` header must be a name of this machine (a name that an attacker points at
127.0.0.1 is none), a request that changes anything must come from our own page or from no page at
all, and where the server listens to more than this machine, nothing is answered without the token.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sonde.server.door import Door
from sonde.wire.api import Problem

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_SAFE: Final = frozenset({"GET", "HEAD"})
_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ASKS: Final = "This server asks for its token"
_NEEDED: Final = "this server asks for its token; say it with --token or SONDE_DEBUGGER_TOKEN"
_WRONG: Final = "the token given is not that of this server"
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    return host in LOOPBACK


class Guard:
    """The outermost layer of the app; ``door`` knows the token."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, door: Door) -> None:
        self._app = app
        self._host = host
        self._door = door
        self._cookie = f"sonde_token_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None and self._door.token:
            refusal = self._identify(scope)
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await _refuse_socket(receive, send)
        else:
            await refusal(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._is_our_name(headers.get("host", "")):
            return _problem(403, "this server does not go by that name", slug="foreign-host")
        if not _is_our_page(scope, headers):
            return _problem(
                403, "a page of another site may not use this server", slug="foreign-page"
            )
        if (
            scope["type"] == "http"
            and scope["method"] not in _SAFE
            and not _is_json(scope, headers)
        ):
            return _problem(415, "the body must be application/json", slug="bad-request")
        return None

    def _identify(self, scope: Scope) -> Response | None:
        """None for whoever knows the token; one in the address becomes a cookie first."""
        is_page = scope["type"] == "http" and scope["method"] == "GET"
        in_query = _in_query(scope) if is_page else ""
        given = [in_query] if in_query else self._given(Headers(scope=scope))
        if not given:
            return _stranger(scope)
        if not self._door.opens(given):
            scope["query_string"] = b""  # Whoever logs the request does not see what was tried.
            return _stranger(scope, is_wrong=True)
        return self._greet(scope) if in_query else None

    def _is_our_name(self, host: str) -> bool:
        """With a token any name will do: a rebound name has no cookie of ours."""
        if self._door.token and not is_loopback(self._host):
            return bool(host)
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in LOOPBACK or name == self._host.lower()

    def _given(self, headers: Headers) -> list[str]:
        """The tokens of a request, in its header and its cookie."""
        found: list[str] = []
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            found.append(given.strip())
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            cookie = None
        return found if cookie is None else [*found, cookie.value]

    def _greet(self, scope: Scope) -> Response:
        """Somebody opened the printed address: from now on the cookie knows them. Whoever logs
        the request does not see the token."""
        asked, scope["query_string"] = _query(scope), b""
        rest = [pair for pair in parse_qsl(asked) if pair[0] != "token"]
        path = "/" + scope["path"].lstrip("/")
        response = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, 303)
        # Not "strict": then a link that somebody sent would find the door closed. What a link
        # of another site can do is only to show our page; nothing changes by a GET.
        response.set_cookie(self._cookie, self._door.token, httponly=True, samesite="lax")
        return response


def _query(scope: Scope) -> str:
    return str(scope["query_string"].decode("latin-1"))


def _in_query(scope: Scope) -> str:
    return next((value for name, value in parse_qsl(_query(scope)) if name == "token"), "")


def _is_our_page(scope: Scope, headers: Headers) -> bool:
    """Whether the request comes from our own page, or from no page."""
    origin = headers.get("origin")
    is_plain_read = scope["type"] == "http" and scope["method"] in _SAFE
    if origin is not None:
        try:
            return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""
        except ValueError:
            return False
    site = headers.get("sec-fetch-site", "none")
    if is_plain_read and headers.get("sec-fetch-mode") == "navigate":
        return True  # A link that somebody clicked.
    return site in ("none", "same-origin")


def _is_json(scope: Scope, headers: Headers) -> bool:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (scope["method"] == "DELETE" and not kind)


def _problem(status: int, error: str, *, slug: str) -> Response:
    body = msgspec.json.encode(Problem(error, slug))
    return Response(body, status, media_type="application/json")


def _stranger(scope: Scope, *, is_wrong: bool = False) -> Response:
    if scope["type"] == "http" and not scope["path"].startswith("/api/"):
        how = "The token of this address is not that of this server" if is_wrong else _ASKS
        return PlainTextResponse(f"{how}: open the address that it printed when it started.\n", 401)
    return _problem(401, _WRONG if is_wrong else _NEEDED, slug="token")


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped


async def _refuse_socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})
