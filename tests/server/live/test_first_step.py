"""Commands and watchpoints before the first step has shown which ops there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.server.rank_conversation import OVERFLOW, RankConversation
from tests.server.serving_in_thread import Server

from sonde.testing.fake_rank import RankSocket
from sonde.wire.rank import ControlMessage, GraphPart, Status
from sonde.wire.shapes import GraphBasis, Node, TensorType

NET = "Default/network-Net"
FLOAT = TensorType("float32", (2, 2))


def module(scope: str, kind: str) -> Node:
    return Node(f"{NET}/{scope}/forward", kind, f"{NET}/{scope}", "forward", "op", 0)


NODES = (
    Node(
        "b2.fc.weight",
        "Parameter",
        f"{NET}/b2-Block/fc-Linear",
        "forward",
        "parameter",
        0,
        (),
        (FLOAT,),
    ),
    module("b1-Block/fc-Linear", "Linear"),
    module("b1-Block/act-ReLU", "ReLU"),
    module("b2-Block/fc-Linear", "Linear"),
    module("layers-Sequential/0-Linear", "Linear"),
)


@contextmanager
def waiting(server: Server, basis: GraphBasis = "modules") -> Iterator[RankSocket]:
    """A rank that is paused before its first step."""
    with RankConversation(server) as rank:
        rank.send(GraphPart(0, "net", 0, NODES, None, basis))
        rank.send(Status("paused", 0, 0, None, None, "start", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "paused")
        yield rank


def target(server: Server, rank: RankSocket, text: str) -> str:
    """The name that the rank is told to run to."""
    server.post("/runs/mine/control", {"command": "to", "op": text})
    while not isinstance(found := rank.receive(), ControlMessage):
        pass
    return found.op


@pytest.mark.document(
    227,
    says="`Continue to` a node, also before anything has run",
    how="`sonde ctl to`: scopes and module paths are completed; names that cannot exist are "
    "refused; after a whole step without the op the training is paused",
)
@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("b2-Block/", f"{NET}/b2-Block/"),
        ("b2", f"{NET}/b2-Block/"),
        ("b1.act", f"{NET}/b1-Block/act-ReLU/"),
        ("relu", f"{NET}/b1-Block/act-ReLU/"),
        ("layers.0", f"{NET}/layers-Sequential/0-Linear/"),
        (f"{NET}/b1-Block/fc-Linear/forward", f"{NET}/b1-Block/fc-Linear/"),
        # Which ops a module has is not known yet, nor which networks run later.
        (f"{NET}/b1-Block/relu-op0", f"{NET}/b1-Block/relu-op0"),
        (f"Gradients/{NET}/b1-Block/", f"Gradients/{NET}/b1-Block/"),
        ("Default/loss-MSELoss/", "Default/loss-MSELoss/"),
        ("Default/optimizer-Adam/", "Default/optimizer-Adam/"),
    ],
)
def test_a_target_is_completed_from_the_modules(server: Server, text: str, full: str) -> None:
    with waiting(server) as rank:
        assert target(server, rank, text) == full


@pytest.mark.parametrize(
    ("text", "slug", "words"),
    [
        ("b2-Blok/", "no-such-op", "did you mean 'b2-Block/'"),
        ("layer.0", "no-such-op", "did you mean 'layers.0'"),
        ("softmax", "no-such-op", "run a step first"),
        (f"{NET}/b3-Block/fc-Linear/addmm-op0", "no-such-scope", f"{NET}/ has no module"),
        (f"Gradients/{NET}/b3-Block/", "no-such-scope", f"did you mean '{NET}/b"),
        ("b2.fc.weight", "no-such-op", "is a parameter that ops read"),
        ("fc-Linear/", "no-such-scope", "2 scopes match"),
    ],
)
def test_a_target_that_cannot_exist_is_refused(
    server: Server, text: str, slug: str, words: str
) -> None:
    with waiting(server):
        status, problem = server.ask("POST", "/runs/mine/control", {"command": "to", "op": text})
        assert (status >= 400, problem["slug"]) == (True, slug), problem
        assert words in problem["error"]


def test_without_modules_only_full_names_are_accepted(server: Server) -> None:
    with RankConversation(server) as rank:
        rank.send(Status("paused", 0, None, None, None, "start", "", 0))
        server.wait_for("/runs/mine", lambda run: run["ranks"][0]["state"] == "paused")
        body = {"command": "to", "op": "b2-Block/"}
        assert server.ask("POST", "/runs/mine/control", body)[1]["slug"] == "no-such-op"
        assert target(server, rank, "Default/mul-op3") == "Default/mul-op3"


def test_watchpoints_are_not_refused_for_ops_that_are_not_known_yet(server: Server) -> None:
    with waiting(server):
        path = "/runs/mine/watchpoints"
        found = server.post(f"{path}?must_match=true", {**OVERFLOW, "ops": ["softmax"]})
        assert "not known yet whether 'softmax' matches" in found["warning"]
        known = server.post(f"{path}?must_match=true", {**OVERFLOW, "ops": ["b2.fc.weight"]})
        assert known["warning"] == ""
        everything = server.post(f"{path}/recommended", None)["watchpoints"]
        assert len(everything) > 10


def test_what_has_run_replaces_what_was_expected(server: Server) -> None:
    with waiting(server) as rank:
        [graph] = server.get("/runs/mine")["ranks"][0]["graphs"]
        assert (graph["basis"], graph["whole"], graph["nodes"]) == ("modules", False, 5)
        ran = Node(
            f"{NET}/b1-Block/fc-Linear/addmm-op0",
            "addmm",
            f"{NET}/b1-Block/fc-Linear",
            "forward",
            "op",
            0,
        )
        rank.send(GraphPart(0, "net", 0, (ran,), 1))
        found = server.wait_for("/runs/mine", lambda run: run["ranks"][0]["graphs"][0]["whole"])
        [graph] = found["ranks"][0]["graphs"]
        assert (graph["basis"], graph["nodes"]) == ("run", 1)
