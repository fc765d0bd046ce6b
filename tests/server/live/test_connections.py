"""Ranks that die, come back, are new under an old name, or are not let in."""

import threading
from urllib.parse import quote

import msgspec
import pytest
from tests.server.rank_conversation import LOG, OVERFLOW, RankConversation
from tests.server.serving_in_thread import Server, serving

from sonde.debugger.connection.link import Connected, ServerEvent
from sonde.debugger.connection.session import ServerSession
from sonde.debugger.launch.probe import is_server
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.values.graphs import GraphRegistry
from sonde.server.live.run import LiveRun
from sonde.testing.fake_rank import FakeRank, RankSocket
from sonde.testing.sample_graph import sample_graph
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.rank import PROTOCOL, GraphPart, Hello, Refused, Status, Welcome
from sonde.wire.shapes import Hit, LossPoint, TensorType


def test_what_a_killed_training_said_is_kept(server: Server) -> None:
    rank = FakeRank(server.rank_port).start()
    server.post("/runs/run-1/watchpoints", OVERFLOW)
    server.control("run-1", "continue")
    rank.close()
    run = server.wait_for("/runs/run-1", lambda run: run["ranks"][0]["state"] == "lost")
    assert run["ranks"][0]["hits"] == 2
    assert run["controls"] == []
    assert server.get("/runs/run-1/hits")["total"] == 2
    assert len(server.get("/runs/run-1/graph/level")["nodes"]) == 3
    assert server.ask("POST", "/runs/run-1/control", {"command": "continue"})[0] == 409
    status, problem = server.ask("GET", f"/runs/run-1/tensor/table?op={quote(LOG)}")
    assert (status, problem["slug"]) == (409, "rank-gone")
    assert server.ask("DELETE", "/runs/run-1")[0] == 204
    assert server.get("/runs")["runs"] == []


def test_a_question_to_a_rank_that_dies_is_answered(server: Server) -> None:
    with RankConversation(server) as rank:
        rank.send(GraphPart(0, "g", 0, sample_graph(1), None))
        rank.send(Status("paused", 0, 0, None, None, "start", "", 0))
        answers: list[int] = []
        path = f"/runs/mine/tensor/table?op={quote(LOG)}"
        asking = threading.Thread(target=lambda: answers.append(server.ask("GET", path)[0]))
        asking.start()
        assert type(rank.receive()).__name__ == "Ask"
    asking.join(20)
    assert answers == [409]


def test_a_rank_that_comes_back_finds_its_watchpoints_and_hits(server: Server) -> None:
    rank = FakeRank(server.rank_port).start()
    server.post("/runs/run-1/watchpoints", OVERFLOW)
    server.control("run-1", "continue")
    rank.close()
    server.wait_for("/runs/run-1", lambda run: run["ranks"][0]["state"] == "lost")
    assert rank.welcome is not None
    again = FakeRank(server.rank_port, resumes=True, secret=rank.welcome.secret).start()
    assert again.welcome is not None
    assert (again.welcome.step, again.welcome.hit) == (4, 1)
    assert not again.welcome.paused
    assert [spec.name for spec in again.welcome.watchpoints] == ["bad"]
    assert server.get("/runs/run-1/hits")["total"] == 2
    again.close()


def test_a_new_process_with_the_old_name_starts_afresh(server: Server) -> None:
    rank = FakeRank(server.rank_port).start()
    server.post("/runs/run-1/watchpoints", OVERFLOW)
    server.control("run-1", "continue")
    rank.close()
    again = FakeRank(server.rank_port).start()
    assert again.welcome is not None
    assert (again.welcome.step, again.welcome.hit) == (-1, -1)
    assert again.welcome.paused
    assert server.get("/runs/run-1/hits")["total"] == 0
    assert len(server.get("/runs/run-1/watchpoints")["watchpoints"]) == 1
    again.close()


def test_a_restarted_server_learns_from_the_rank_what_it_forgot() -> None:
    with serving() as first:
        rank = FakeRank(first.rank_port).start()
        spec = first.post("/runs/run-1/watchpoints", OVERFLOW)
        generation = 7
        rank.close()
    assert rank.welcome is not None
    with serving() as second:
        socket_ = RankSocket("127.0.0.1", second.rank_port)
        specs = rank.watchpoints or ()
        socket_.send(
            Hello(
                PROTOCOL,
                SAMPLE_TOKEN,
                "run-1",
                sample_metadata(),
                True,
                specs,
                generation=generation,
            )
        )
        welcome = socket_.receive()
        assert isinstance(welcome, Welcome)
        assert (welcome.step, welcome.hit) == (-1, -1)
        assert welcome.generation == 7
        assert [each.id for each in welcome.watchpoints] == [s.id for s in specs]
        assert spec["id"] == 1
        socket_.close()


def test_what_happened_while_the_connection_was_broken_is_sent_later(server: Server) -> None:
    news: list[ServerEvent] = []
    arrived, welcomed = threading.Event(), threading.Event()

    def interrupt(each: ServerEvent) -> None:
        news.append(each)
        arrived.set()
        if isinstance(each, Connected):
            welcomed.set()

    def point(step: int) -> LossPoint:
        return LossPoint(step, float(step), 0.1, 0.1, True)

    def hit(number: int) -> Hit:
        kind = TensorType("float32", ())
        return Hit(number, 1, "c", 0, number, 0, "op", "output", 0, kind, "hit", "", ())

    talk = ServerSession(
        DebuggerOptions(port=server.rank_port, token=server.token, run="mine"),
        hello=lambda resumes: Hello(PROTOCOL, SAMPLE_TOKEN, "mine", sample_metadata(), resumes),
        interrupt=interrupt,
        report=lambda text: None,
    )
    talk.open()
    graphs, hits = GraphRegistry("net"), [hit(number) for number in range(4)]
    first = news.pop()
    assert isinstance(first, Connected)
    talk.on_connect(first, graphs, [])
    talk.report_step(point(0), None)
    talk.report_hits(hits[:2])
    server.wait_for("/runs/mine/hits", lambda page: page["total"] == 2)
    arrived.clear()
    welcomed.clear()
    run = server.runs.find("mine")
    assert isinstance(run, LiveRun)
    link = run.ranks[0].link
    assert link is not None
    server.loop.call_soon_threadsafe(link.close)
    assert arrived.wait(20)
    talk.report_step(point(1), 7)  # Maybe without a connection.
    talk.report_hits(hits[2:])
    assert welcomed.wait(20)
    again = next(each for each in news if isinstance(each, Connected))
    talk.on_connect(again, graphs, hits)
    talk.report_step(point(2), None)
    server.wait_for("/runs/mine/hits", lambda page: page["total"] == 4)
    curve = server.wait_for("/runs/mine/loss", lambda curve: len(curve["points"]) == 3)
    assert [each["step"] for each in curve["points"]] == [0, 1, 2]
    assert [run.graph_of(0, step) for step in range(4)] == [None, 7, None, None]
    talk.close()


def test_ranks_that_a_new_training_of_the_same_name_does_not_have_are_forgotten(
    server: Server,
) -> None:
    for number in range(3):
        FakeRank(server.rank_port, rank=number, world_size=3).start().close()
    server.wait_for(
        "/runs/run-1", lambda run: [rank["state"] for rank in run["ranks"]] == 3 * ["lost"]
    )
    again = [FakeRank(server.rank_port, rank=number, world_size=2).start() for number in (1, 0)]
    ranks = server.get("/runs/run-1")["ranks"]
    assert [(rank["rank"], rank["state"]) for rank in ranks] == [(0, "paused"), (1, "paused")]
    for rank in again:
        rank.close()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"protocol": 99}, "version"),
        ({"run": "../../etc"}, "id of the run"),
        ({"run": ""}, "id of the run"),
        ({"metadata": sample_metadata(rank=-1)}, "out of range"),
    ],
)
def test_a_rank_that_does_not_fit_is_refused(
    server: Server, change: dict[str, object], part: str
) -> None:
    hello = Hello(PROTOCOL, SAMPLE_TOKEN, "mine", sample_metadata(), False)
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(msgspec.structs.replace(hello, **change))
    answer = rank.receive()
    assert isinstance(answer, Refused)
    assert part in answer.reason
    assert rank.receive() is None
    assert server.get("/runs")["runs"] == []
    rank.close()


def test_a_second_process_that_says_it_is_the_same_rank_is_refused(server: Server) -> None:
    with (first := RankConversation(server)):
        rival = RankSocket("127.0.0.1", server.rank_port)
        metadata = msgspec.structs.replace(sample_metadata(), pid=1)
        rival.send(Hello(PROTOCOL, SAMPLE_TOKEN, "mine", metadata, False))
        answer = rival.receive()
        assert isinstance(answer, Refused)
        assert "is connected already" in answer.reason
        rival.close()
        assert isinstance(first.welcome, Welcome)
        # The same process, on a new connection.
        with RankConversation(server, secret=first.welcome.secret) as again:
            again.send(Status("paused", 4, None, None, None, "start", "", 0))
            run = server.wait_for("/runs/mine", lambda run: run["ranks"][0]["step"] == 4)
            assert run["ranks"][0]["state"] == "paused"
    server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "lost")
    other = RankSocket("127.0.0.1", server.rank_port)
    other.send(Hello(PROTOCOL, SAMPLE_TOKEN, "mine", metadata, False))
    assert isinstance(other.receive(), Welcome)
    other.close()


def test_a_server_is_known_by_its_answer() -> None:
    with serving() as server:
        assert is_server("127.0.0.1", server.rank_port)
        assert not is_server("127.0.0.1", server.port)  # The page's port.
        assert list(server.runs) == []
    assert not is_server("127.0.0.1", server.rank_port)
