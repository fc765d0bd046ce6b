"""Access checks of the server (host, origin, token), and headers that restrict browsers.

Another user of the machine must not reach this server, nor a page of another site through the
user's browser. Every request needs the token. In addition, the ``Host`` header must be a name of
this machine if the server listens only there (which excludes a name that an attacker points at
127.0.0.1), and a request that changes state must come from Sonde's own page or from no page.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sonde.server.http.auth import TokenCheck
from sonde.server.http.token_form import onward, token_form
from sonde.wire.api import Problem

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
MOST_ADDRESS_BYTES: Final = 16 << 10
"""Of path and query together: an op name may be long, a path is not."""
MOST_PATH_BYTES: Final = 2 << 10
_SAFE: Final = frozenset({"GET", "HEAD"})
_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_FRAMES: Final = "frame-ancestors http://localhost:* http://127.0.0.1:* http://[::1]:*"
"""The pages that may show Sonde's page in a frame, if the user asked for it: notebooks here."""
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
_FRAMED_HEADERS: Final = {
    name: value.replace("frame-ancestors 'none'", _FRAMES)
    for name, value in _HEADERS.items()
    if name != "x-frame-options"
}


def is_loopback(host: str) -> bool:
    return host in LOOPBACK


class Guard:
    """The outermost layer of the app: refuses requests that fail a check."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        port: int,
        token_check: TokenCheck,
        has_tls: bool = False,
        in_frame: bool = False,
    ) -> None:
        self._app = app
        self._with_headers = partial(_with_headers, _FRAMED_HEADERS if in_frame else _HEADERS)
        self._host = host
        self._token_check = token_check
        self._has_tls = has_tls
        self._cookie = f"sonde_token_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope) or self._identify(scope)
        if refusal is None:
            await self._app(scope, receive, self._with_headers(send))
        elif scope["type"] == "websocket":
            await _refuse_socket(receive, send)
        else:
            await refusal(scope, receive, self._with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        path, query = len(scope.get("raw_path") or b""), len(scope["query_string"])
        if path > MOST_PATH_BYTES or path + query > MOST_ADDRESS_BYTES:
            return problem_response(414, "the address of this request is too long", "bad-request")
        if not self._is_our_name(headers.get("host", "")):
            return problem_response(
                403, "the Host header does not name this server", slug="foreign-host"
            )
        if not self._is_our_page(scope, headers):
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
        headers = Headers(scope=scope)
        in_query = _in_query(scope) if _is_for_page(scope) else ""
        given = [in_query] if in_query else self._given(headers)
        is_known = self._token_check.accepts(given)
        if is_known and not in_query:
            return None
        query = [pair for pair in parse_qsl(_query(scope)) if pair[0] != "token"]
        scope["query_string"] = b""  # Keeps the token, or an attempted one, out of logs.
        if is_known:
            return self._set_cookie(scope, query)
        if not _is_for_page(scope):
            return problem_response(401, _WRONG if given else _NEEDED, "token")
        if not given and headers.get("sec-fetch-site") == "cross-site":
            # A link on another site: the browser sends the cookie only from a page of this server.
            return onward(_path(scope), query)
        return token_form(query, is_wrong=bool(given))

    def _is_our_name(self, host: str) -> bool:
        """Whether ``host`` names this server. Where other machines can connect every name does: a
        browser does not send the cookie to a name that an attacker has rebound."""
        if not is_loopback(self._host):
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

    def _set_cookie(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """Store the token of the printed address as a cookie, and lead to the address without it,
        which keeps the token out of logs and of the browser's history."""
        response = onward(_path(scope), query)
        response.set_cookie(
            self._cookie,
            self._token_check.token,
            httponly=True,
            samesite="strict",
            secure=self._has_tls,
        )
        return response

    def _is_our_page(self, scope: Scope, headers: Headers) -> bool:
        """Whether the request comes from Sonde's page, or from no page."""
        origin = headers.get("origin")
        is_plain_read = scope["type"] == "http" and scope["method"] in _SAFE
        if origin is not None:
            try:
                parts = urlsplit(origin)
            except ValueError:
                return False
            scheme = "https" if self._has_tls else "http"
            is_here = parts.netloc.lower() == headers.get("host", "").lower() != ""
            return is_here and parts.scheme.lower() == scheme
        if is_plain_read and headers.get("sec-fetch-mode") == "navigate":
            return True  # A link that the user clicked.
        return headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def _is_for_page(scope: Scope) -> bool:
    """Whether a browser asks for a page, not for the API."""
    is_get = scope["type"] == "http" and scope["method"] == "GET"
    return is_get and not scope["path"].startswith("/api/")


def _path(scope: Scope) -> str:
    """The path of the request, never the address of another site."""
    return quote("/" + str(scope["path"]).lstrip("/\\"), safe="/")


def _query(scope: Scope) -> str:
    return str(scope["query_string"].decode("latin-1"))


def _in_query(scope: Scope) -> str:
    return next((value for name, value in parse_qsl(_query(scope)) if name == "token"), "")


def _is_json(scope: Scope, headers: Headers) -> bool:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (scope["method"] == "DELETE" and not kind)


def problem_response(
    status: int, error: str, slug: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that is not 2xx."""
    body = msgspec.json.encode(Problem(error, slug))
    return Response(body, status, headers, media_type="application/json")


def _with_headers(added: Mapping[str, str], send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in added.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped


async def _refuse_socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})
