"""The native screen never clears a tensor that a condition would hit, and clears most others."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.kernels.awkward import FLOATS, floats, name_of

from sonde import kernels
from sonde.adapters.torch.eager import matcher
from sonde.watch.conditions import Condition, Memory, measure, parse_condition
from sonde.watch.conditions.screen import needs_outline_only, screen_bytes

native = matcher.load()
pytestmark = pytest.mark.skipif(native is None, reason="the native matcher is not built")

WHOLE = [
    torch.arange(-3, 9, dtype=dtype) if dtype != torch.uint8 else torch.arange(9, dtype=dtype)
    for dtype in (torch.int8, torch.int32, torch.int64, torch.uint8)
] + [torch.tensor([True, False, True]), torch.tensor([2**63 - 1, 2**53 + 1, 0])]


def tensors() -> list[torch.Tensor]:
    small = [torch.zeros(5), torch.tensor([-0.0]), torch.tensor(2.5), torch.full((2, 3), -1.0)]
    return [each for dtype in FLOATS for each in floats(dtype).values()] + WHOLE + small


def memory(tensor: torch.Tensor) -> Memory:
    return Memory(
        tensor.data_ptr(), name_of(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor
    )


def row_of(tensor: torch.Tensor, *, outline: bool) -> bytes:
    row = np.empty(16)
    into = kernels.outline_strided_into if outline else kernels.summarize_strided_into
    code = kernels.dtype_code(name_of(tensor.dtype))
    into(row.ctypes.data, tensor.data_ptr(), code, tuple(tensor.shape), tensor.stride())
    return row.tobytes()


def passes(condition: Condition, row: bytes) -> bool:
    assert native is not None
    assert condition.screen is not None
    return bool(native.Screen.passes(screen_bytes([[condition.screen]]), row))


STATISTICS = ["abs_mean", "max", "min", "mean"]
LEVELS = [
    (f"tensor_too_{size}", f"{name}_{relation}")
    for size, relation in (("large", "gt"), ("small", "lt"))
    for name in STATISTICS
]
CHECKS = [
    *LEVELS,
    ("tensor_deviation", "sd_gt"),
    ("tensor_deviation", "sd_lt"),
    ("tensor_range", "max_min_gt"),
    ("tensor_range", "max_min_lt"),
    ("tensor_all_zero", "zero_percentage_ge"),
]


def allowed(name: str, preset: float) -> bool:
    if name.startswith("zero"):
        return 0 <= preset <= 100
    return bool(np.isfinite(preset)) and (preset > 0 or not name.startswith(("abs", "sd", "max_")))


@pytest.mark.parametrize(("id", "name"), CHECKS)
@pytest.mark.parametrize("outline", [False, True])
def test_a_tensor_that_passes_the_screen_is_no_hit_also_at_the_threshold(
    id: str, name: str, outline: bool
) -> None:
    passed = clear = 0
    for tensor in tensors():
        row = row_of(tensor, outline=outline)
        probe = parse_condition(id, {name: 50.0})
        known = probe.judge(measure(memory(tensor), probe.needs))
        actual = known.values[0].actual if known.values else 0.0
        assert actual is not None
        near = (actual, math.nextafter(actual, math.inf), math.nextafter(actual, -math.inf))
        presets = {float(preset) for preset in (*near, 0.0, 100.0, -1.0, 0.5, 1e30)}
        for preset in presets:
            if not allowed(name, preset):
                continue
            condition = parse_condition(id, {name: preset})
            verdict = condition.judge(measure(memory(tensor), condition.needs)).verdict
            is_passed = passes(condition, row)
            assert not is_passed or verdict == "clear", (tensor, preset)
            if not outline or needs_outline_only([[condition.screen or ()]]):
                passed += is_passed
                clear += verdict == "clear" and preset not in near
    assert passed >= 0.8 * clear
    assert clear or outline


@pytest.mark.parametrize("bounds", [(-1.0, 0.0), (0.0, 1.0), (-0.5, 0.25), (0.0, 0.0), (-9e9, 9e9)])
@pytest.mark.parametrize("check", ["range_percentage_lt", "range_percentage_gt"])
@pytest.mark.parametrize("outline", [False, True])
def test_shares_pass_only_where_they_are_known(
    bounds: tuple[float, float], check: str, outline: bool
) -> None:
    low, high = bounds
    passed = 0
    for tensor in tensors():
        for limit in (0.0, 0.1, 50.0, 99.9, 100.0):
            condition = parse_condition(
                "activation_range",
                {"range_start_inclusive": low, "range_end_inclusive": high, check: limit},
            )
            verdict = condition.judge(measure(memory(tensor), condition.needs)).verdict
            is_passed = passes(condition, row_of(tensor, outline=outline))
            assert not is_passed or verdict == "clear"
            passed += is_passed
    assert passed


@pytest.mark.parametrize("id", ["tensor_overflow", "operator_overflow"])
def test_overflow_passes_exactly_what_is_finite(id: str) -> None:
    for tensor in tensors():
        is_finite = bool(torch.isfinite(tensor.double()).all())
        assert passes(parse_condition(id), row_of(tensor, outline=True)) == is_finite


def test_one_of_two_conditions_joined_by_all_must_be_clear_and_every_watch_must_pass() -> None:
    assert native is not None
    row = row_of(torch.tensor([1.0, 2.0]), outline=False)
    low, high = (
        parse_condition("tensor_too_large", {"max_gt": limit}).screen or () for limit in (1.0, 3.0)
    )
    for watches, expected in (
        ([[high]], True),
        ([[low]], False),
        ([[low, high]], True),
        ([[low], [high]], False),
        ([[high], [low, high]], True),
        ([], True),
    ):
        assert native.Screen.passes(screen_bytes(watches), row) == expected


@pytest.mark.parametrize(
    "numbers", [[], [1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 99.0, 0.0, 0.0, 0.0], [-1.0], [np.nan]]
)
def test_tests_that_cannot_be_read_are_refused(numbers: list[float]) -> None:
    assert native is not None
    with pytest.raises(ValueError, match="not tests of a row"):
        native.Screen.passes(np.array(numbers).tobytes(), b"\0" * 128)
