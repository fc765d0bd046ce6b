"""Every condition against its formula in numpy float64, over the awkward tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.kernels.awkward import FLOATS, floats, name_of

from sonde.watch.conditions import (
    CATALOGUE,
    Judgement,
    Memory,
    Needs,
    PreviousValue,
    measure,
    parse_condition,
)
from sonde.watch.conditions.contract import count_within, is_plain

Array = np.ndarray[Any, np.dtype[np.longdouble]]


def memory(tensor: torch.Tensor) -> Memory:
    return Memory(
        tensor.data_ptr(), name_of(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor
    )


def judge(
    id: str,
    tensor: torch.Tensor,
    parameters: dict[str, float] | None = None,
    before: torch.Tensor | None = None,
) -> Judgement:
    condition = parse_condition(id, parameters)
    former = None if before is None else PreviousValue(memory(before))
    return condition.judge(measure(memory(tensor), condition.needs, previous=former))


def tensors() -> list[tuple[str, torch.Tensor]]:
    return [
        (f"{name} {name_of(dtype)}", tensor)
        for dtype in FLOATS
        for name, tensor in floats(dtype).items()
    ]


# Of finite, non-empty tensors: the formula of each check in numpy.
FORMULAS: list[tuple[str, str, float, Callable[[Array], bool]]] = [
    ("tensor_too_large", "abs_mean_gt", 0.8, lambda x: np.mean(np.abs(x)) > 0.8),
    ("weight_too_large", "max_gt", 1.5, lambda x: np.max(x) > 1.5),
    ("gradient_too_large", "min_gt", -0.5, lambda x: np.min(x) > -0.5),
    ("tensor_too_large", "mean_gt", 0.01, lambda x: np.mean(x) > 0.01),
    ("tensor_too_small", "abs_mean_lt", 0.8, lambda x: np.mean(np.abs(x)) < 0.8),
    ("weight_too_small", "max_lt", 1.5, lambda x: np.max(x) < 1.5),
    ("gradient_vanishing", "min_lt", -0.5, lambda x: np.min(x) < -0.5),
    ("tensor_too_small", "mean_lt", 0.01, lambda x: np.mean(x) < 0.01),
    ("tensor_all_zero", "zero_percentage_ge", 100, lambda x: 100 * np.mean(x == 0) >= 100),
    ("tensor_all_zero", "zero_percentage_ge", 50, lambda x: 100 * np.mean(x == 0) >= 50),
    ("weight_initialization", "zero_percentage_ge", 30, lambda x: 100 * np.mean(x == 0) >= 30),
    ("weight_initialization", "max_gt", 1.5, lambda x: np.max(x) > 1.5),
    ("weight_initialization", "min_lt", -1.5, lambda x: np.min(x) < -1.5),
    ("tensor_range", "max_min_gt", 3, lambda x: np.max(x) - np.min(x) > 3),
    ("activation_range", "max_min_lt", 3, lambda x: np.max(x) - np.min(x) < 3),
    ("tensor_deviation", "sd_gt", 0.9, lambda x: x.size > 1 and np.std(x, ddof=1) > 0.9),
    ("tensor_deviation", "sd_lt", 0.9, lambda x: x.size == 1 or np.std(x, ddof=1) < 0.9),
]


@pytest.mark.document(
    242,
    says="watch conditions (such as INF)",
    how="18 conditions, and expressions of your own such as `nan_count > 0`: docs/conditions.md",
)
@pytest.mark.parametrize(("id", "name", "preset", "formula"), FORMULAS)
def test_a_condition_holds_exactly_when_its_formula_does(
    id: str, name: str, preset: float, formula: Callable[[Array], bool]
) -> None:
    hits = clear = 0
    for label, tensor in tensors():
        if label.startswith("huge and mixed") and name.startswith("mean"):
            continue  # a mean of numbers that cancel is as good as the order they are added in
        x = tensor.double().numpy()
        found = judge(id, tensor, {name: preset})
        if x.size == 0 or not np.isfinite(x).all():
            assert found.verdict == "undecided", label
            assert ("empty" in found.why) == (x.size == 0), label
        else:
            # A long double holds the sums of the largest doubles.
            expected = bool(formula(x.astype(np.longdouble)))
            assert (found.verdict == "hit") == expected, label
            hits += expected
            clear += not expected
    assert hits
    assert clear


@pytest.mark.parametrize("id", ["tensor_overflow", "weight_overflow", "gradient_exploding"])
def test_overflow_is_any_element_that_is_not_finite(id: str) -> None:
    for label, tensor in tensors():
        x = tensor.double().numpy()
        found = judge(id, tensor)
        assert (found.verdict == "hit") == (not np.isfinite(x).all()), label
        counts = {value.name: value.actual for value in found.values}
        assert counts.get("nan_count", 0) == np.isnan(x).sum(), label
        assert counts.get("positive_inf_count", 0) == np.isposinf(x).sum(), label


@pytest.mark.parametrize(("check", "limit"), [("lt", 50.0), ("gt", 50.0), ("gt", 0.0)])
@pytest.mark.parametrize("id", ["activation_range", "tensor_range"])
def test_the_share_in_a_range_is_counted_with_both_ends(id: str, check: str, limit: float) -> None:
    start, end = -0.25, 0.5
    parameters = {
        "range_start_inclusive": start,
        "range_end_inclusive": end,
        f"range_percentage_{check}": limit,
    }
    for label, tensor in tensors():
        x = tensor.double().numpy()
        found = judge(id, tensor, parameters)
        if x.size == 0 or not np.isfinite(x).all():
            assert found.verdict == "undecided", label
            continue
        share = 100 * np.mean((start <= x) & (x <= end))
        assert found.values[0].actual == pytest.approx(share, abs=1e-12), label
        expected = share < limit if check == "lt" else share > limit
        assert (found.verdict == "hit") == expected, label


@pytest.mark.parametrize("step", [0.0, 1e-7, 1e-3, 0.3, 3.0])
@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_changes_of_a_weight_are_judged_by_their_formulas(dtype: torch.dtype, step: float) -> None:
    generator = torch.Generator().manual_seed(3)
    for before in (t for t in floats(dtype).values() if t.numel() and t.isfinite().all()):
        noise = torch.randn(before.shape, generator=generator, dtype=torch.float64)
        now = (before.double() * (1 + step * noise)).to(dtype)
        x, p = now.double().numpy(), before.double().numpy()
        if not np.isfinite(x).all():
            continue
        close = np.abs(x - p) <= 1e-8 + 1e-5 * np.abs(p)
        with np.errstate(over="ignore"):
            ratio = np.mean(np.abs(x - p)) / (np.mean(np.abs(p)) + 1e-9)
        assert (judge("weight_not_changed", now, before=before).verdict == "hit") == close.all()
        large = judge("weight_change_too_large", now, before=before)
        small = judge("weight_change_too_small", now, before=before)
        if math.isfinite(ratio):
            assert large.values[0].actual == pytest.approx(ratio, rel=1e-9)
        assert (large.verdict == "hit") == (ratio > 0.1)
        assert (small.verdict == "hit") == (ratio < 1e-4)


@pytest.mark.parametrize(
    "id", ["weight_not_changed", "weight_change_too_large", "weight_change_too_small"]
)
def test_a_change_without_a_comparable_former_value_is_undecided_not_a_hit(id: str) -> None:
    tensor = torch.ones(4)
    assert judge(id, tensor).why == "there is no value of the step before"
    assert judge(id, tensor, before=torch.ones(5)).why == "the step before it had the shape [5]"
    spoiled = judge(id, tensor, before=torch.tensor([1.0, math.nan, 1.0, math.inf]))
    assert spoiled.verdict == "undecided"
    assert spoiled.why == "its value of the step before had 1 NaN and 1 +Inf among 4 elements"
    assert judge(id, torch.full((4,), math.nan), before=tensor).verdict == "undecided"


def test_an_op_overflows_only_when_its_inputs_were_finite() -> None:
    condition = parse_condition("operator_overflow")
    bad, good = torch.tensor([1.0, math.nan]), torch.ones(2)

    def asked(tensor: torch.Tensor, inputs_finite: bool | None) -> str:
        evidence = measure(memory(tensor), condition.needs, inputs_finite=inputs_finite)
        return condition.judge(evidence).verdict

    assert asked(bad, True) == "hit"
    assert asked(bad, False) == "clear"
    assert asked(bad, None) == "undecided"
    assert asked(good, True) == "clear"


def test_several_checks_in_one_condition_mean_or() -> None:
    parameters = {"max_gt": 5.0, "mean_gt": 0.5}
    assert judge("tensor_too_large", torch.ones(3), parameters).verdict == "hit"
    assert judge("tensor_too_large", torch.zeros(3), parameters).verdict == "clear"


def test_complex_tensors_are_undecided_with_a_reason() -> None:
    tensor = torch.ones(3, dtype=torch.complex64)
    for id in ("tensor_overflow", "tensor_all_zero"):
        found = judge(id, tensor)
        assert found.verdict == "undecided"
        assert "complex numbers have no order" in found.why


def test_integers_and_truths_are_judged_too() -> None:
    assert judge("tensor_all_zero", torch.zeros(3, dtype=torch.int64)).verdict == "hit"
    assert judge("tensor_too_large", torch.tensor([7]), {"max_gt": 6}).values[0].actual == 7
    assert judge("tensor_all_zero", torch.tensor([False, True])).verdict == "clear"


@pytest.mark.document(242)
def test_the_catalogue_has_the_seventeen_conditions_and_the_deviation() -> None:
    assert len(CATALOGUE) == 18
    assert len({kind.abbreviation for kind in CATALOGUE.values()}) == 18


BOUNDED = {"range_start_inclusive": -1.0, "range_end_inclusive": 1.0}


@pytest.mark.parametrize(
    ("id", "parameters"),
    [
        *((id, {name: preset}) for id, name, preset, _ in FORMULAS),
        ("tensor_range", {**BOUNDED, "range_percentage_lt": 60.0}),
        ("activation_range", {**BOUNDED, "range_percentage_gt": 40.0, "max_min_lt": 3.0}),
        ("tensor_overflow", {}),
        ("operator_overflow", {}),
        ("gradient_exploding", {}),
        ("weight_not_changed", {}),
        ("weight_change_too_large", {}),
    ],
)
def test_what_statistics_clear_is_clear(id: str, parameters: dict[str, float]) -> None:
    condition = parse_condition(id, parameters)
    cleared = clear = 0
    for label, tensor in tensors():
        evidence = measure(memory(tensor), condition.needs)
        assert evidence.statistics is not None
        is_clear = condition.judge(evidence).verdict == "clear"
        is_cleared = condition.clears(evidence.statistics)
        assert is_clear or not is_cleared, label
        cleared += is_cleared
        clear += is_clear
    if not condition.needs.previous and not condition.needs.between:
        assert cleared == clear


@pytest.mark.parametrize(
    "bounds", [(-1.0, 1.0), (0.0, 0.0), (-1e30, 1e30), (5.0, 6.0), (-3.0, 0.5)]
)
def test_what_extremes_tell_is_what_counting_finds(bounds: tuple[float, float]) -> None:
    known = 0
    for label, tensor in tensors():
        statistics = measure(memory(tensor), Needs(statistics=True)).statistics
        assert statistics is not None
        if not is_plain(statistics):
            continue
        found = count_within(statistics, bounds)
        x = tensor.double().numpy()
        assert found in (None, int(((x >= bounds[0]) & (x <= bounds[1])).sum())), label
        known += found is not None
    assert known > 0
