"""Which tensors a watchpoint applies to, and when it is evaluated."""

from __future__ import annotations

import pytest
from tests.debugger.hub import watchpoint

from sonde.core.graph import OpNode
from sonde.core.operators.patterns import OpPattern
from sonde.watch.categories import ACTIVATION, GRADIENT, TENSOR, WEIGHT, categories_of
from sonde.watch.watchpoint import Level, Watch, WatchedNode, make_watches
from sonde.wire.shapes import ConditionSpec, WatchpointSpec

HELD = {"fc1.weight", "fc1.weight.grad"}
ALL_OPS = ["D/relu-op0", "D/net/relu-op0", "D/net/b/relu-op0", "D/net/b/relu-op1", "fc1.weight"]


def only(spec: WatchpointSpec) -> Watch:
    (watch,) = make_watches([spec], 0, HELD)
    return watch


@pytest.mark.parametrize(
    ("condition", "parameters", "ops", "level"),
    [
        ("weight_initialization", {}, (), "initial"),
        ("weight_overflow", {}, (), "step"),
        ("gradient_exploding", {}, (), "step"),
        ("weight_not_changed", {}, (), "step"),
        ("tensor_overflow", {}, (), "overflow"),
        ("operator_overflow", {}, (), "overflow"),
        ("tensor_too_large", {"max_gt": 1.0}, (), "op"),
        ("tensor_too_large", {"max_gt": 1.0}, ("fc1.weight",), "step"),
        ("tensor_overflow", {}, ("fc1.weight.grad",), "step"),
        ("tensor_overflow", {}, ("fc1.weight", "relu"), "overflow"),
        ("activation_range", {"max_min_gt": 1.0}, (), "op"),
        ("tensor_overflow", {}, ("fc1.weight", "!relu"), "step"),
        ("tensor_overflow", {}, ("!fc1.weight",), "overflow"),
    ],
)
def test_it_is_evaluated_where_that_costs_least(
    condition: str, parameters: dict[str, float], ops: tuple[str, ...], level: Level
) -> None:
    assert only(watchpoint(1, condition, *ops, **parameters)).level == level


def test_any_splits_conditions_and_all_keeps_them_together() -> None:
    conditions = (
        ConditionSpec("tensor_overflow"),
        ConditionSpec("tensor_too_large", {"max_gt": 3.0}),
    )
    either = make_watches([WatchpointSpec(1, "", conditions)], 0, HELD)
    both = make_watches([WatchpointSpec(1, "", conditions, join="all")], 0, HELD)
    assert [watch.level for watch in either] == ["overflow", "op"]
    assert [watch.label for watch in both] == ["tensor_overflow and tensor_too_large"]
    assert [watch.level for watch in both] == ["op"]


def test_a_condition_on_weights_joined_with_any_other_is_one_on_weights() -> None:
    conditions = (
        ConditionSpec("weight_not_changed"),
        ConditionSpec("tensor_too_large", {"abs_mean_gt": 3.0}),
    )
    (watch,) = make_watches([WatchpointSpec(1, "", conditions, join="all")], 0, HELD)
    assert watch.level == "step"
    assert watch.applies_to(WatchedNode("fc1.weight", "Parameter", "Default/net", WEIGHT, True))
    assert not watch.applies_to(WatchedNode("fc1.mask", "Parameter", "Default/net", TENSOR, True))


def test_only_enabled_ones_of_this_rank_count() -> None:
    specs = [
        WatchpointSpec(1, "", (ConditionSpec("tensor_overflow"),), enabled=False),
        WatchpointSpec(2, "", (ConditionSpec("tensor_overflow"),), ranks=(1,)),
        WatchpointSpec(3, "", (ConditionSpec("tensor_overflow"),), ranks=(0, 1)),
    ]
    assert [watch.spec.id for watch in make_watches(specs, 0, HELD)] == [3]


@pytest.mark.parametrize(
    ("pattern", "name", "scope", "is_leaf", "is_meant"),
    [
        ("Default/net/", "Default/net/fc/relu-op0", "Default/net/fc", False, True),
        ("Default/net/", "Default/network/relu-op0", "Default/network", False, False),
        ("Default/net/", "fc.weight", "Default/net/fc", True, True),
        ("fc.weight", "fc.weight", "Default/net/fc", True, True),
        ("fc.weight", "exp_avg.fc.weight", "Default/optimizer-Adam", True, False),
        ("fc.weight", "fc.weight.grad", "Default/net/fc", True, False),
        ("weight", "fc.weight", "Default/net/fc", True, True),
        ("relu", "Default/net/relu-op0", "Default/net", False, True),
        ("name-regex(.*fc1.*)", "Default/fc1/relu-op0", "Default/fc1", False, True),
    ],
)
def test_patterns(pattern: str, name: str, scope: str, is_leaf: bool, is_meant: bool) -> None:
    kind = "Parameter" if is_leaf else "relu"
    assert OpPattern.parse(pattern).matches(name, kind, scope, is_leaf) is is_meant


@pytest.mark.parametrize(
    ("patterns", "meant"),
    [
        (("D/net/", "!D/net/b/"), ["D/net/relu-op0", "fc1.weight"]),
        (("D/net/", "!fc1.weight"), ["D/net/relu-op0", "D/net/b/relu-op0", "D/net/b/relu-op1"]),
        (
            ("D/net/", "! D/net/b/", "D/net/b/relu-op1"),
            ["D/net/relu-op0", "D/net/b/relu-op1", "fc1.weight"],
        ),
        (("!D/net/",), ["D/relu-op0"]),
        (("relu", "!name-regex(.*-op0)"), ["D/net/b/relu-op1"]),
        (("!D/net/b/relu-op1", "D/net/"), ALL_OPS),
    ],
)
def test_what_is_left_out_is_decided_by_the_last_pattern_that_names_it(
    patterns: tuple[str, ...], meant: list[str]
) -> None:
    watch = only(watchpoint(1, "tensor_too_large", *patterns, max_gt=1.0))

    def is_meant(name: str) -> bool:
        is_leaf = "/" not in name
        scope = "D/net" if is_leaf else name.rpartition("/")[0]
        kind = "Parameter" if is_leaf else "relu"
        return watch.applies_to(WatchedNode(name, kind, scope, TENSOR, is_leaf))

    assert [name for name in ALL_OPS if is_meant(name)] == meant
    assert not watch.names("fc1.weight")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (OpNode("fc.weight", "Parameter", "", "forward", kind="parameter"), WEIGHT),
        (OpNode("fc.weight.grad", "Gradient", "", "backward", kind="parameter"), GRADIENT),
        (OpNode("bn.running_mean", "Parameter", "", "forward", kind="parameter"), TENSOR),
        (OpNode("D/relu_-op0", "relu_", "D", "forward"), ACTIVATION),
        (OpNode("D/_log_softmax-op0", "_log_softmax", "D", "forward"), ACTIVATION),
        (OpNode("D/act-GELU/mul-op0", "mul", "D/act-GELU", "forward"), ACTIVATION),
        (OpNode("D/act-Tanh/detach-op0", "detach", "D/act-Tanh", "forward"), TENSOR),
        (OpNode("G/relu-op0", "threshold_backward", "G", "backward"), TENSOR),
        (OpNode("D/addmm-op0", "addmm", "D/fc-Linear", "forward"), TENSOR),
    ],
)
def test_categories(node: OpNode, expected: tuple[str, ...]) -> None:
    assert categories_of(node, {"fc.weight"}, {"fc.weight.grad"}) == expected
