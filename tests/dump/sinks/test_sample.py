"""``sample_mode``: some elements of each tensor instead of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.torch.csv_rows import statistics_of
from tests.adapters.torch.dumping import arrays, dumping

import sonde
from sonde.adapters.torch.tensors.view import TorchView


def sampled(path: Path, tensor: torch.Tensor, count: int, **options: Any) -> np.ndarray[Any, Any]:
    """The file of ``tensor`` as the input of an op."""
    with dumping(path, step_by="manual", sample_mode=True, sample_num=count, **options):
        tensor.detach()
        sonde.step()
    return arrays(path)[0, "Default/detach-op0", "input", 0]


@pytest.mark.document(
    106,
    says="Data Sampling Dump (Ascend O0/O1 only)",
    how="`sample_mode: 1`, on the CPU too: evenly spaced elements, the first and the last among "
    "them",
)
def test_a_sample_is_evenly_spaced_with_the_first_and_last_element(tmp_path: Path) -> None:
    found = sampled(tmp_path, torch.arange(1000.0).view(10, 100), 5)
    assert found.dtype == np.float32
    assert found.tolist() == [0, 249, 499, 749, 999]


@pytest.mark.document(
    148,
    says="`sample_mode`, `sample_num`: the size of sample in sample dump, default 100",
    how="keys `sample_mode` and `sample_num`",
)
@pytest.mark.parametrize("count", [1, 2, 100, 999])
def test_a_sample_has_as_many_elements_as_requested(count: int, tmp_path: Path) -> None:
    found = sampled(tmp_path, torch.arange(1000), count)
    assert found.shape == (count,)
    spaces = np.diff(found)
    assert found[0] == 0
    if count > 1:
        assert found[-1] == 999
        assert set(spaces) <= {999 // (count - 1), 999 // (count - 1) + 1}


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3)])
def test_a_tensor_with_no_more_elements_is_saved_whole(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    tensor = torch.randn(shape)
    found = sampled(tmp_path, tensor, 6)
    assert found.shape == shape
    np.testing.assert_array_equal(found, tensor.numpy())


def test_samples_are_of_the_logical_order_whatever_the_layout(tmp_path: Path) -> None:
    base = torch.arange(24.0).view(2, 3, 4)
    for number, tensor in enumerate(
        (base.permute(2, 0, 1), base[:, ::2], base[:, :1].expand(2, 9, 4))
    ):
        found = sampled(tmp_path / str(number), tensor, 4)
        flat = tensor.reshape(-1).numpy()
        places = [place * (flat.size - 1) // 3 for place in range(4)]
        assert found.tolist() == flat[places].tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.complex64])
def test_samples_are_widened_as_whole_tensors_are(dtype: torch.dtype, tmp_path: Path) -> None:
    tensor = torch.arange(16.0).to(dtype)
    found = sampled(tmp_path, tensor, 3)
    assert found.dtype == (np.complex64 if dtype.is_complex else np.float32)
    assert found.tolist() == [0, 7, 15]


def test_samples_of_the_same_training_are_the_same(tmp_path: Path) -> None:
    tensor = torch.randn(500, generator=torch.Generator().manual_seed(3))
    one, other = (sampled(tmp_path / name, tensor, 13) for name in ("one", "other"))
    np.testing.assert_array_equal(one, other)


def test_statistics_beside_a_sample_are_those_of_the_whole(tmp_path: Path) -> None:
    tensor = torch.arange(100.0)
    assert sampled(tmp_path, tensor, 3, saved_data="full").size == 3
    (row,) = [row for row in statistics_of(tmp_path)[0] if row.io == "input"]
    assert row.number("avg") == 49.5
    assert row.shape == "(100)"


def test_a_default_device_of_the_program_makes_no_difference(tmp_path: Path) -> None:
    tensor = torch.arange(100.0)
    with torch.device("meta"):
        assert sampled(tmp_path, tensor, 3).tolist() == [0, 49, 99]


@settings(max_examples=50, deadline=None)
@given(size=st.integers(1, 300), count=st.integers(1, 320))
def test_every_sample_is_a_strictly_growing_walk_through_the_tensor(size: int, count: int) -> None:
    view = TorchView(torch.arange(size), "input", 0, None, None)
    hold = view.hold(sample=count)
    assert hold.shape == (min(size, count),)
    values = np.ctypeslib.as_array(
        (np.ctypeslib.ctypes.c_int64 * hold.shape[0]).from_address(hold.address)
    )
    assert np.all(np.diff(values) > 0)
    assert values[0] == 0
    if min(size, count) > 1:
        assert values[-1] == size - 1
