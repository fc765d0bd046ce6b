"""The requests of sinks, and suggestions for names that match no op."""

from __future__ import annotations

from sonde.capture.requests import SelectionRequest, ToggledRequest, nearest_names
from sonde.core.graph import Graph, Kind, OpNode
from sonde.core.selection import ALL_STEPS, OpPattern, Selection, parse_steps


def op(name: str, kind: Kind = "op", op_type: str | None = None) -> OpNode:
    made = op_type or name.rsplit("/", 1)[-1].partition("-op")[0]
    return OpNode(name=name, type=made, scope="Default", phase="forward", kind=kind)


CONV = op("Default/network-Net/conv1-Conv2d/convolution-op0")
ADD = op("Default/add-op3")
WEIGHT = op("conv1.weight", "parameter", "Parameter")


def test_without_patterns_everything_is_wanted() -> None:
    request = SelectionRequest(Selection(parse_steps("3-5")))
    assert request.wants_op(CONV)
    assert request.wants_op(WEIGHT)
    assert 4 in request.steps
    assert request.unmatched() == ()


def test_patterns_that_never_matched_are_known_at_the_end() -> None:
    texts = ("CONV", "Default/add-op3", "Default/add-op4", "name-regex(x.*)")
    request = SelectionRequest(Selection(ops=tuple(map(OpPattern.parse, texts))))
    assert request.wants_op(CONV)
    assert request.wants_op(ADD)
    assert request.wants_op(WEIGHT)  # a word is also a part of a leaf's name
    assert not request.wants_op(op("Default/mul-op0"))
    assert [pattern.text for pattern in request.unmatched()] == [
        "Default/add-op4",
        "name-regex(x.*)",
    ]


def test_the_last_rule_that_covers_an_op_decides() -> None:
    request = ToggledRequest(ALL_STEPS)
    assert not request.wants_op(CONV)
    request.rules.append((lambda node: True, True))
    request.rules.append((lambda node: node.type == "add", False))
    assert request.wants_op(CONV)
    assert not request.wants_op(ADD)
    request.rules.append((lambda node: node is ADD, True))
    assert request.wants_op(ADD)


def test_near_names_come_from_names_or_types_as_the_pattern_does() -> None:
    graph = Graph(0, "Net", (CONV, ADD, WEIGHT))
    assert nearest_names(OpPattern.parse("convolutoin"), [graph]) == ["convolution"]
    assert nearest_names(OpPattern.parse("Default/add-op4"), [graph])[0] == "Default/add-op3"
    assert nearest_names(OpPattern.parse("name-regex(Default/ad-op3)"), [graph]) == [
        "Default/add-op3"
    ]
    assert nearest_names(OpPattern.parse("zzzzzz"), [graph]) == []
    assert nearest_names(OpPattern.parse("add"), []) == []
