"""Access checks of the server (host, origin, token), and headers that restrict browsers.

A page of another site must not reach this server through the user's browser. There are three
checks: the ``Host`` header must be a name of this machine (which excludes a name that an attacker
points at 127.0.0.1); a request that changes state must come from Sonde's own page or from no page;
and where other machines can connect, every request needs the token.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sonde.server.http.auth import TokenCheck
from sonde.wire.api import Problem

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_SAFE: Final = frozenset({"GET", "HEAD"})
_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ASKS: Final = "This server requires its token"
_NEEDED: Final = "this server requires its token; give it with --token or SONDE_DEBUGGER_TOKEN"
_WRONG: Final = "wrong token"
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
    """The outermost layer of the app: refuses requests that fail a check."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, token_check: TokenCheck) -> None:
        self._app = app
        self._host = host
        self._token_check = token_check
        self._cookie = f"sonde_token_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None and self._token_check.token:
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
            return problem_response(
                403, "the Host header does not name this server", slug="foreign-host"
            )
        if not _is_our_page(scope, headers):
            text = "requests from pages of other sites are refused"
            return problem_response(403, text, slug="foreign-page")
        if (
            scope["type"] == "http"
            and scope["method"] not in _SAFE
            and not _is_json(scope, headers)
        ):
            return problem_response(415, "the content type must be application/json", "bad-request")
        return None

    def _identify(self, scope: Scope) -> Response | None:
        """None if the request has the token; a token in the address is first stored as a cookie."""
        is_page = scope["type"] == "http" and scope["method"] == "GET"
        in_query = _in_query(scope) if is_page else ""
        given = [in_query] if in_query else self._given(Headers(scope=scope))
        if not given:
            return _unauthorized(scope)
        if not self._token_check.accepts(given):
            scope["query_string"] = b""  # Keeps the attempted token out of logs.
            return _unauthorized(scope, is_wrong=True)
        return self._set_cookie(scope) if in_query else None

    def _is_our_name(self, host: str) -> bool:
        """Whether ``host`` names this server. With a token every name does: a browser does not send
        the cookie to a name that an attacker has rebound."""
        if self._token_check.token and not is_loopback(self._host):
            return bool(host)
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in LOOPBACK or name == self._host.lower()

    def _given(self, headers: Headers) -> list[str]:
        """The tokens in the header and the cookie of a request."""
        found: list[str] = []
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            found.append(given.strip())
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            cookie = None
        return found if cookie is None else [*found, cookie.value]

    def _set_cookie(self, scope: Scope) -> Response:
        """Store the token of the printed address as a cookie, and redirect to the address without
        it, which keeps the token out of logs and of the browser's history."""
        asked, scope["query_string"] = _query(scope), b""
        rest = [pair for pair in parse_qsl(asked) if pair[0] != "token"]
        path = "/" + scope["path"].lstrip("/")
        response = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, 303)
        # Not "strict", with which a link in a mail or on another site would get no cookie. Such a
        # link can only show the page; a GET changes nothing.
        response.set_cookie(self._cookie, self._token_check.token, httponly=True, samesite="lax")
        return response


def _query(scope: Scope) -> str:
    return str(scope["query_string"].decode("latin-1"))


def _in_query(scope: Scope) -> str:
    return next((value for name, value in parse_qsl(_query(scope)) if name == "token"), "")


def _is_our_page(scope: Scope, headers: Headers) -> bool:
    """Whether the request comes from Sonde's page, or from no page."""
    origin = headers.get("origin")
    is_plain_read = scope["type"] == "http" and scope["method"] in _SAFE
    if origin is not None:
        try:
            return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""
        except ValueError:
            return False
    site = headers.get("sec-fetch-site", "none")
    if is_plain_read and headers.get("sec-fetch-mode") == "navigate":
        return True  # A link that the user clicked.
    return site in ("none", "same-origin")


def _is_json(scope: Scope, headers: Headers) -> bool:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (scope["method"] == "DELETE" and not kind)


def problem_response(
    status: int, error: str, slug: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that is not 2xx."""
    body = msgspec.json.encode(Problem(error, slug))
    return Response(body, status, headers, media_type="application/json")


def _unauthorized(scope: Scope, *, is_wrong: bool = False) -> Response:
    if scope["type"] == "http" and not scope["path"].startswith("/api/"):
        how = "The token in this address is wrong" if is_wrong else _ASKS
        return PlainTextResponse(
            f"{how}: open the address that the server printed when it started.\n", 401
        )
    return problem_response(401, _WRONG if is_wrong else _NEEDED, "token")


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
