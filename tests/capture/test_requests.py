"""The requests of sinks, and suggestions for names that match no op."""

from __future__ import annotations

from functools import partial

from sonde.capture.requests import SelectionRequest, Switch, ToggledRequest, UnmatchedPatterns
from sonde.core.graph import Graph, Kind, OpNode
from sonde.core.operators.patterns import OpPattern
from sonde.core.selection import ALL_STEPS, Selection, parse_steps
from sonde.core.sink import StepEnd


def op(name: str, kind: Kind = "op", op_type: str | None = None) -> OpNode:
    made = op_type or name.rsplit("/", 1)[-1].partition("-op")[0]
    return OpNode(
        name=name, type=made, scope=name.rpartition("/")[0] or "Default", phase="forward", kind=kind
    )


CONV = op("Default/network-Net/conv1-Conv2d/convolution-op0")
ADD = op("Default/add-op3")
WEIGHT = op("conv1.weight", "parameter", "Parameter")


def test_without_patterns_everything_is_wanted() -> None:
    request = SelectionRequest(Selection(parse_steps("3-5")))
    assert request.wants_op(CONV)
    assert request.wants_op(WEIGHT)
    assert 4 in request.steps
    assert not request.unmatched()


def test_patterns_that_never_matched_are_known() -> None:
    texts = ("CONV", "Default/add-op3", "Default/add-op4", "name-regex(x.*)")
    request = SelectionRequest(Selection(ops=tuple(map(OpPattern.parse, texts))))
    assert request.wants_op(CONV)
    assert request.wants_op(ADD)
    assert not request.wants_op(op("Default/mul-op0"))
    assert [pattern.text for pattern, _ in request.unmatched()] == [
        "Default/add-op4",
        "name-regex(x.*)",
    ]


def test_the_last_switch_that_covers_an_op_decides() -> None:
    request = ToggledRequest(ALL_STEPS)
    assert not request.wants_op(CONV)

    def switch(text: str, enabled: bool) -> None:
        pattern = OpPattern.parse(text)
        covers = lambda node: pattern.matches(node.name, node.type)  # noqa: E731
        request.add(text, Switch(pattern, covers, enabled))

    switch("name-regex(.*)", True)
    switch("add", False)
    assert request.wants_op(CONV)
    assert not request.wants_op(ADD)
    switch("add-op3", True)
    assert request.wants_op(ADD)


def test_switching_the_same_ops_again_replaces_the_earlier_switch() -> None:
    request = ToggledRequest(ALL_STEPS)
    asked: list[int] = []

    def covers(number: int, node: OpNode) -> bool:
        asked.append(number)
        return node is CONV

    for number in range(100):
        is_on = number % 2 == 0
        request.add("conv", Switch(OpPattern.parse("conv"), partial(covers, number), is_on))
        if number == 0:
            assert request.wants_op(CONV)
    asked.clear()
    assert not request.wants_op(CONV)
    assert asked == [99]
    request.add("add", Switch(OpPattern.parse("add"), lambda node: True, True))
    assert request.wants_op(CONV)  # The later of two different targets decides, ...
    request.add("conv", Switch(OpPattern.parse("conv"), partial(covers, 100), False))
    assert not request.wants_op(CONV)  # ... also if its ops were switched before.
    assert request.wants_op(ADD)


def test_patterns_that_match_nothing_are_reported_once_after_the_first_step() -> None:
    request = SelectionRequest(Selection(ops=tuple(map(OpPattern.parse, ("conv", "Convv2d")))))
    said: list[str] = []
    sink = UnmatchedPatterns(request, said.append)
    request.wants_op(CONV)
    for step in (3, 4):
        sink.begin_step(step)
        sink.end_step(StepEnd(step, Graph(0, "Net", (CONV, ADD, WEIGHT)), True))
    assert said == [
        "sonde: 'Convv2d' matched no op of step 3; did you mean 'Conv2d' or 'Conv2D'? "
        "[op-unmatched]"
    ]


def test_a_switch_of_the_running_step_is_reported_when_that_step_ends() -> None:
    request = ToggledRequest(ALL_STEPS)
    said: list[str] = []
    sink = UnmatchedPatterns(request, said.append)
    sink.begin_step(0)
    for text in ("Convv2d", "add"):  # Both after their ops would have run.
        pattern = OpPattern.parse(text)
        covers = lambda node, pattern=pattern: pattern.matches(node.name, node.type)  # noqa: E731
        request.add(text, Switch(pattern, covers, True))
    for step in (0, 1):
        sink.end_step(StepEnd(step, Graph(0, "Net", (CONV, ADD)), True))
        sink.begin_step(step + 1)
    assert said == [
        "sonde: 'Convv2d' matched no op of step 0; did you mean 'Conv2d' or 'Conv2D'? "
        "[op-unmatched]"
    ]
