"""The native matcher reads the same of a tensor directly and through Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.csv_rows import ALL, statistics_of
from tests.adapters.torch.dumping import arrays, dump_of, dumping
from tests.adapters.torch.trainings import TRAININGS

from sonde.adapters.torch import private
from sonde.adapters.torch.eager import dispatch_mode as eager
from sonde.adapters.torch.eager import matcher
from sonde.adapters.torch.tensors.view import kernel_codes

pytestmark = pytest.mark.skipif(matcher.load() is None, reason="the native matcher was not built")

WAYS = ("short", "through Python")


def samples() -> list[torch.Tensor]:
    return [torch.empty(3, dtype=dtype) for dtype in kernel_codes()]


def probe(functions: tuple[int, ...], *more: torch.Tensor) -> Any:
    return native().probe(functions, [*samples(), *more], matcher.sample_views())


def native() -> Any:
    module = matcher.load()
    assert module is not None
    return module


def go(way: str) -> None:
    functions = private.stable_functions() if way == "short" else ()
    assert probe(functions) is (way == "short")


@pytest.fixture(autouse=True)
def _the_short_way_is_open_again() -> Iterator[None]:
    yield
    go("short")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    go(request.param)
    return str(request.param)


@pytest.mark.parametrize(
    "name", ["a_cnn_with_batch_norm_and_dropout", "in_place_and_views", "odd_tensors", "an_rnn"]
)
def test_both_ways_write_the_same_rows(name: str, tmp_path: Path) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    found = []
    try:
        for way in WAYS:
            go(way)
            path = tmp_path / way
            torch.manual_seed(0)
            dump_of(path, TRAININGS[name], saved_data="statistic", statistic_categories=ALL)
            found.append(statistics_of(path))
    finally:
        torch.use_deterministic_algorithms(False)
    assert found[0]
    assert found[0] == found[1]


def test_a_torch_without_the_functions_is_read_through_python() -> None:
    functions = private.stable_functions()
    assert len(functions) == 8
    assert probe(functions[:-1]) is False
    assert probe((*functions[:-1], 0)) is False


def test_tensors_that_are_not_alike_open_no_short_way() -> None:
    sparse = torch.ones(3).to_sparse()
    functions = private.stable_functions()
    with pytest.raises((RuntimeError, NotImplementedError)):
        probe(functions, sparse)
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 10, torch.quint8)
    assert probe(functions, quantized) is False


def test_overwritten_inputs_are_shown_with_their_old_values(tmp_path: Path, way: str) -> None:
    before = torch.tensor([[1.0, 0.0, 3.0], [0.5, 2.0, -1.0]])

    def train() -> None:
        for _ in range(2):
            (before * 1).log_()
            (before * 2).t().log_()
            (before * 1)[:, :0].log_()

    with dumping(tmp_path, debug_mode="overflow"):
        train()
    found = arrays(tmp_path)
    np.testing.assert_array_equal(found[(0, "Default/log_-op0", "input", 0)], before.numpy())
    np.testing.assert_array_equal(found[(0, "Default/log_-op1", "input", 0)], 2 * before.numpy().T)
    with np.errstate(all="ignore"):
        expected = np.log(before.numpy())
    np.testing.assert_allclose(found[(0, "Default/log_-op0", "output", 0)], expected, rtol=1e-6)


def test_the_inputs_of_a_known_op_that_writes_are_from_before_it(tmp_path: Path, way: str) -> None:
    """From the second step on the shortcut makes the copies."""
    x = torch.full((5,), 4.0)
    added = torch.tensor([0.0])

    def train() -> None:
        import sonde

        for number in range(3):
            added.fill_(float("inf") if number == 2 else 1.0)
            x.add_(added)
            sonde.step()

    with dumping(tmp_path, debug_mode="overflow"):
        train()
    found = arrays(tmp_path)
    np.testing.assert_array_equal(found[(2, "Default/add_-op0", "input", 0)], np.full(5, 6.0))
    assert np.isinf(found[(2, "Default/add_-op0", "output", 0)]).all()


def test_no_line_is_printed_for_tensors_of_other_classes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    go("short")
    dump_of(tmp_path, TRAININGS["odd_tensors"], saved_data="statistic")
    dump_of(tmp_path, TRAININGS["sparse_gradients"], saved_data="statistic")
    assert "aoti" not in capfd.readouterr().err


def test_our_mode_is_answered_natively_and_others_by_torch() -> None:
    asked = []

    def original(op: object, kind: type) -> str:
        asked.append((op, kind))
        return "rule"

    finder = native().rule_finder(original, eager.Observer)
    assert finder("op", eager.Observer) is None
    assert finder("op", eager.CompiledAwareObserver) is None
    assert finder("op", int) == "rule"
    assert asked == [("op", int)]
