"""Continue, step, pause and run to an op: when ranks get the command, and what is awaited."""

import threading
from typing import Any

import pytest
from tests.server.rank_conversation import LOG, RankConversation
from tests.server.serving_in_thread import Server

from sonde.server.live import control as run_control
from sonde.testing.fake_rank import FakeRank
from sonde.testing.sample_graph import sample_graph
from sonde.wire.rank import GraphPart, Status


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


@pytest.mark.parametrize(
    ("slow_seconds", "states"), [(0.2, ["paused"] * 2), (3.0, ["paused", "running"])]
)
def test_ranks_that_come_to_a_stand_later_are_waited_for_but_not_for_long(
    server: Server, monkeypatch: pytest.MonkeyPatch, slow_seconds: float, states: list[str]
) -> None:
    monkeypatch.setattr(run_control, "STRAGGLER_SECONDS", 0.8)
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


def test_a_paused_training_needs_no_command_to_pause(server: Server) -> None:
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


@pytest.mark.document(
    254,
    says="the debugger does not support multi-graph training scenarios",
    how="each structure of a step is a graph that can be chosen, watched and run to",
)
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
