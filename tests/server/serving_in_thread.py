"""A real server in a thread of the test, with real sockets."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import uvicorn
from tests.server.waiting import until

from sonde.server.app import build_app
from sonde.server.health.summaries import LogDirectories
from sonde.server.http.auth import TokenCheck
from sonde.server.http.endpoint import Context
from sonde.server.http.events import EventBroker
from sonde.server.http.idle_connections import IDLE_SECONDS, IdleConnections
from sonde.server.http.security import Guard
from sonde.server.live.hub import Hub
from sonde.server.run import Run, Runs
from sonde.server.serving import http_config
from sonde.testing.sample_values import SAMPLE_TOKEN
from sonde.wire.rank import HEARTBEAT_SECONDS
from sonde.wire.tls import ServerCertificate

OPENER = build_opener(ProxyHandler({}))


@dataclass
class Server:
    """``ask`` gives the status and the JSON of an answer. Requests have the token unless they have
    a header ``Authorization`` or ``Cookie`` of their own."""

    port: int
    rank_port: int
    token: str
    runs: Runs
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def page(self) -> str:
        """The address for a browser, with the token."""
        return f"{self.url}/?token={self.token}"

    def open(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        request = Request(self.url + path, body, method=method)
        if body is not None or method in ("POST", "PUT"):
            request.add_header("Content-Type", "application/json")
        if not {"Authorization", "Cookie"} & set(headers):
            request.add_header("Authorization", f"Bearer {self.token}")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with OPENER.open(request, timeout=100) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except HTTPError as error:
            return error.code, dict(error.headers), error.read()

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        status, _, found = self.open(method, f"/api/v1{path}", data, **headers)
        return status, json.loads(found) if found else None

    def get(self, path: str) -> Any:
        status, found = self.ask("GET", path)
        assert status == 200, found
        return found

    def post(self, path: str, body: object) -> Any:
        status, found = self.ask("POST", path, body)
        assert status in (200, 204), found
        return found

    def control(self, run: str, command: str, **more: object) -> Any:
        return self.post(f"/runs/{run}/control", {"command": command, "wait_seconds": 20, **more})

    def wait_for(self, path: str, is_so: Callable[[Any], bool], seconds: float = 20.0) -> Any:
        """The answer of a path once it is as it should be."""
        return until(self.url, path, is_so, token=self.token, seconds=seconds)


class _Quiet(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, is_ready: threading.Event) -> None:
        super().__init__(config)
        self._is_ready = is_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._is_ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def serving(
    *,
    host: str = "127.0.0.1",
    token: str = SAMPLE_TOKEN,
    paused: bool = True,
    rank_port: int = 0,
    idle_seconds: float = IDLE_SECONDS,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    certificate: ServerCertificate | None = None,
    sources: Callable[[EventBroker], Sequence[Run]] | None = None,
    logs: Sequence[Path] = (),
) -> Iterator[Server]:
    """A server on free ports; ``host`` is what it believes it listens at."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    found: list[Server] = []
    is_ready = threading.Event()
    servers: list[_Quiet] = []

    async def main() -> None:
        runs, broker = Runs(), EventBroker()
        for source in sources(broker) if sources is not None else ():
            runs.add(source)
        token_check = TokenCheck(token)
        idle = [IdleConnections(seconds=idle_seconds) for _ in range(2)]
        hub = Hub(
            runs,
            broker,
            token_check=token_check,
            paused=paused,
            idle=idle[0],
            heartbeat_seconds=heartbeat_seconds,
        )
        ranks = await hub.start(socket.create_server(("127.0.0.1", rank_port)), certificate)
        port = sock.getsockname()[1]
        guard = Guard(
            build_app(Context(runs, broker, ranks, logs=LogDirectories(logs))),
            host=host,
            port=port,
            token_check=token_check,
            has_tls=certificate is not None,
        )
        servers.append(_Quiet(http_config(guard, idle[1], certificate), is_ready))
        found.append(Server(port, ranks, token, runs, asyncio.get_running_loop()))
        await servers[0].serve(sockets=[sock])
        await hub.stop()
        for run in runs:
            run.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert is_ready.wait(30)
    try:
        yield found[0]
    finally:
        servers[0].should_exit = True
        thread.join(30)
        sock.close()
        assert not thread.is_alive()
