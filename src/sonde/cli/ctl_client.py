"""The HTTP client of ``sonde ctl``; needs only the standard library."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit
from urllib.request import BaseHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from sonde.core.errors import SondeError, UsageError
from sonde.logs import say

if TYPE_CHECKING:
    from sonde.wire.tls import Trust

ANSWER_SECONDS: Final = 150.0


class Client:
    """A client of one server. Its methods return the decoded JSON of the answer, or raise
    UsageError. ``trust``: the certificate to accept under ``https``, None: as the system.
    ``others``: servers that the user may have meant as well; then nothing is changed."""

    def __init__(
        self, url: str, token: str = "", trust: Trust | None = None, others: Sequence[str] = ()
    ) -> None:
        self.url = url.rstrip("/")
        self._others = others
        self._token = token
        # Without proxies: the server is on this machine or near it.
        handlers: list[BaseHandler] = [ProxyHandler({})]
        if self.url.startswith("https:"):
            handlers.append(_trusting(trust))
        self._opener = build_opener(*handlers)

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"{self.url}/?token={quote(self._token, safe='')}"

    def get(self, path: str, **query: object) -> Any:
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return self._open("GET", f"{path}?{urlencode(given)}" if given else path)

    def send(self, method: str, path: str, body: object = None, wait_seconds: float = 0.0) -> Any:
        if self._others:
            listed = ", ".join((self.url, *self._others))
            raise UsageError(
                f"you have several running servers on this machine: {listed}; choose one with "
                "--server",
                slug="usage",
            )
        return self._open(method, path, json.dumps(body).encode(), wait_seconds)

    def _open(
        self, method: str, path: str, body: bytes | None = None, wait_seconds: float = 0.0
    ) -> Any:
        request = Request(f"{self.url}/api/v1{path}", body, method=method)
        request.add_header("Content-Type", "application/json")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=wait_seconds + ANSWER_SECONDS) as answer:
                data = answer.read()
        except HTTPError as error:
            raise _refused(error) from None
        except SondeError as error:  # The certificate is not the expected one.
            raise UsageError(f"the server at {self.url}: {error.message}", slug="tls") from None
        except (URLError, OSError, HTTPException, ValueError) as error:
            raise no_server(self.url, str(getattr(error, "reason", error))) from None
        return _json(self.url, data) if data else None


def _trusting(trust: Trust | None) -> BaseHandler:
    """Opens ``https`` addresses whose certificate is trusted."""
    from sonde.wire.tls import Trust

    accepted = trust or Trust()

    class Connection(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            accepted.check(self.sock.getpeercert(binary_form=True))

    class Handler(HTTPSHandler):
        def https_open(self, request: Request) -> HTTPResponse:
            opened: HTTPResponse = self.do_open(Connection, request, context=accepted.context())
            return opened

    return Handler()


def run_path(run: str) -> str:
    return f"/runs/{quote(run, safe='')}"


def find_server(url: str | None, token: str | None) -> Client:
    """The server at ``url``; None: the newest server of this user on this machine."""
    from sonde.debugger.launch.server_registry import running_servers
    from sonde.wire.tls import trust_from_environment

    token = token or os.environ.get("SONDE_DEBUGGER_TOKEN", "")
    servers = running_servers()
    if url is None:
        if not servers:
            raise UsageError(
                "you have no running server on this machine; start one with 'sonde debug train.py' "
                "or 'sonde serve', or name one with --server",
                slug="no-server",
            )
        if len(servers) > 1:
            say(
                f"you have {len(servers)} running servers on this machine; using the newest, "
                f"{servers[0].url}; choose another with --server"
            )
        newest, *others = servers
        return Client(newest.url, newest.token, newest.trust, [each.url for each in others])
    asked, url = url, url if "//" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        parts.port  # noqa: B018  Reading the property validates the port.
    except ValueError:
        is_address = False
    if not is_address:
        raise no_server(repr(asked), "not an address such as http://127.0.0.1:8080")
    # The address that a server prints contains the token, and a browser adds a path and a query.
    url = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    in_address = dict(parse_qsl(parts.query)).get("token", "")
    ours = next((server for server in servers if server.url == url), None)
    known_token, known_trust = ("", None) if ours is None else (ours.token, ours.trust)
    trust = trust_from_environment(os.environ) or known_trust
    return Client(url, in_address or token or known_token, trust)


def no_server(url: str, reason: str) -> UsageError:
    return UsageError(f"no Sonde server at {url}: {reason}", slug="no-server")


def _refused(error: HTTPError) -> UsageError:
    try:
        body = json.loads(error.read(1 << 20))
        return UsageError(str(body["error"]), slug=str(body["slug"]))
    except (ValueError, KeyError, TypeError, OSError):
        return no_server(error.url or "the address", f"HTTP {error.code}")


def _json(url: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise no_server(url, "another program answers there") from None
