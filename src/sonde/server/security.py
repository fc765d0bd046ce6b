"""Who may speak to the server: hosts, origins, tokens; and headers that keep browsers strict.

A page of another site must not reach this server through the user's browser. Three things stand
before it: the ``Host`` header must be a name of this machine (a name that an attacker points at
127.0.0.1 is none), a request that changes anything must come from our own page or from no page at
all, and where the server listens to more than this machine, nothing is answered without the token.
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sonde.wire.api import Problem

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_SAFE: Final = frozenset({"GET", "HEAD"})
_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def new_token() -> str:
    return secrets.token_urlsafe(32)


def is_loopback(host: str) -> bool:
    return host in LOOPBACK


class Guard:
    """The outermost layer of the app. ``token`` empty: none is asked for."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, token: str) -> None:
        self._app = app
        self._host = host
        self._token = token
        self._cookie = f"sonde_token_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
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
        if not self._token:
            return None
        if scope["type"] == "http" and scope["method"] == "GET" and (given := _in_query(scope)):
            return self._greet(scope, given)
        if self._is_known(headers):
            return None
        return _stranger(scope)

    def _is_our_name(self, host: str) -> bool:
        """With a token any name will do: a rebound name has no cookie of ours."""
        if self._token and not is_loopback(self._host):
            return bool(host)
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in LOOPBACK or name == self._host.lower()

    def _is_known(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(given.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _greet(self, scope: Scope, given: str) -> Response:
        """Somebody opened the printed address: from now on the cookie knows them. Whoever logs
        the request does not see the token."""
        asked, scope["query_string"] = _query(scope), b""
        if not self._is_token(given):
            return _stranger(scope)
        rest = [pair for pair in parse_qsl(asked) if pair[0] != "token"]
        path = "/" + scope["path"].lstrip("/")
        response = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, 303)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
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


def _stranger(scope: Scope) -> Response:
    if scope["type"] == "http" and not scope["path"].startswith("/api/"):
        return PlainTextResponse(
            "This server asks for its token: open the address that it printed when it started.\n",
            401,
        )
    return _problem(401, "this server asks for its token", slug="token")


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
