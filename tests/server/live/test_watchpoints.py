"""Watchpoints of live runs, and the hits that ranks tell of."""

from contextlib import ExitStack
from urllib.parse import quote

import msgspec
import pytest
from tests.server.rank_conversation import LOG, OVERFLOW, RankConversation
from tests.server.serving_in_thread import Server

from sonde.testing.fake_rank import FakeRank
from sonde.testing.sample_graph import sample_graph
from sonde.wire.questions import Checked
from sonde.wire.rank import Answer, Ask, Goodbye, GraphPart, Hits, SetWatchpoints, Status, StepDone
from sonde.wire.shapes import HitRef, LossPoint


def test_hits_that_are_sent_again_are_not_doubled(server: Server) -> None:
    fake = FakeRank(server.rank_port, run="other")
    hit = fake._hit(1, fake.nodes[-1], fake.nodes[-1])
    with RankConversation(server) as rank:
        rank.send(Hits((hit,)))
        rank.send(Hits((hit,)))
        rank.send(Status("paused", 0, None, None, None, "start", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "paused")
        assert server.get("/runs/mine/hits")["total"] == 1


def test_the_hit_at_which_a_rank_is_paused_is_shown_until_it_continues(server: Server) -> None:
    stop = HitRef(1, "mine: at", "tensor_overflow", 4, "fc.weight", "output", 0)
    with RankConversation(server) as rank:
        rank.send(Status("paused", 5, None, None, None, "hit", "for people", 0, stop))
        found = server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "paused")
        assert found["ranks"][0]["hit"] == msgspec.to_builtins(stop)
        rank.send(Status("running", 5, None, None, None, None, "", 0))
        found = server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "running")
        assert found["ranks"][0]["hit"] is None


def test_how_a_program_ended_is_shown_in_fields(server: Server) -> None:
    with RankConversation(server) as rank:
        rank.send(Goodbye(130, "ended from the debugger", is_terminated=True))
        found = server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "ended")
    [ended] = found["ranks"]
    fields = [ended[name] for name in ("exit_code", "error", "is_terminated")]
    assert fields == [130, "ended from the debugger", True]


@pytest.mark.document(
    257,
    says="Watch points are for a training that runs",
    how="adding one to a training that has ended is refused with a line and exit code 2",
)
def test_watchpoints_of_a_training_that_has_ended_are_refused(server: Server) -> None:
    path = "/runs/mine/watchpoints"
    with RankConversation(server) as rank:
        server.post(path, OVERFLOW)
        rank.send(Goodbye(0, ""))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "ended")
        for method, where, body in (
            ("POST", path, OVERFLOW),
            ("PUT", f"{path}/1", OVERFLOW),
            ("PUT", f"{path}/file", {"watchpoints": [OVERFLOW], "version": 1}),
            ("POST", f"{path}/recommended", None),
            ("POST", "/runs/mine/keep", {"ops": ["relu"]}),
        ):
            status, problem = server.ask(method, where, body)
            assert (status, problem["slug"]) == (409, "run-ended"), where
        assert len(server.get(path)["watchpoints"]) == 1


def test_watchpoints_may_be_set_while_a_training_is_not_connected(server: Server) -> None:
    with RankConversation(server):
        pass
    server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "lost")
    server.post("/runs/mine/watchpoints", OVERFLOW)


@pytest.mark.document(
    228,
    says="`Client IP`: address and port of the training script process",
    how="in the *Run* panel and at the top of the page, and in `sonde ctl status`",
)
def test_the_address_of_a_rank_is_that_of_its_connection(server: Server) -> None:
    with RankConversation(server) as rank:
        host, port = rank.raw.getsockname()
        [found] = server.get("/runs/mine")["ranks"]
        assert found["address"] == f"{host}:{port}"


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

        # The graph of step 3 is not known: its ops were not observed. Step 5 has not ended.
        assert steps("graph=0") == [0, 2, 2, 3]
        assert steps("graph=1&rank=0") == [1, 3, 4, 5]
        status, problem = server.ask("GET", "/runs/mine/hits?graph=7")
        assert (status, problem["slug"]) == (404, "no-such-graph")


@pytest.mark.document(251)
def test_check_now_evaluates_watchpoints_on_the_values_of_all_ranks(server: Server) -> None:
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


@pytest.mark.document(251)
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


@pytest.mark.document(
    251,
    says="setting conditional breakpoints one by one",
    how="`recommended` makes those that fit the network, `save` and `load` keep them; `sonde ctl "
    "watch recommended`",
)
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
            assert {e["path"]: e["hits"] for e in entries}["Default/"] == count
            nodes = server.get(f"/runs/run-1/graph/level?{where}")["nodes"]
            default = next(node for node in nodes if node["path"] == "Default/")
            assert (default["hits"], default["has_origin"]) == (count, bool(count))
            assert server.get(f"/runs/run-1/nodes?{where}&hits=true")["total"] == count
            op = server.get(f"/runs/run-1/op?{where}&name={quote(LOG)}")
            assert op["hits"] == count // 2


def test_a_check_of_a_training_that_runs_is_waited_for_as_long_as_was_said(server: Server) -> None:
    with RankConversation(server) as rank:
        rank.send(Status("running", 5, None, None, None, None, "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "running")
        server.post("/runs/mine/watchpoints", OVERFLOW)
        assert isinstance(rank.receive(), SetWatchpoints)
        found = server.post("/runs/mine/recheck?wait_seconds=0.05", {})["recheck"]
        assert (found["running"], found["done"], found["hits"]) == (True, 0, 0)
        ask = rank.receive()
        assert isinstance(ask, Ask)
        answer = msgspec.msgpack.encode(Checked(5, 7, 2, 0, (), ()))
        rank.send(Answer(ask.request, answer))
        run = server.wait_for("/runs/mine", lambda run: not run["recheck"]["running"])
        assert (run["recheck"]["done"], run["recheck"]["hits"]) == (7, 2)
        server.post("/runs/mine/recheck?wait_seconds=0.05", {})
    server.wait_for("/runs/mine", lambda run: run["recheck"] is None)
