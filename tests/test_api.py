"""``sonde.statistics``: one line about a tensor, and its numbers."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.adapters.torch.dumping import dumping
from tests.adapters.torch.watching import watch
from tests.kernels.awkward import EIGHTHS, FLOATS, INTEGERS, exact_values, name_of
from tests.kernels.truth import assert_same, true_statistics
from torch.utils._python_dispatch import TorchDispatchMode

import sonde
from sonde.core.errors import SondeError, UsageError


def values_of(dtype: torch.dtype) -> torch.Tensor:
    if dtype in (*FLOATS, *EIGHTHS):
        return torch.tensor([0.5, 1.0, 2.0, 4.0, 0.5, 8.0]).to(dtype)
    return torch.tensor([0, 3, 3, 7, 100, 1]).to(dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, *EIGHTHS, *INTEGERS, torch.bool], ids=name_of)
def test_every_dtype_has_its_numbers(
    dtype: torch.dtype, capsys: pytest.CaptureFixture[str]
) -> None:
    tensor = values_of(dtype).view(2, 3)
    for each in (tensor, tensor.t(), tensor[:, ::2], tensor[:1].expand(4, 3), tensor[1:, 1]):
        assert_same(sonde.statistics(each), true_statistics(exact_values(each)))
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"{name_of(dtype)} [2, 3] ")


@pytest.mark.parametrize(
    ("tensor", "line"),
    [
        (
            torch.tensor([[1.0, 2.0], [3.0, 6.0]]),
            "float32 [2, 2] min 1 max 6 mean 3 std 1.87 norm 7.07",
        ),
        (torch.tensor(2.5), "float32 [] value 2.5"),
        (torch.zeros(0, 3), "float32 [0, 3] empty"),
        (torch.zeros(7), "float32 [7] all 0"),
        (torch.tensor([True, False, True]), "bool [3] 2 of 3 true (67%)"),
        (
            torch.tensor([0, 3, 0, 9]),
            "int64 [4] min 0 max 9 mean 3 std 3.67 norm 9.49 · 50% zero",
        ),
        (
            torch.tensor([math.nan, 1.0, -math.inf, 2.0]),
            "float32 [4] finite min 1 max 2 · 1 nan (25%) · 1 -inf (25%)",
        ),
        (torch.full((2,), math.nan), "float32 [2] nothing finite · 2 nan (100%)"),
        (np.array([[1.0, -1.0]]), "float64 [1, 2] min -1 max 1 mean 0 std 1 norm 1.41"),
        (np.array([4, 5], ">i2"), "int16 [2] min 4 max 5 mean 4.5 std 0.5 norm 6.4"),
        (np.float32(3), "float32 [] value 3"),
    ],
)
def test_the_printed_line_has_the_documented_form(
    tensor: torch.Tensor | NDArray[Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = sonde.statistics(tensor)
    assert capsys.readouterr().out == f"{line}\n"
    assert line.endswith(str(found)) or line.startswith("bool")


def test_a_parameter_and_its_gradient_stay_as_they_are() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    (weight * 3).sum().backward()
    before = weight._version
    assert sonde.statistics(weight).max == 2.0
    assert sonde.statistics(weight.grad).min == 3.0
    assert weight.requires_grad
    assert weight._version == before
    assert weight.untyped_storage().resizable()


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (torch.ones(2, device="meta"), "it is on the meta device and has no values"),
        (torch.eye(2).to_sparse(), "its layout is sparse_coo"),
        ([1, 2], "statistics takes a torch tensor or a numpy array, not list"),
        (None, "statistics takes a torch tensor or a numpy array, not NoneType"),
    ],
)
def test_a_tensor_without_values_is_refused(thing: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sonde.statistics(thing)


@pytest.mark.parametrize(
    "thing",
    [torch.ones(2, dtype=torch.complex64), np.ones(2, complex), np.array(["a"]), np.array([{}])],
)
def test_a_type_without_order_is_refused(thing: Any) -> None:
    with pytest.raises(SondeError) as caught:
        sonde.statistics(thing)
    assert caught.value.slug == "statistics-dtype"


def test_a_capture_and_the_modes_of_the_program_do_not_see_it(tmp_path: Path) -> None:
    class Counted(TorchDispatchMode):  # type: ignore[misc]
        seen = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.seen += 1
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 3)
    with watch(step_by="manual") as watched, Counted() as counted:
        y = x * 2
        sonde.statistics(y)
        sonde.statistics(y.t())
        sonde.step()
    assert watched.names() == ["Default/mul-op0", "Default/t-op0"]
    assert counted.seen == 2


def test_numpy_alone_is_enough() -> None:
    """No framework is imported for it."""
    program = (
        "import sys, numpy, sonde\n"
        "sonde.statistics(numpy.arange(3))\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "int64 [3] min 0 max 2 mean 1 std 0.816 norm 2.24 · 33% zero\n"


def test_it_may_be_called_while_statistics_are_dumped(tmp_path: Path) -> None:
    with dumping(tmp_path, step_by="manual", saved_data="statistic"):
        for _ in range(3):
            sonde.statistics(torch.ones(3) * 2)
            sonde.step()
    assert len(list(tmp_path.rglob("statistic.csv"))) == 3
    assert {file.parents[1].name for file in tmp_path.rglob("statistic.csv")} == {"0"}


def test_masked_elements_of_an_array_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    masked = np.ma.masked_array([1.0, np.nan, 3.0], mask=[False, True, False])
    found = sonde.statistics(masked)
    assert (found.count, found.nan_count, found.max, found.min) == (2, 0, 3.0, 1.0)


@pytest.mark.parametrize("config", [5, None, {"path": "out"}, ["dump.json"], b"dump.json"])
def test_capture_names_what_it_takes(config: Any) -> None:
    with (
        pytest.raises(UsageError, match="takes the path of a dump configuration") as caught,
        sonde.capture(config),
    ):
        raise AssertionError("not reached")
    assert type(config).__name__ in caught.value.message
    assert caught.value.slug == "capture-config"
