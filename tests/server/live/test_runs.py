"""Live runs, over real sockets, with ranks that speak the protocol."""

import io
import json
import socket
from contextlib import ExitStack
from urllib.parse import quote

import numpy as np
import pytest
from tests.server.rank_conversation import LOG, OVERFLOW, RankConversation
from tests.server.serving_in_thread import Server
from websockets.sync.client import connect

from sonde.server.live.run import LiveRun
from sonde.testing.fake_rank import FakeRank
from sonde.testing.sample_graph import sample_graph
from sonde.wire.rank import GraphPart, Notice, Status
from sonde.wire.shapes import TensorName


@pytest.mark.document(
    248,
    says="`CONTINUE`: until the `Watch Point List` is triggered, or the training is finished",
    how="button `Continue`, space bar, `sonde ctl continue --wait`",
)
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


@pytest.mark.document(
    237,
    says="Tensor Value Visualization",
    how="table, heat map, histogram, curve over steps, and the whole tensor as `.npy`",
)
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


@pytest.mark.document(
    240,
    says="comparison of parameter nodes with their output in the previous step",
    how="also of any tensor, with another rank, run or op: `Compare with`",
)
def test_two_ranks_are_compared_by_the_server(server: Server) -> None:
    ranks = [FakeRank(server.rank_port, rank=n, world_size=2).start() for n in range(2)]
    path = f"/runs/run-1/tensor/compare?op={quote(LOG)}&rank=0&with_rank=1&step=0"
    found = server.get(path)
    a, b = (rank.array(TensorName(LOG, step=0)).astype(np.float64) for rank in ranks)
    assert found["distances"]["max_abs_error"] == pytest.approx(np.abs(a - b).max())
    assert found["a"]["type"]["dtype"] == "float32"
    for rank in ranks:
        rank.close()


@pytest.mark.document(
    252,
    says="a single Debugger Server can only be connected to one training process",
    how="several trainings, ranks and browsers share one `sonde serve`",
)
def test_several_runs_ranks_and_browsers_share_a_server(server: Server) -> None:
    ranks = [
        FakeRank(server.rank_port, run=run, rank=number).start()
        for run in ("one", "two")
        for number in range(2)
    ]
    with ExitStack() as stack:
        address = f"ws://127.0.0.1:{server.port}/api/v1/events"
        headers = {"Authorization": f"Bearer {server.token}"}
        browsers = [
            stack.enter_context(connect(address, additional_headers=headers)) for _ in range(4)
        ]
        server.post("/runs/one/watchpoints", OVERFLOW)
        server.control("two", "step", steps=3, rank=1)
        for browser in browsers:
            seen: set[str] = set()
            while "two" not in seen:
                event = json.loads(browser.recv(timeout=100))
                assert event["revision"] > 0
                seen.add(event["run"])
    runs = {run["id"]: run for run in server.get("/runs")["runs"]}
    assert [rank["step"] for rank in runs["two"]["ranks"]] == [0, 3]
    assert [rank["step"] for rank in runs["one"]["ranks"]] == [0, 0]
    assert runs["two"]["watchpoints"] == []
    assert len(ranks[0].watchpoints) + len(ranks[1].watchpoints) == 2
    for rank in ranks:
        rank.close()


def test_a_graph_that_is_sent_again_keeps_its_index(server: Server) -> None:
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
        index = run.ranks[0].graphs._graphs[0].index
        assert index is not None
        for part in parts:
            rank.send(part)
        rank.send(Notice("said", "that was all"))
        server.wait_for("/runs/mine", lambda run: len(run["notices"]) == 1)
        assert run.ranks[0].graphs._graphs[0].index is index
        rank.send(GraphPart(0, "g", 0, nodes[:10], 10))  # The structure is another.
        server.wait_for("/runs/mine/nodes?limit=1", lambda page: page["total"] == 10)


def test_the_graph_grows_while_the_first_step_runs(server: Server) -> None:
    nodes = sample_graph(3)
    with RankConversation(server) as rank:
        rank.send(GraphPart(0, "g", 0, nodes[:10], None))
        rank.send(Status("paused", 0, 0, None, None, "op", "", 0))
        run = server.wait_for("/runs/mine", lambda run: bool(run["ranks"][0]["graphs"]))
        (growing,) = run["ranks"][0]["graphs"]
        assert (growing["id"], growing["nodes"], growing["whole"]) == (0, 10, False)
        assert server.get("/runs/mine/nodes?limit=1")["total"] == 10
        rank.send(GraphPart(0, "g", 10, nodes[10:], len(nodes)))
        server.wait_for("/runs/mine/nodes?limit=1", lambda page: page["total"] == len(nodes))


def test_a_slow_browser_does_not_delay_others(server: Server) -> None:
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
