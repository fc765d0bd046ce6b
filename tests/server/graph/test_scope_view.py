"""A selected scope, the values that colour boxes, and the names of graphs that differ."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.profile.made import profile
from tests.server.graph.test_levels import ROWS, graph, op
from tests.server.graph.test_summary import LOOP, at, numbered, training_step

from sonde.core.errors import UsageError
from sonde.core.graph import Source
from sonde.profile.document import OpItem
from sonde.server.graph.differences import difference, step_ranges
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.level_values import OpValues, level_values, statistic_value
from sonde.server.graph.op_times import op_times
from sonde.server.graph.scope_view import scope_view
from sonde.wire.convert import known_numbers
from sonde.wire.shapes import Node, SourceLine

NET = "Default/network-Net/"


def test_a_module_has_its_class_parameters_shapes_and_hits() -> None:
    summary = numbered(training_step()).summary
    found = scope_view(summary, NET, {f"{NET}tanh-op0": 2, "Default/mul-op0": 5})
    assert (found.cls, found.label, found.phase, found.part) == (
        "Net",
        "network-Net",
        "forward",
        "network",
    )
    assert found.ops == 2
    assert found.hits == 2
    assert [(each.name, each.elements) for each in found.parameters] == [("fc.weight", 32 * 64)]
    assert found.elements == 32 * 64
    assert [(each.producer, each.type) for each in found.inputs] == [("Default/randn-op0", ROWS)]
    assert [each.producer for each in found.outputs] == [f"{NET}tanh-op0"]
    with pytest.raises(UsageError, match="no scope"):
        scope_view(summary, "Default/nothing/", {})


def test_a_function_of_the_step_has_its_ops_and_the_line_that_called_it() -> None:
    found = scope_view(numbered(training_step()).summary, "Default/cross_entropy/", {})
    assert found.is_function
    assert found.part == "loss"
    assert found.op_names == ("Default/_log_softmax-op0", "Default/nll_loss_forward-op0")
    assert found.called is not None
    assert found.called.line == 3


def test_the_class_of_a_module_is_found_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    lines = [
        "class Attention(nn.Module):",
        "    def forward(self, x):",
        "        return torch.tanh(x)",
        "",
        "y = Attention()(values)",
    ]
    file.write_text("\n".join(lines))
    stack = (
        SourceLine(str(file), 3, "forward", lines[2].strip()),
        SourceLine(str(file), 5, "<module>", lines[4]),
    )
    inner = msgspec.structs.replace(op(f"{NET}attn-Attention/tanh-op0"), sources=stack)
    library = msgspec.structs.replace(op(f"{NET}fc-Linear/mm-op0"), sources=stack)
    index = graph(inner, library)
    own = scope_view(index, f"{NET}attn-Attention/", {})
    assert own.defined is not None
    assert (own.defined.line, own.defined.code) == (1, lines[0])
    assert own.called is not None
    assert own.called.line == 5
    foreign = scope_view(index, f"{NET}fc-Linear/", {})
    assert foreign.defined is None
    assert foreign.called is not None
    assert foreign.called.line == 3


def test_a_scope_has_the_largest_value_of_the_ops_inside_it() -> None:
    summary = numbered(training_step()).summary
    by_op = {
        f"{NET}fc-Linear/addmm-op0": 2.0,
        f"{NET}tanh-op0": 7.0,
        "Default/mul-op0": float("inf"),
        "no such op": 9.0,
    }
    found = level_values(summary, "", "", OpValues("l2norm", 3, by_op))
    assert {box.path: box.value for box in found.boxes} == {
        NET: 7.0,
        "Default/clip_grad_norm_/": "inf",
    }
    assert (found.least, found.most, found.known) == (2.0, 7.0, 3)
    inner = level_values(summary, NET, "", OpValues("l2norm", 3, by_op))
    assert {box.path: box.value for box in inner.boxes} == {
        f"{NET}fc-Linear/": 2.0,
        f"{NET}tanh-op0": 7.0,
    }
    nothing = level_values(summary, "", "", OpValues("l2norm", None, {}))
    assert (nothing.boxes, nothing.known) == ((), 0)


def test_memory_that_no_op_has_filled_gives_no_colour() -> None:
    made = f"{NET}dropout-Dropout/empty_like-op0"
    seen = f"{NET}dropout-Dropout/view-op0"
    drawn = f"{NET}dropout-Dropout/bernoulli_-op0"
    index = graph(op(made), op(seen, made), op(drawn, made))
    by_op = {made: float("nan"), seen: 6.8e25, drawn: 30.0}
    found = level_values(index, NET, "", OpValues("l2norm", 3, by_op))
    assert {box.path: box.value for box in found.boxes} == {f"{NET}dropout-Dropout/": 30.0}
    assert (found.most, found.known) == (30.0, 1)


def test_a_scope_has_the_sum_of_the_times_inside_it() -> None:
    index = numbered(training_step())
    row = OpItem("mul", "Default", "forward", None, "", 1.0, 0.25, 0.0, None, None, None)
    loss = Source(LOOP, 3, "<module>", "loss = F.cross_entropy(net(x), y)")
    clip = Source(LOOP, 5, "<module>", "nn.utils.clip_grad_norm_(net.parameters(), 1.0)")
    replace = msgspec.structs.replace
    rows = (
        replace(row, place=clip),
        replace(row, op="_foreach_norm", place=clip, seconds=0.5),
        replace(row, op="_log_softmax", place=loss, seconds=2.0, shapes="f32[8,4]"),
        replace(row, op="_log_softmax", place=loss, seconds=1.0, shapes="f32[9,4]"),
        replace(row, op="tanh_backward", module="Default/network-Net", phase="backward"),
        replace(row, op="tanh", module="Default/other-Net", seconds=7.0),
    )
    times = op_times(index, replace(profile(), ops=rows))
    found = level_values(index.summary, "", "", times)
    assert {box.path: box.value for box in found.boxes} == {
        "Default/clip_grad_norm_/": 0.75,
        "Default/cross_entropy/": 3.0,
        "Gradients/": 0.25,
    }
    # The scale ends with the whole step.
    assert (found.least, found.most, found.known) == (0.25, 4.0, 4)
    with pytest.raises(UsageError, match="no profile was given"):
        op_times(index, None)


def test_one_statistic_of_several_outputs_is_the_worst() -> None:
    one = known_numbers({"max": 3.0, "min": -9.0, "l2norm": 4.0, "zero_count": 5, "count": 10})
    other = known_numbers({"max": float("nan"), "min": 1.0, "nan_count": 2, "count": 10})
    assert statistic_value("max", [one]) == 9.0
    assert statistic_value("max", [one, other]) == float("inf")
    assert statistic_value("l2norm", [one, other]) == 4.0
    assert statistic_value("zeros", [one]) == 0.5
    assert statistic_value("zeros", [other]) is None
    assert statistic_value("non-finite", [one, other]) == 2.0
    assert statistic_value("l2norm", []) is None


def test_the_minus_infinity_of_a_mask_is_not_the_largest_value() -> None:
    infinite = float("inf")
    row = {"max": 0.5, "min": -infinite, "finite_max": 0.5, "finite_min": -3.0}
    masked = known_numbers({**row, "l2norm": infinite, "negative_inf_count": 6, "count": 16})
    assert statistic_value("max", [masked]) == 3.0
    assert statistic_value("l2norm", [masked]) is None
    assert statistic_value("non-finite", [masked]) == 6.0
    for count in ("nan_count", "positive_inf_count"):
        worst = {"max": infinite, "l2norm": infinite, "negative_inf_count": 1, count: 1}
        broken = known_numbers({**row, **worst, "count": 16})
        assert statistic_value("max", [masked, broken]) == infinite
        assert statistic_value("l2norm", [masked, broken]) == infinite


def _named(index: GraphIndex) -> tuple[tuple[Node, ...], dict[str, int]]:
    return index.nodes, index.numbers


def test_graphs_are_named_by_what_differs() -> None:
    usual = graph(op("Default/net/a-op0"), op("Default/optimizer-AdamW/mul-op0"))
    first = graph(*usual.nodes, op("Default/optimizer-AdamW/zeros_like-op0"))
    assert difference(_named(first), _named(usual)) == "first step of AdamW"
    item = at(op("Default/_local_scalar_dense-op0"), (4, "<module>", "print(step, loss.item())"))
    assert difference(_named(graph(*usual.nodes, item)), _named(usual)) == "+ loss.item()"
    fewer = graph(usual.nodes[1])
    assert difference(_named(fewer), _named(usual)) == "\N{MINUS SIGN} 1 op in net"
    gate = [op(f"Default/net/gate-Gate/{kind}-op0") for kind in ("mul", "sqrt")]
    assert difference(_named(graph(*usual.nodes, *gate)), _named(usual)) == "+ 2 ops in gate-Gate"
    assert difference(_named(usual), _named(usual)) == ""
    # The first batch is made before a debugger is attached.
    made = graph(op("Default/randn-op0"), *usual.nodes)
    assert difference(_named(first), _named(made)) == "first step of AdamW"
    later = (op("Default/randn-op0"), op("Default/randn-op1"))
    assert difference(
        _named(graph(*first.nodes, later[0])), _named(graph(*made.nodes, later[1]))
    ) == ("first step of AdamW")
    assert difference(_named(usual), _named(made)) == "\N{MINUS SIGN} 1 op in Forward"


def test_consecutive_steps_are_one_range() -> None:
    assert step_ranges([0, 1, 2, 5, 7, 8]) == ((0, 2), (5, 5), (7, 8))
    assert step_ranges([]) == ()
