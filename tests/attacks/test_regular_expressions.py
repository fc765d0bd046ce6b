"""A regular expression that would take hours in Python's own engine."""

import pytest
from tests.server.rank_conversation import RankConversation
from tests.server.serving_in_thread import Server

from sonde.core.errors import SondeError
from sonde.core.operators.patterns import OpPattern
from sonde.summary.options import collected
from sonde.testing.sample_graph import sample_graph
from sonde.wire.rank import GraphPart

HOSTILE = [
    r"([a-zA-Z/0-9_.-]+)+!",
    "(a|a)*b",
    "(.*)*x!",
    "a*a*a*a*a*b",
    "(?:x?){30}x{30}",
    "(.+)+!",
    "(?:[a-z]*[A-Z]*/?)*!",
]
REFUSED = [r"(.)\1", "(?<=a)b", "a(?=b).*", "(?:a{999}){999}"]
NAME = "Default/network-Net/" + "a" * 200 + "/" + "x" * 200 + "-op0"


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_watchpoint_with_a_hostile_expression_does_not_hang_the_server(
    server: Server, pattern: str
) -> None:
    with RankConversation(server, run="r") as rank:
        nodes = tuple(sample_graph(40))
        rank.send(GraphPart(0, "net", 0, nodes, len(nodes)))
        server.wait_for("/runs/r", lambda run: bool(run["ranks"][0]["graphs"]))
        draft = {
            "name": "hostile",
            "conditions": [{"id": "tensor_overflow", "parameters": {}}],
            "ops": [f"name-regex({pattern})"],
        }
        answer = server.post("/runs/r/watchpoints", draft)
        assert "matches" in answer["warning"] or not answer["warning"]
        assert server.get("/runs/r")["id"] == "r"


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_hostile_expression_does_not_hang_a_training(pattern: str) -> None:
    assert not OpPattern.parse(f"name-regex({pattern})").matches(NAME, "x")
    chosen = collected({"histogram_regular": pattern}, keep_default_action=True)
    chosen.wants_parameter(NAME, 0)


@pytest.mark.parametrize("pattern", REFUSED)
def test_an_expression_without_a_bound_is_refused_with_one_slug(
    server: Server, pattern: str
) -> None:
    with RankConversation(server, run="r"):
        draft = {
            "name": "x",
            "conditions": [{"id": "tensor_overflow", "parameters": {}}],
            "ops": [f"name-regex({pattern})"],
        }
        status, found = server.ask("POST", "/runs/r/watchpoints", draft)
        assert (status, found["slug"]) == (400, "regex")
        assert server.get("/runs/r/watchpoints")["watchpoints"] == []
    with pytest.raises(SondeError) as refusal:
        OpPattern.parse(f"name-regex({pattern})")
    assert refusal.value.slug == "regex"
    with pytest.raises(SondeError) as refusal:
        collected({"histogram_regular": pattern}, keep_default_action=True)
    assert refusal.value.slug == "regex"


def test_many_expressions_in_one_watchpoint_are_refused(server: Server) -> None:
    with RankConversation(server, run="r"):
        draft = {
            "name": "x",
            "conditions": [{"id": "tensor_overflow", "parameters": {}}],
            "ops": ["name-regex(a{1000})"] * 101,
        }
        status, found = server.ask("POST", "/runs/r/watchpoints", draft)
        assert (status, found["slug"]) == (400, "watchpoint")
