"""A server or a rank that hangs, with its connection open."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.server.rank_conversation import RankConversation
from tests.server.serving_in_thread import serving

from sonde.debugger.connection.link import Connected, Disconnected
from sonde.debugger.connection.session import ServerSession
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.values.graphs import GraphRegistry
from sonde.testing.fake_rank import FakeRank
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.framing import frame
from sonde.wire.rank import PROTOCOL, Alive, Heartbeat, Hello, Welcome


@contextmanager
def hung_server(heartbeats: int, heartbeat_seconds: float) -> Iterator[int]:
    """Welcomes a rank, sends some heartbeats, and then nothing; its connection stays open."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []

        def serve() -> None:
            connection, _ = listener.accept()
            held.append(connection)
            connection.recv(1 << 16)
            welcome = Welcome((), True, 0, heartbeat_seconds=heartbeat_seconds)
            connection.sendall(frame(welcome) + frame(Heartbeat()) * heartbeats)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join(30)
        for connection in held:
            connection.close()


def test_a_hung_server_frees_a_paused_training() -> None:
    said: list[str] = []
    with hung_server(3, 0.02) as port:
        session = ServerSession(
            DebuggerOptions(port=port, token=SAMPLE_TOKEN, run="r", lost_seconds=0.05),
            hello=lambda resumes: Hello(PROTOCOL, "", "r", sample_metadata(), resumes),
            interrupt=lambda event: None,
            report=said.append,
        )
        session.open()
        first = session.inbox.take()
        assert isinstance(first, Connected)
        session.on_connect(first, GraphRegistry("net"), [])
        is_lost = False
        while session.wait():  # What a paused training does.
            event = session.inbox.take()
            if isinstance(event, Disconnected):
                session.on_disconnect(event, is_paused=True)
                is_lost = True
                assert event.silent_seconds > 0
        assert is_lost
        session.close()
    assert "does not answer" in said[0]
    assert said[-1] == "sonde: the debugger server did not return; the training continues"


def test_a_server_that_sends_heartbeats_is_not_lost() -> None:
    with serving(heartbeat_seconds=0.02) as server, RankConversation(server, run="r") as rank:
        for _ in range(20):
            assert isinstance(rank.receive(), Heartbeat)
            rank.send(Alive())
        assert server.get("/runs/r")["ranks"][0]["is_answering"]


def test_a_hung_rank_is_shown_as_not_answering() -> None:
    with serving(heartbeat_seconds=0.02) as server, RankConversation(server, run="r") as rank:
        run = server.wait_for("/runs/r", lambda run: not run["ranks"][0]["is_answering"])
        assert "does not answer" in run["ranks"][0]["message"]
        rank.send(Alive())
        server.wait_for("/runs/r", lambda run: run["ranks"][0]["is_answering"])


def test_a_rank_that_answers_is_never_shown_as_hung() -> None:
    with serving(heartbeat_seconds=0.02) as server:
        rank = FakeRank(server.rank_port, run="r").start()
        assert server.control("r", "step")["ranks"][0]["is_answering"]
        rank.close()
