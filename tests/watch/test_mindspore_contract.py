"""Dumps by MindSpore: hits and origins against values that numpy reads from the files alone."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.watch.condition_cases import CONDITIONS

from sonde.cli.main import main
from sonde.core.graph import OpNode
from sonde.core.keys import Io
from sonde.dump.reader import Dump
from sonde.server.dumps.check import check_dump
from sonde.watch.origins import OriginTracker, Traced
from sonde.wire.shapes import ConditionSpec, Hit
from sonde.wire.watchpoints import WatchpointDraft

Array = NDArray[np.float64]
DUMPS = Path(__file__).parents[1] / "dump" / "data"
NAN_LOG = DUMPS / "nan_log" / "dump"
STEPS = "rank_0/GateNet/0"
NETWORK = "Default/network-WithLossCell/_backbone-GateNet"
BACKWARD = f"Gradients/{NETWORK}/fc2-Dense"
LOG = f"{NETWORK}/Log-op0"
WEIGHTS = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}
GRADIENTS = {
    f"{BACKWARD}/{name}"
    for name in (
        *("Grad_MatMul/MatMul-op1", "Grad_MatMul/MatMul-op2"),
        *("Grad_BiasAdd/BiasAddGrad-op0", "Grad_BiasAdd/BiasAddGrad-op1"),
    )
}
"""What the four SGD ops of the graph read as gradients."""
ACTIVATION = f"{NETWORK}/relu-ReLU/ReLU-op0"


@dataclass(frozen=True)
class File:
    """A tensor, found by its file's name alone. ``op`` has underscores for slashes and dots."""

    op: str
    io: str
    slot: int
    time: int
    array: NDArray[Any]


def files(step: Path) -> list[File]:
    """In the order in which they were written."""
    found = []
    for path in step.glob("*.npy"):
        _, op, _, _, time, io, slot, *_ = path.name.split(".")
        found.append(File(op, io, int(slot), int(time), np.load(path)))
    return sorted(found, key=lambda each: each.time)


def flat(name: str) -> str:
    return name.replace("/", "_").replace(".", "_")


def is_finite(array: NDArray[Any]) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def check(path: Path, id: str, expression: str = "", **parameters: float) -> list[Hit]:
    spec = ConditionSpec(id, parameters, expression)
    return list(check_dump(path, [WatchpointDraft("", (spec,))]).in_order())


@pytest.mark.document(175)
def test_view_check_names_the_op_that_made_the_first_nan(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = next(each for each in files(NAN_LOG / STEPS / "2") if not is_finite(each.array))
    assert (first.op, first.io, int(np.isnan(first.array).sum())) == (flat(LOG), "output", 1)
    assert main(["view", "--check", str(NAN_LOG)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Log made 1 NaN of 4 values in step 2, forward, at make.py:24")
    makers = [line for line in said if line.endswith("<- makes it")]
    assert makers == [f"step 2 rank 0  tensor_overflow  {LOG} output.0  <- makes it"]


@pytest.mark.parametrize("name", ["lenet_full", "mlp_filter"])
def test_view_check_finds_nothing_where_all_values_are_finite(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = {path.parent for path in (DUMPS / name).rglob("*.npy")}
    assert all(is_finite(each.array) for step in steps for each in files(step))
    assert main(["view", "--check", str(DUMPS / name / "dump")]) == 0
    assert capsys.readouterr().out == "no hits\n"


def test_every_output_with_nan_is_a_hit_and_comes_from_the_logarithm() -> None:
    truth = {
        (each.op, each.slot): int(np.isnan(each.array).sum())
        for each in files(NAN_LOG / STEPS / "2")
        if each.io == "output" and not is_finite(each.array)
    }
    assert len(truth) == 21
    hits = check(NAN_LOG, "tensor_overflow")
    assert {(flat(hit.op), hit.slot): hit.values[0].actual for hit in hits} == truth
    assert {(hit.verdict, hit.step, hit.origin) for hit in hits} == {("hit", 2, LOG)}
    assert [hit.op for hit in hits if hit.part == "producer"] == [LOG]
    assert [hit.op for hit in check(NAN_LOG, "operator_overflow")] == [LOG]
    assert {hit.op for hit in check(NAN_LOG, "weight_overflow")} == WEIGHTS
    assert {hit.op for hit in check(NAN_LOG, "gradient_exploding")} == GRADIENTS


# ------------------------------------------------------------- the tracker itself


@dataclass
class Tensor:
    """See ``core.observation.ObservedTensor``."""

    io: Io
    slot: int
    array: NDArray[Any]
    is_filled: bool = True
    values_token: object = None
    memory: object = None

    def non_finite(self) -> int:
        return 0 if self.array.dtype.kind != "f" else int((~np.isfinite(self.array)).sum())

    def has_nan(self) -> bool:
        return self.array.dtype.kind == "f" and bool(np.isnan(self.array).any())


@dataclass
class Op:
    """See ``core.observation.Observation``."""

    node: OpNode
    order: int
    inputs: list[Tensor]
    outputs: list[Tensor]
    step: int = 2

    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        return self.node.attributes


def through_depend(node: OpNode, nodes: dict[str, OpNode]) -> OpNode:
    """``node`` as a reader of what ``Depend`` passes on, which MindSpore does not dump."""
    inputs = []
    for edge in node.inputs:
        while edge.producer is not None and nodes[flat(edge.producer)].type == "Depend":
            edge = nodes[flat(edge.producer)].inputs[0]
        inputs.append(edge)
    return dataclasses.replace(node, inputs=tuple(inputs))


def test_the_tracker_finds_the_same_origins_in_the_files() -> None:
    stored = files(NAN_LOG / STEPS / "2")
    nodes = {flat(node.name): node for node in Dump(NAN_LOG).graphs()[0].nodes}
    tracker = OriginTracker()
    tracker.begin_step()
    found: dict[str, Traced] = {}
    for order, name in enumerate(dict.fromkeys(each.op for each in stored)):
        node = through_depend(nodes[name], nodes)
        if node.kind != "op":  # The parameters as they were after the step.
            continue
        own = [each for each in stored if each.op == name]
        views: dict[str, list[Tensor]] = {"input": [], "output": []}
        for each in own:
            # MindSpore dumps what an in-place op reads after it ran, too: not what it was before.
            if not (node.type == "SGD" and each.io == "input" and each.slot != 1):
                views[each.io].append(Tensor("input", each.slot, each.array))
        traced = tracker.look(Op(node, order, views["input"], views["output"]))
        if traced is not None:
            found[node.name] = traced
    tracker.end_step(nodes.values())
    hits = {hit.op: hit for hit in check(NAN_LOG, "tensor_overflow")}
    assert found.keys() == hits.keys() - WEIGHTS
    for op, traced in found.items():
        assert ("producer" if traced.is_producer else "carrier") == hits[op].part
        assert (traced.origin.op, traced.origin.is_fault) == (hits[op].origin, True)


# ----------------------------------------------------------------- every condition


@pytest.fixture(scope="module")
def three_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With some tensors of steps 0 and 1. MindSpore dumps weights as they are after the step."""
    path = tmp_path_factory.mktemp("mindspore") / "dump"
    shutil.copytree(NAN_LOG, path)
    shutil.copytree(
        Path(__file__).parent / "data" / "nan_log_earlier", path / STEPS, dirs_exist_ok=True
    )
    return path


def moved(x: Array, p: Array) -> float:
    return float(np.abs(x - p).mean() / (np.abs(p).mean() + 1e-9))


def within(x: Array) -> float:
    return float(100 * np.mean((x >= 0.0) & (x <= 0.5)))


RANGE = {"range_start_inclusive": 0.0, "range_end_inclusive": 0.5}
Question = Callable[[Array], bool] | Callable[[Array, Array], bool]
QUESTIONS: dict[str, tuple[dict[str, float], Question]] = {
    "tensor_too_large": ({"max_gt": 0.5}, lambda x: x.max() > 0.5),
    "weight_too_large": ({"abs_mean_gt": 0.25}, lambda x: np.abs(x).mean() > 0.25),
    "gradient_too_large": ({"mean_gt": 0.001}, lambda x: x.mean() > 0.001),
    "tensor_too_small": ({"min_lt": -0.5}, lambda x: x.min() < -0.5),
    "weight_too_small": ({"mean_lt": 0.0}, lambda x: x.mean() < 0),
    "gradient_vanishing": ({"abs_mean_lt": 0.1}, lambda x: np.abs(x).mean() < 0.1),
    "tensor_all_zero": ({"zero_percentage_ge": 40.0}, lambda x: np.mean(x == 0) >= 0.4),
    "tensor_deviation": ({"sd_gt": 0.4}, lambda x: x.size > 1 and np.std(x, ddof=1) > 0.4),
    "activation_range": ({**RANGE, "range_percentage_gt": 80.0}, lambda x: within(x) > 80),
    "tensor_range": ({**RANGE, "range_percentage_lt": 50.0}, lambda x: within(x) < 50),
    "weight_not_changed": (
        {"rtol": 0.0, "atol": 0.03},
        lambda x, p: bool((np.abs(x - p) <= 0.03).all()),
    ),
    "weight_change_too_large": (
        {"abs_mean_update_ratio_gt": 0.03},
        lambda x, p: moved(x, p) > 0.03,
    ),
    "weight_change_too_small": (
        {"abs_mean_update_ratio_lt": 0.03},
        lambda x, p: moved(x, p) < 0.03,
    ),
    "expression": ({}, lambda x: np.linalg.norm(x.ravel()) > 1 and x.min() < 0),
}
NON_FINITE = {"tensor_overflow", "operator_overflow", "weight_overflow", "gradient_exploding"}
"""Those of which the tests above are."""
INITIAL = {"weight_initialization"}
CHANGES = {"weight_not_changed", "weight_change_too_large", "weight_change_too_small"}


def test_every_condition_has_a_test() -> None:
    assert {*QUESTIONS} | NON_FINITE | INITIAL == {*CONDITIONS}


def outputs(path: Path, id: str) -> dict[tuple[int, str], Array]:
    """The finite tensors that a condition is about."""
    target = id.partition("_")[0]
    about = {"weight": WEIGHTS, "gradient": GRADIENTS, "activation": {ACTIVATION}}.get(target)
    names = None if about is None else {flat(each) for each in about}
    return {
        (step, each.op): each.array.astype(np.float64)
        for step in range(3)
        for each in files(path / STEPS / str(step))
        if each.io == "output" and (names is None or each.op in names) and is_finite(each.array)
    }


@pytest.mark.parametrize("id", QUESTIONS)
def test_condition(id: str, three_steps: Path) -> None:
    parameters, is_so = QUESTIONS[id]
    tensors = outputs(three_steps, id)
    if id in CHANGES:
        pairs = {
            (step, op): (x, tensors[step - 1, op]) for (step, op), x in tensors.items() if step
        }
        expected = {place for place, pair in pairs.items() if is_so(*pair)}
        others = pairs.keys() - expected
    else:
        expected = {place for place, x in tensors.items() if is_so(x)}  # type: ignore[call-arg]
        others = tensors.keys() - expected
    assert expected
    assert others
    text = "l2norm > 1 and min < 0" if id == "expression" else ""
    hits = check(three_steps, id, text, **parameters)
    assert {(hit.step, flat(hit.op)) for hit in hits if hit.verdict == "hit"} == expected


def test_initial_weights_are_not_in_a_dump_by_mindspore(three_steps: Path) -> None:
    """It has the weights as they were after the first step."""
    for bound in (-100.0, 100.0):
        (hit,) = check(three_steps, "weight_initialization", max_gt=bound)
        assert (hit.verdict, hit.step, hit.count) == ("undecided", 0, len(WEIGHTS))
        assert "after the first step" in hit.why
