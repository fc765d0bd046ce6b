"""Every condition, judged in a real training, against its formula in numpy float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.debugger.driving import TANH, driven, make_net
from tests.debugger.hub import Hub, watchpoint
from torch import nn

from sonde.wire.shapes import Hit, WatchpointSpec

Array = NDArray[np.float64]
STEPS = 5
EPSILON = 1e-9


class Truth:
    """What the tensors were, taken by hooks of torch: by step and name, in float64."""

    def __init__(self) -> None:
        self.weights: dict[tuple[int, str], Array] = {}
        self.gradients: dict[tuple[int, str], Array] = {}
        self.activations: dict[tuple[int, str], Array] = {}


def _numbers(tensor: torch.Tensor) -> Array:
    return np.array(tensor.tolist(), np.float64)


def run(*specs: WatchpointSpec) -> tuple[Truth, list[Hit]]:
    """Train a few steps, the last weights frozen by a zero gradient, and one step into NaN."""
    truth = Truth()
    net = make_net()
    step = 0
    net.act.register_forward_hook(
        lambda _, __, output: truth.activations.update({(step, TANH): _numbers(output)})
    )

    def training() -> None:
        nonlocal step
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
        data, target = torch.randn(32, 8), torch.randn(32, 4)
        for step in range(STEPS):
            for name, parameter in net.named_parameters():
                truth.weights[step, name] = _numbers(parameter)
            optimizer.zero_grad()
            scale = float("nan") if step == 3 else 1.0
            loss = ((net(data) - target) ** 2).mean() * (0.0 if step == 1 else scale)
            loss.backward()
            for name, parameter in net.named_parameters():
                if step == 3 and name == "fc2.bias":
                    assert parameter.grad is not None
                    parameter.grad.zero_()
                truth.gradients[step, f"{name}.grad"] = _numbers(parameter.grad)  # type: ignore[arg-type]
            optimizer.step()
        for name, parameter in net.named_parameters():
            truth.weights[STEPS, name] = _numbers(parameter)

    never = tuple(msgspec.structs.replace(spec, break_after=0) for spec in specs)
    hub = Hub(paused=False, watchpoints=never)
    _, rank = driven(training, lambda rank: None, hub=hub)
    return truth, rank.hits


def places(hits: list[Hit]) -> set[tuple[int, str]]:
    return {(hit.step, hit.op) for hit in hits if hit.verdict == "hit"}


def finite(x: Array) -> bool:
    return bool(np.isfinite(x).all())


def moved(x: Array, p: Array) -> float:
    return float(np.abs(x - p).mean() / (np.abs(p).mean() + EPSILON))


Question = Callable[[Array], bool]
STATISTICS: list[tuple[str, Callable[[Array], float]]] = [
    ("abs_mean", lambda x: float(np.abs(x).mean())),
    ("max", lambda x: float(x.max())),
    ("min", lambda x: float(x.min())),
    ("mean", lambda x: float(x.mean())),
]


@pytest.mark.document(99)
@pytest.mark.parametrize(("name", "statistic"), STATISTICS, ids=[name for name, _ in STATISTICS])
@pytest.mark.parametrize("target", ["weight", "gradient"])
def test_thresholds_of_weights_and_gradients(
    target: str, name: str, statistic: Callable[[Array], float]
) -> None:
    below = "gradient_vanishing" if target == "gradient" else "weight_too_small"
    threshold = 0.01 if name != "min" else -0.2
    truth, hits = run(
        watchpoint(1, f"{target}_too_large", **{f"{name}_gt": threshold}),
        watchpoint(2, below, **{f"{name}_lt": threshold}),
    )
    values = truth.weights if target == "weight" else truth.gradients
    known = {place: x for place, x in values.items() if finite(x)}
    assert known
    above = {place for place, x in known.items() if statistic(x) > threshold}
    beneath = {place for place, x in known.items() if statistic(x) < threshold}
    for number, expected in ((1, above), (2, beneath)):
        found = places([hit for hit in hits if hit.watchpoint == number])
        assert found == expected
    assert any(hit.verdict == "undecided" for hit in hits)


def test_overflow_of_weights_and_gradients() -> None:
    truth, hits = run(watchpoint(1, "weight_overflow"), watchpoint(2, "gradient_exploding"))
    weights = {place for place, x in truth.weights.items() if not finite(x)}
    gradients = {place for place, x in truth.gradients.items() if not finite(x)}
    assert weights
    assert places([hit for hit in hits if hit.watchpoint == 1]) == weights
    assert places([hit for hit in hits if hit.watchpoint == 2]) == gradients
    for hit in hits:
        values = truth.weights if hit.watchpoint == 1 else truth.gradients
        expected = int(np.isnan(values[hit.step, hit.op]).sum())
        assert {value.name: value.actual for value in hit.values} == {"nan_count": expected}


def test_weights_and_gradients_are_no_ops_that_produce_nan() -> None:
    _, hits = run(watchpoint(1, "operator_overflow", "fc1.weight", "fc1.weight.grad"))
    assert hits == []


@pytest.mark.document(100)
def test_changes_of_weights() -> None:
    truth, hits = run(
        watchpoint(1, "weight_change_too_large", abs_mean_update_ratio_gt=0.05),
        watchpoint(2, "weight_change_too_small", abs_mean_update_ratio_lt=1e-4),
        watchpoint(3, "weight_not_changed"),
    )
    pairs = {
        (step, name): (x, truth.weights[step - 1, name])
        for (step, name), x in truth.weights.items()
        if step and finite(x) and finite(truth.weights[step - 1, name])
    }
    expected = [
        {place for place, (x, p) in pairs.items() if moved(x, p) > 0.05},
        {place for place, (x, p) in pairs.items() if moved(x, p) < 1e-4},
        {
            place
            for place, (x, p) in pairs.items()
            if (np.abs(x - p) <= 1e-8 + 1e-5 * np.abs(p)).all()
        },
    ]
    for number, places_expected in enumerate(expected, 1):
        assert places_expected
        assert places([hit for hit in hits if hit.watchpoint == number]) == places_expected
    ratios = {
        (hit.step, hit.op): hit.values[0].actual
        for hit in hits
        if hit.watchpoint == 1 and hit.verdict == "hit"
    }
    for place in expected[0]:
        assert ratios[place] == pytest.approx(moved(*pairs[place]), rel=1e-12)


def test_initial_weights() -> None:
    truth, hits = run(
        watchpoint(1, "weight_initialization"),
        watchpoint(2, "weight_initialization", max_gt=0.3),
    )
    expected = {
        (0, name) for (step, name), x in truth.weights.items() if not step and x.max() > 0.3
    }
    assert expected
    assert places(hits) == expected
    assert {hit.watchpoint for hit in hits} == {2}


@pytest.mark.parametrize(
    ("parameters", "is_so"),
    [
        ({"range_percentage_lt": 40.0}, lambda share, spread: share < 40.0),
        ({"range_percentage_gt": 40.0}, lambda share, spread: share > 40.0),
        ({"max_min_gt": 1.9}, lambda share, spread: spread > 1.9),
        ({"max_min_lt": 1.9}, lambda share, spread: spread < 1.9),
    ],
)
@pytest.mark.parametrize("condition", ["activation_range", "tensor_range"])
def test_ranges(condition: str, parameters: dict[str, float], is_so: Callable[..., bool]) -> None:
    bounds = {"range_start_inclusive": -0.5, "range_end_inclusive": 0.1}
    given: dict[str, Any] = {**parameters, **(bounds if "range" in str(parameters) else {})}
    truth, hits = run(watchpoint(1, condition, TANH, **given))
    expected = {
        place
        for place, x in truth.activations.items()
        if finite(x) and is_so(100 * np.mean((x >= -0.5) & (x <= 0.1)), x.max() - x.min())
    }
    assert places(hits) == expected


def test_tensors_of_zeros_thresholds_and_expressions_at_ops() -> None:
    truth, hits = run(
        watchpoint(1, "tensor_all_zero", "fc1.weight.grad", zero_percentage_ge=100.0),
        watchpoint(2, "tensor_too_large", TANH, abs_mean_gt=0.4),
        watchpoint(3, "expression", TANH, expression="abs_max > 1.01 * prev.abs_max"),
        watchpoint(4, "expression", "fc1.bias.grad", expression="l2norm > 2 * prev.l2norm"),
    )
    by_number = {
        number: places([hit for hit in hits if hit.watchpoint == number]) for number in range(1, 5)
    }
    gradients, outputs = truth.gradients, truth.activations
    assert by_number[1] == {
        (step, name)
        for (step, name), x in gradients.items()
        if name == "fc1.weight.grad" and finite(x) and not x.any()
    }
    assert by_number[1]
    assert by_number[2] == {
        place for place, x in outputs.items() if finite(x) and np.abs(x).mean() > 0.4
    }
    assert by_number[3] == {
        (step, op)
        for (step, op), x in outputs.items()
        if step and np.abs(x).max() > 1.01 * np.abs(outputs[step - 1, op]).max()
    }
    assert by_number[4] == {
        (step, name)
        for (step, name), x in gradients.items()
        if step
        and name == "fc1.bias.grad"
        and np.linalg.norm(x) > 2 * np.linalg.norm(gradients[step - 1, name])
    }


@pytest.mark.parametrize("keeps_memory", [False, True])
@pytest.mark.parametrize("aim", ["name-regex(.*weight.grad)", "Default/network-Net/fc1-Linear/"])
def test_gradients_that_a_condition_on_tensors_matches_are_judged_when_they_are_whole(
    keeps_memory: bool, aim: str
) -> None:
    net = make_net()
    truth: list[float] = []

    def training() -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(5):
            optimizer.zero_grad(set_to_none=not keeps_memory)
            (net(torch.full((2, 8), step + 1.0)) ** 2).mean().backward()
            assert net.fc1.weight.grad is not None
            truth.append(net.fc1.weight.grad.double().abs().mean().item())
            optimizer.step()

    spec = watchpoint(1, "tensor_too_large", aim, abs_mean_gt=0.0)
    never = msgspec.structs.replace(spec, break_after=0)
    _, rank = driven(training, lambda rank: None, hub=Hub(paused=False, watchpoints=(never,)))
    hits = [hit for hit in rank.hits if hit.op == "fc1.weight.grad"]
    assert [hit.step for hit in hits] == [0, 1, 2, 3, 4]
    assert [hit.values[0].actual for hit in hits] == pytest.approx(truth, rel=1e-12)


def test_what_is_expanded_counts_as_often_as_it_stands_there() -> None:
    hub = Hub(
        paused=False,
        watchpoints=(
            msgspec.structs.replace(
                watchpoint(1, "expression", "expand", expression="count > 0"), break_after=0
            ),
        ),
    )
    net = make_net()

    def training() -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 8)).sum().backward()  # its gradient is one 1, expanded
            optimizer.step()

    _, rank = driven(training, lambda rank: None, hub=hub)
    assert rank.hits
    assert {(hit.type.shape, hit.values[0].actual) for hit in rank.hits} == {((3, 4), 12.0)}


def test_a_weight_that_takes_the_place_of_another_is_judged_in_its_place() -> None:
    """With a new optimizer at once; else within as many steps as networks are looked at again."""
    greatest: list[float] = []

    def training() -> None:
        net = make_net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        data, target = torch.randn(32, 8), torch.randn(32, 4)
        for step in range(120):
            if step in (4, 10):
                net.fc1.weight = nn.Parameter(torch.full_like(net.fc1.weight, float(step)))
            if step == 4:
                optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            if step == 10:
                optimizer.param_groups[0]["params"] = list(net.parameters())
            optimizer.zero_grad()
            ((net(data) - target) ** 2).mean().backward()
            optimizer.step()
            greatest.append(net.fc1.weight.max().item())

    always = watchpoint(1, "tensor_too_large", "fc1.weight", max_gt=-1e9)
    spec = msgspec.structs.replace(always, break_after=0)
    _, rank = driven(training, lambda rank: None, hub=Hub(paused=False, watchpoints=(spec,)))
    found = {hit.step: hit.values[0].actual for hit in rank.hits if hit.verdict == "hit"}
    truth = {step + 1: value for step, value in enumerate(greatest)}
    assert {step for step in truth if found.get(step) != truth[step]} <= {*range(11, 110)}
    assert truth[120] != truth[11]
