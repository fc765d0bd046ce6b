"""Live runs, over real sockets, with ranks that speak the protocol."""

import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
import pytest
from tests.server.serving_in_thread import Server, serving
from websockets.sync.client import connect

from sonde.debugger.conversation import Conversation
from sonde.debugger.graphs import GraphBook
from sonde.debugger.link import News, Welcomed
from sonde.debugger.probe import is_server
from sonde.debugger.settings import DebuggerOptions
from sonde.server import steering
from sonde.server.live_run import LiveRun
from sonde.testing.fake_rank import FakeRank, RankSocket, sample_metadata
from sonde.testing.sample_graph import sample_graph
from sonde.wire.rank import (
    PROTOCOL,
    GraphPart,
    Hello,
    Hits,
    Notice,
    Refused,
    Status,
    StepDone,
    Welcome,
)
from sonde.wire.shapes import Hit, LossPoint, TensorName, TensorType

LOG = "Default/network-Net/loss-Loss/log-op0"
OVERFLOW = {"name": "bad", "conditions": [{"id": "tensor_overflow"}]}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


def test_a_training_waits_runs_steps_and_stops_at_a_hit(server: Server) -> None:
    rank = FakeRank(server.rank_port).start()
    run = server.wait_for("/runs/run-1", lambda run: run["ranks"][0]["state"] == "paused")
    assert run["ranks"][0]["reason"] == "start"
    assert run["controls"] == ["continue", "step", "next", "to", "terminate"]
    assert server.control("run-1", "step", steps=2)["ranks"][0]["step"] == 2
    at = server.control("run-1", "next")["ranks"][0]
    assert (at["op"], at["reason"]) == ("blocks.0.linear.weight", "op")
    assert server.control("run-1", "to", op="log-op0")["ranks"][0]["op"] == LOG
    assert server.post("/runs/run-1/watchpoints", OVERFLOW)["id"] == 1
    stopped = server.control("run-1", "continue")["ranks"][0]
    assert (stopped["state"], stopped["reason"], stopped["step"]) == ("paused", "hit", 5)
    hits = server.get("/runs/run-1/hits")
    assert [hit["part"] for hit in hits["hits"]] == ["producer", "carrier"]
    assert hits["hits"][1]["origin"] == LOG
    assert server.get("/runs/run-1/hits?verdict=undecided")["total"] == 0
    losses = server.get("/runs/run-1/loss")["points"]
    assert [point["step"] for point in losses] == [0, 1, 2, 3, 4]
    ended = server.control("run-1", "terminate")["ranks"][0]
    assert (ended["state"], ended["message"]) == (
        "ended",
        "sonde.Terminated: terminated from the debugger",
    )
    rank.join()


def test_tensors_are_fetched_from_the_rank(server: Server) -> None:
    rank = FakeRank(server.rank_port).start()
    name = f"op={quote(LOG)}"
    array = rank.array(TensorName(LOG, step=0))
    table = server.get(f"/runs/run-1/tensor/table?{name}&index={quote('[1, 2:4]')}")
    assert table["values"] == array[1, 2:4].tolist()
    assert server.get(f"/runs/run-1/tensor/summary?{name}")["statistics"]["count"] == array.size
    assert server.get(f"/runs/run-1/tensor/heat?{name}&rows=1&columns=1")["cells"] == [
        pytest.approx(array.mean(dtype=np.float64))
    ]
    status, headers, data = server.open("GET", f"/api/v1/runs/run-1/tensor/file?{name}")
    assert status == 200
    assert headers["content-disposition"] == 'attachment; filename="log-op0.output.0.npy"'
    np.testing.assert_array_equal(np.load(io.BytesIO(data)), array)
    compared = server.get(f"/runs/run-1/tensor/compare?{name}&step=0&with_step=1")
    other = rank.array(TensorName(LOG, step=1)).astype(np.float64)
    assert compared["distances"]["max_abs_error"] == pytest.approx(np.abs(array - other).max())
    tensors = server.get(f"/runs/run-1/op/tensors?name={quote(LOG)}")["tensors"]
    assert [(t["io"], t["slot"], t["kept"]) for t in tensors] == [
        ("input", 0, True),
        ("output", 0, True),
    ]
    curve = server.get(f"/runs/run-1/tensor/curve?{name}")
    assert [point["step"] for point in curve["points"]] == [0]
    assert server.ask("GET", "/runs/run-1/tensor/table?op=nowhere")[0] == 404
    rank.close()


def test_two_ranks_are_compared_by_the_server(server: Server) -> None:
    ranks = [FakeRank(server.rank_port, rank=n, world_size=2).start() for n in range(2)]
    path = f"/runs/run-1/tensor/compare?op={quote(LOG)}&rank=0&with_rank=1&step=0"
    found = server.get(path)
    a, b = (rank.array(TensorName(LOG, step=0)).astype(np.float64) for rank in ranks)
    assert found["distances"]["max_abs_error"] == pytest.approx(np.abs(a - b).max())
    assert found["a"]["type"]["dtype"] == "float32"
    for rank in ranks:
        rank.close()


def test_several_runs_ranks_and_browsers_share_a_server(server: Server) -> None:
    ranks = [
        FakeRank(server.rank_port, run=run, rank=number).start()
        for run in ("one", "two")
        for number in range(2)
    ]
    with ExitStack() as stack:
        address = f"ws://127.0.0.1:{server.port}/api/v1/events"
        browsers = [stack.enter_context(connect(address)) for _ in range(4)]
        server.post("/runs/one/watchpoints", OVERFLOW)
        server.control("two", "step", steps=3, rank=1)
        for browser in browsers:
            seen: set[str] = set()
            while "two" not in seen:
                event = json.loads(browser.recv(timeout=20))
                assert event["revision"] > 0
                seen.add(event["run"])
    runs = {run["id"]: run for run in server.get("/runs")["runs"]}
    assert [rank["step"] for rank in runs["two"]["ranks"]] == [0, 3]
    assert [rank["step"] for rank in runs["one"]["ranks"]] == [0, 0]
    assert runs["two"]["watchpoints"] == []
    assert len(ranks[0].watchpoints) + len(ranks[1].watchpoints) == 2
    for rank in ranks:
        rank.close()


def test_the_first_command_reaches_a_rank_that_connects_a_little_later(server: Server) -> None:
    first = FakeRank(server.rank_port, rank=0, world_size=2).start()
    found: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: found.append(server.control("run-1", "step", steps=2)))
    asking.start()
    asking.join(0.3)
    assert asking.is_alive()
    second = FakeRank(server.rank_port, rank=1, world_size=2).start()
    asking.join(60)
    both = server.wait_for("/runs/run-1", lambda run: [r["step"] for r in run["ranks"]] == [2, 2])
    assert [rank["state"] for rank in both["ranks"]] == ["paused", "paused"]
    for rank in (first, second):
        rank.close()


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


class RankConversation:
    """A connection that said hello."""

    def __init__(self, server: Server, run: str = "mine", **more: object) -> None:
        self._server, self._run, self._more = server, run, more

    def __enter__(self) -> RankSocket:
        self.socket = RankSocket("127.0.0.1", self._server.rank_port)
        hello = Hello(PROTOCOL, "", self._run, sample_metadata(), False, **self._more)  # type: ignore[arg-type]
        self.socket.send(hello)
        self.welcome = self.socket.receive()
        return self.socket

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def test_a_rank_that_comes_back_finds_its_watchpoints_and_hits(server: Server) -> None:
    rank = FakeRank(server.rank_port).start()
    server.post("/runs/run-1/watchpoints", OVERFLOW)
    server.control("run-1", "continue")
    rank.close()
    server.wait_for("/runs/run-1", lambda run: run["ranks"][0]["state"] == "lost")
    again = FakeRank(server.rank_port, resumes=True).start()
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
            Hello(PROTOCOL, "", "run-1", sample_metadata(), True, specs, generation=generation)
        )
        welcome = socket_.receive()
        assert isinstance(welcome, Welcome)
        assert (welcome.step, welcome.hit) == (-1, -1)
        assert welcome.generation == 7
        assert [each.id for each in welcome.watchpoints] == [s.id for s in specs]
        assert spec["id"] == 1
        socket_.close()


def test_what_happened_while_the_connection_was_broken_is_told_later(server: Server) -> None:
    news: list[News] = []
    arrived, welcomed = threading.Event(), threading.Event()

    def interrupt(each: News) -> None:
        news.append(each)
        arrived.set()
        if isinstance(each, Welcomed):
            welcomed.set()

    def point(step: int) -> LossPoint:
        return LossPoint(step, float(step), 0.1, 0.1, True)

    def hit(number: int) -> Hit:
        kind = TensorType("float32", ())
        return Hit(number, 1, "c", 0, number, 0, "op", "output", 0, kind, "hit", "", ())

    talk = Conversation(
        DebuggerOptions(port=server.rank_port, run="mine"),
        hello=lambda resumes: Hello(PROTOCOL, "", "mine", sample_metadata(), resumes),
        interrupt=interrupt,
        report=lambda text: None,
    )
    talk.open()
    graphs, hits = GraphBook("net"), [hit(number) for number in range(4)]
    first = news.pop()
    assert isinstance(first, Welcomed)
    talk.greet(first, graphs, [])
    talk.tell_step(point(0), None)
    talk.tell_hits(hits[:2])
    server.wait_for("/runs/mine/hits", lambda page: page["total"] == 2)
    arrived.clear()
    welcomed.clear()
    run = server.runs.find("mine")
    assert isinstance(run, LiveRun)
    link = run.ranks[0].link
    assert link is not None
    server.loop.call_soon_threadsafe(link.close)
    assert arrived.wait(20)
    talk.tell_step(point(1), 7)  # Maybe to nobody.
    talk.tell_hits(hits[2:])
    assert welcomed.wait(20)
    again = next(each for each in news if isinstance(each, Welcomed))
    talk.greet(again, graphs, hits)
    talk.tell_step(point(2), None)
    server.wait_for("/runs/mine/hits", lambda page: page["total"] == 4)
    curve = server.wait_for("/runs/mine/loss", lambda curve: len(curve["points"]) == 3)
    assert [each["step"] for each in curve["points"]] == [0, 1, 2]
    assert [run.graph_of(0, step) for step in range(4)] == [None, 7, None, None]
    talk.close()


def test_a_graph_that_is_told_again_keeps_its_index(server: Server) -> None:
    nodes = sample_graph(3)
    with RankConversation(server) as rank:
        parts = [
            GraphPart(0, "g", first, nodes[first : first + 10], len(nodes))
            for first in range(0, len(nodes), 10)
        ]
        for part in parts:
            rank.send(part)
        server.wait_for("/runs/mine/nodes?limit=1", lambda page: page["total"] == len(nodes))
        run = server.runs.find("mine")
        assert isinstance(run, LiveRun)
        index = run.ranks[0].graphs[0].index
        assert index is not None
        for part in parts:
            rank.send(part)
        rank.send(Notice("said", "that was all"))
        server.wait_for("/runs/mine", lambda run: len(run["notices"]) == 1)
        assert run.ranks[0].graphs[0].index is index
        rank.send(GraphPart(0, "g", 0, nodes[:10], 10))  # The structure is another.
        server.wait_for("/runs/mine/nodes?limit=1", lambda page: page["total"] == 10)


def test_hits_that_are_sent_again_are_not_doubled(server: Server) -> None:
    fake = FakeRank(server.rank_port, run="other")
    hit = fake._hit(1, fake.nodes[-1], fake.nodes[-1])
    with RankConversation(server) as rank:
        rank.send(Hits((hit,)))
        rank.send(Hits((hit,)))
        rank.send(Status("paused", 0, None, None, None, "start", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "paused")
        assert server.get("/runs/mine/hits")["total"] == 1


def test_hits_are_in_execution_order_inputs_and_parameters_first(server: Server) -> None:
    nodes = sample_graph(2)
    fake = FakeRank(server.rank_port, run="other", nodes=nodes)
    late_leaf = [node for node in nodes if node.kind == "parameter"][-1]
    order = [nodes[-1], nodes[4], late_leaf]
    with RankConversation(server) as rank:
        rank.send(GraphPart(0, "g", 0, nodes, len(nodes)))
        for node in order:
            hit = fake._hit(1, nodes[4], nodes[4])
            rank.send(Hits((msgspec.structs.replace(hit, op=node.name, order=node.order),)))
        rank.send(Status("paused", 0, None, None, None, "start", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "paused")
        found = [hit["op"] for hit in server.get("/runs/mine/hits")["hits"]]
        assert found == [late_leaf.name, nodes[4].name, nodes[-1].name]


def test_hits_are_filtered_by_the_graph_that_their_step_ran(server: Server) -> None:
    nodes = sample_graph(2)
    fake = FakeRank(server.rank_port, run="other", nodes=nodes)
    op, late = nodes[4], nodes[-1]
    ran = [0, 1, 0, None, 1]
    with RankConversation(server) as rank:
        rank.send(GraphPart(0, "discriminator", 0, nodes, len(nodes)))
        rank.send(GraphPart(1, "generator", 0, nodes[:-1], len(nodes) - 1))
        for step in range(6):
            names = [op.name, late.name] if step == 2 else [op.name]
            for name in names:
                hit = msgspec.structs.replace(fake._hit(1, op, op), op=name, step=step)
                rank.send(Hits((hit,)))
            if step < len(ran):
                point = LossPoint(step, 1.0, 0.1, 0.1, ran[step] is not None)
                rank.send(StepDone(point, ran[step] or 0))
        rank.send(Status("paused", 5, 1, op.name, None, "hit", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "paused")

        def steps(query: str) -> list[int]:
            return [hit["step"] for hit in server.get(f"/runs/mine/hits?{query}")["hits"]]

        # Of step 3 nobody knows: its ops were not looked at. Step 5 has not ended.
        assert steps("graph=0") == [0, 2, 2, 3]
        assert steps("graph=1&rank=0") == [1, 3, 4, 5]
        status, problem = server.ask("GET", "/runs/mine/hits?graph=7")
        assert (status, problem["slug"]) == (404, "no-such-graph")


def test_watchpoints_are_asked_at_once_of_what_all_ranks_have_at_hand(server: Server) -> None:
    path = "/runs/run-1/recheck"
    with ExitStack() as stack:
        for number in range(2):
            rank = FakeRank(server.rank_port, rank=number, world_size=2).start()
            stack.callback(rank.close)
        server.wait_for(
            "/runs/run-1", lambda run: [each["state"] for each in run["ranks"]] == ["paused"] * 2
        )
        assert server.ask("POST", path, {})[1]["slug"] == "no-such-watchpoint"
        server.post("/runs/run-1/watchpoints", OVERFLOW)
        found = server.post(path, {})["recheck"]
        assert (found["running"], found["done"], found["hits"]) == (False, 2, 0)
        assert found["total"] == 2 * len(sample_graph())
        assert [note[:7] for note in found["notes"]] == ["rank 0:", "rank 1:"]
        assert server.get("/runs/run-1")["recheck"] == found
        server.control("run-1", "step")
        assert server.get("/runs/run-1")["recheck"] is None
    server.wait_for("/runs/run-1", lambda run: run["ranks"][0]["state"] == "lost")
    assert server.ask("POST", path, {})[1]["slug"] == "rank-gone"


@pytest.mark.parametrize(
    ("slow_seconds", "states"), [(0.2, ["paused"] * 2), (3.0, ["paused", "running"])]
)
def test_ranks_that_come_to_a_stand_later_are_waited_for_but_not_for_long(
    server: Server, monkeypatch: pytest.MonkeyPatch, slow_seconds: float, states: list[str]
) -> None:
    monkeypatch.setattr(steering, "LAGGARD_SECONDS", 0.8)
    ranks = [
        FakeRank(server.rank_port, rank=number, world_size=2, step_seconds=seconds).start()
        for number, seconds in enumerate((0.0, slow_seconds))
    ]
    server.wait_for(
        "/runs/run-1", lambda run: [rank["state"] for rank in run["ranks"]] == ["paused"] * 2
    )
    run = server.control("run-1", "step")
    assert [rank["state"] for rank in run["ranks"]] == states
    for rank in ranks:
        rank.close()


def test_a_wait_ends_when_its_time_is_up(server: Server) -> None:
    with RankConversation(server) as rank:
        rank.send(Status("paused", 0, None, None, None, "start", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "paused")
        body = {"command": "continue", "wait_seconds": 0.05}
        run = server.post("/runs/mine/control", body)
        assert run["ranks"][0]["state"] == "paused"  # It never said that it obeyed.


def test_a_training_that_stands_still_need_not_be_told_to_pause(server: Server) -> None:
    with RankConversation(server) as rank:
        rank.send(Status("paused", 4, None, None, None, "step", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "paused")
        run = server.post("/runs/mine/control", {"command": "pause", "wait_seconds": 3600})
        assert (run["ranks"][0]["state"], run["ranks"][0]["reason"]) == ("paused", "step")
        server.post("/runs/mine/control", {"command": "continue"})
        assert rank.receive().command == "continue"  # type: ignore[union-attr]


def test_the_answer_to_continue_shows_where_the_training_is_then(server: Server) -> None:
    with RankConversation(server) as rank:
        rank.send(Status("paused", 0, None, None, None, "start", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "paused")

        def obey() -> None:
            control = rank.receive()
            rank.send(Status("running", 0, None, None, None, None, "", control.generation))  # type: ignore[union-attr]

        obeying = threading.Thread(target=obey)
        obeying.start()
        run = server.post("/runs/mine/control", {"command": "continue"})
        assert run["ranks"][0]["state"] == "running"
        obeying.join(20)


def test_a_control_that_comes_before_the_first_step_is_kept_for_it(server: Server) -> None:
    with RankConversation(server) as rank:
        rank.send(Status("waiting", 0, None, None, None, None, "the program has begun", 0))
        body = {"command": "step", "steps": 3}
        asking = threading.Thread(target=lambda: server.post("/runs/mine/control", body))
        asking.start()
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "waiting")
        rank.send(Status("paused", 0, None, None, None, "start", "", 0))
        control = rank.receive()
        assert (control.command, control.steps) == ("step", 3)  # type: ignore[union-attr]
        asking.join(20)


def test_an_op_is_not_looked_for_before_there_is_a_graph(server: Server) -> None:
    with RankConversation(server) as rank:
        rank.send(Status("paused", 0, None, None, None, "start", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "paused")
        body = {"command": "to", "op": "log-op0"}
        status, problem = server.ask("POST", "/runs/mine/control", body)
        assert (status, problem["slug"]) == (404, "no-such-op")
        server.post("/runs/mine/control", {**body, "op": LOG})
        assert rank.receive().op == LOG  # type: ignore[union-attr]


def test_an_op_of_another_structure_can_be_run_to(server: Server) -> None:
    nodes = sample_graph(3)
    with RankConversation(server) as rank:
        rank.send(GraphPart(0, "with the log", 0, nodes, len(nodes)))
        rank.send(GraphPart(1, "without", 0, nodes[:2], 2))
        rank.send(Status("paused", 0, 1, None, None, "op", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["graph"] == 1)
        server.post("/runs/mine/control", {"command": "to", "op": "log-op0"})
        assert rank.receive().op == LOG  # type: ignore[union-attr]
        body = {"command": "to", "op": "nothing"}
        status, problem = server.ask("POST", "/runs/mine/control", body)
        assert (status, problem["slug"]) == (404, "no-such-op")


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


def test_the_graph_grows_while_the_first_step_runs(server: Server) -> None:
    nodes = sample_graph(3)
    with RankConversation(server) as rank:
        rank.send(GraphPart(0, "g", 0, nodes[:10], None))
        rank.send(Status("paused", 0, 0, None, None, "op", "", 0))
        run = server.wait_for("/runs/mine", lambda run: bool(run["ranks"][0]["graphs"]))
        assert run["ranks"][0]["graphs"] == [{"id": 0, "name": "g", "nodes": 10, "whole": False}]
        assert server.get("/runs/mine/nodes?limit=1")["total"] == 10
        rank.send(GraphPart(0, "g", 10, nodes[10:], len(nodes)))
        server.wait_for("/runs/mine/nodes?limit=1", lambda page: page["total"] == len(nodes))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"protocol": 99}, "version"),
        ({"run": "../../etc"}, "name of the run"),
        ({"run": ""}, "name of the run"),
        ({"metadata": sample_metadata(rank=-1)}, "out of bounds"),
    ],
)
def test_a_rank_that_does_not_fit_is_refused(
    server: Server, change: dict[str, object], part: str
) -> None:
    hello = Hello(PROTOCOL, "", "mine", sample_metadata(), False)
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(msgspec.structs.replace(hello, **change))
    answer = rank.receive()
    assert isinstance(answer, Refused)
    assert part in answer.reason
    assert rank.receive() is None
    assert server.get("/runs")["runs"] == []
    rank.close()


def test_a_token_that_nobody_asked_for_does_no_harm(server: Server) -> None:
    FakeRank(server.rank_port, run="wary", token="of another server").start().close()
    assert server.get("/runs/wary")["id"] == "wary"


def test_a_second_process_that_says_it_is_the_same_rank_is_refused(server: Server) -> None:
    with RankConversation(server):
        rival = RankSocket("127.0.0.1", server.rank_port)
        metadata = msgspec.structs.replace(sample_metadata(), pid=1)
        rival.send(Hello(PROTOCOL, "", "mine", metadata, False))
        answer = rival.receive()
        assert isinstance(answer, Refused)
        assert "is connected already" in answer.reason
        rival.close()
        with RankConversation(server) as again:  # The same process, on a new connection.
            again.send(Status("paused", 4, None, None, None, "start", "", 0))
            run = server.wait_for("/runs/mine", lambda run: run["ranks"][0]["step"] == 4)
            assert run["ranks"][0]["state"] == "paused"
    server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "lost")
    other = RankSocket("127.0.0.1", server.rank_port)
    other.send(Hello(PROTOCOL, "", "mine", metadata, False))
    assert isinstance(other.receive(), Welcome)
    other.close()


def test_watchpoints_are_added_changed_saved_and_loaded(server: Server) -> None:
    with RankConversation(server) as rank:
        base = "/runs/mine/watchpoints"
        server.post(base, OVERFLOW)
        changed = {**OVERFLOW, "enabled": False, "break_after": 3, "ops": ["relu"]}
        assert server.ask("PUT", f"{base}/1", changed)[1]["break_after"] == 3
        saved = server.get(f"{base}/file")
        assert saved["version"] == 1
        assert server.ask("DELETE", f"{base}/1")[0] == 204
        assert server.get(base)["watchpoints"] == []
        loaded = server.ask("PUT", f"{base}/file", saved)[1]["watchpoints"]
        assert [(spec["id"], spec["ops"], spec["enabled"]) for spec in loaded] == [
            (2, ["relu"], False)
        ]
        seen = [rank.receive() for _ in range(4)]
        assert [len(message.watchpoints) for message in seen] == [1, 1, 0, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("draft", "slug"),
    [
        ({"name": "x", "conditions": []}, "watchpoint"),
        ({"name": "x", "conditions": [{"id": "nope"}]}, "condition-unknown"),
        (
            {"name": "x", "conditions": [{"id": "expression", "expression": "__import__('os')"}]},
            "expression",
        ),
        ({"name": "x", "conditions": [{"id": "tensor_overflow"}], "ops": [""]}, "op-pattern"),
        ({"name": "x" * 300, "conditions": [{"id": "tensor_overflow"}]}, "watchpoint"),
        (
            {"name": "x", "conditions": [{"id": "tensor_overflow"}], "break_after": -1},
            "watchpoint",
        ),
        ({"conditions": 3}, "bad-request"),
    ],
)
def test_a_watchpoint_that_cannot_be_is_refused(
    server: Server, draft: dict[str, object], slug: str
) -> None:
    with RankConversation(server):
        status, problem = server.ask("POST", "/runs/mine/watchpoints", draft)
        assert (status, problem["slug"]) == (400, slug)
        assert server.get("/runs/mine/watchpoints")["watchpoints"] == []


def test_the_recommended_watchpoints_fit_the_network(server: Server) -> None:
    rank = FakeRank(server.rank_port).start()
    server.wait_for("/runs/run-1", lambda run: bool(run["ranks"][0]["graphs"]))
    specs = server.post("/runs/run-1/watchpoints/recommended", {})["watchpoints"]
    names = [spec["name"] for spec in specs]
    assert "tanh is saturated" in names
    assert "relu is dead" not in names
    again = server.post("/runs/run-1/watchpoints/recommended", {})["watchpoints"]
    assert len(again) == len(specs)
    rank.close()


def test_the_catalogue_lists_the_conditions(server: Server) -> None:
    catalogue = server.get("/conditions")
    found = {condition["id"]: condition for condition in catalogue["conditions"]}
    assert found["gradient_vanishing"]["target"] == "gradient"
    assert found["tensor_too_large"]["parameters"][0]["highest"] == "inf"
    assert "nan_count" in catalogue["expression_names"]
    assert "prev.abs_max" in catalogue["expression_names"]


def test_a_slow_browser_holds_nobody_up(server: Server) -> None:
    sleepy = socket.create_connection(("127.0.0.1", server.port))
    sleepy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    sleepy.sendall(
        b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        b"Sec-WebSocket-Version: 13\r\n\r\n"
    )
    rank = FakeRank(server.rank_port, steps=3000).start()
    ended = server.control("run-1", "continue")["ranks"][0]
    assert (ended["state"], ended["step"]) == ("ended", 2999)
    assert len(server.get("/runs/run-1/loss")["points"]) == 3000
    assert [p["step"] for p in server.get("/runs/run-1/loss?after=2997")["points"]] == [2998, 2999]
    sleepy.close()
    rank.join()


def test_hits_are_counted_for_the_rank_that_is_shown(server: Server) -> None:
    with ExitStack() as ranks:
        for number in (0, 1):
            found = FakeRank(server.rank_port, rank=number, world_size=2).start()
            ranks.callback(found.close)
        server.wait_for("/runs/run-1", lambda run: len(run["ranks"]) == 2)
        server.post("/runs/run-1/watchpoints", OVERFLOW)
        server.control("run-1", "continue", rank=0)
        server.wait_for("/runs/run-1/hits", lambda page: page["total"] == 2)
        for rank, count in ((0, 2), (1, 0)):
            where = f"rank={rank}"
            entries = server.get(f"/runs/run-1/graph/tree?{where}")["entries"]
            assert {e["label"]: e["hits"] for e in entries}["Default"] == count
            nodes = server.get(f"/runs/run-1/graph/level?{where}")["nodes"]
            default = next(node for node in nodes if node["path"] == "Default/")
            assert (default["hits"], default["has_origin"]) == (count, bool(count))
            assert server.get(f"/runs/run-1/nodes?{where}&hits=true")["total"] == count
            op = server.get(f"/runs/run-1/op?{where}&name={quote(LOG)}")
            assert len(op["hits"]) == count // 2


@pytest.mark.parametrize("token", ["", "secret"])
def test_a_server_is_known_by_its_answer(token: str) -> None:
    with serving(token=token) as server:
        assert is_server("127.0.0.1", server.rank_port)
        assert not is_server("127.0.0.1", server.port)  # The page's port.
        assert list(server.runs) == []
    assert not is_server("127.0.0.1", server.rank_port)
