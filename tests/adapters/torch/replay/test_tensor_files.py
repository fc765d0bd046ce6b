"""Tensors of a captured step are read bit for bit, with strides and shared memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from tests.adapters.torch.replay.written_files import written_tensors
from torch import nn

from sonde.adapters.torch.replay.storage.tensor_files import TensorWriter, is_storable, read_tensors
from sonde.replay.errors import ReplayError
from sonde.replay.tensor_table import CapturedTensor


def bits(tensor: torch.Tensor) -> bytes:
    plain = tensor.detach().resolve_conj().resolve_neg()
    fresh = torch.empty(plain.shape, dtype=plain.dtype).copy_(plain)
    return bytes(fresh.reshape(-1).view(torch.uint8).numpy()) if plain.numel() else b""


def stored(directory: Path, *tensors: torch.Tensor) -> list[torch.Tensor]:
    writer = TensorWriter()
    indices = [writer.add(each, "inputs", f"t{n}") for n, each in enumerate(tensors)]
    table = written_tensors(writer, directory)
    read = read_tensors(directory, table)
    return [read[index] for index in indices]


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        and bits(one) == bits(other)
        and type(one) is type(other)
        and one.requires_grad == other.requires_grad
    )


BASE = torch.arange(60, dtype=torch.float32).reshape(10, 6)
AWKWARD = {
    "0-d": torch.tensor(3.5),
    "empty": torch.empty(0, 3),
    "nan": torch.tensor([float("nan"), float("inf"), -0.0]),
    "bfloat16": torch.randn(5).bfloat16(),
    "float16": torch.randn(5).half(),
    "float8": torch.randn(5).to(torch.float8_e5m2),
    "complex64": torch.randn(3, dtype=torch.complex64),
    "complex128": torch.randn(3, dtype=torch.complex128),
    "conjugate": torch.randn(3, dtype=torch.complex64).conj(),
    "bool": torch.tensor([True, False]),
    "uint8": torch.tensor([0, 255], dtype=torch.uint8),
    "int64": torch.tensor([-(2**62), 7]),
    "transposed": torch.randn(3, 4).t(),
    "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "expanded": torch.randn(1, 3).expand(4, 3),
    "every second": torch.randn(20)[::2],
    "inside": torch.randn(100)[33:40],
    "odd strides of size 1": torch.empty_strided((1, 4), (17, 1)).fill_(2.0),
    "parameter": nn.Parameter(torch.randn(2, 2)),
    "frozen": nn.Parameter(torch.randn(2), requires_grad=False),
    "leaf": torch.randn(3, requires_grad=True),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_an_awkward_tensor_is_read_as_it_was(tmp_path: Path, name: str) -> None:
    tensor = AWKWARD[name]
    assert is_storable(tensor)
    (read,) = stored(tmp_path, tensor)
    assert same(read, tensor)
    assert read.data_ptr() % 64 == tensor.data_ptr() % 64 or not tensor.numel()


def test_views_share_memory_again(tmp_path: Path) -> None:
    whole, inputs, targets, other = stored(tmp_path, BASE, BASE[:, :-1], BASE[:, 1:], BASE.clone())
    assert same(inputs, BASE[:, :-1])
    assert same(targets, BASE[:, 1:])
    whole[3, 3] = -5.0
    assert inputs[3, 3] == targets[3, 2] == -5.0
    assert other[3, 3] == BASE[3, 3]


def test_the_same_tensor_is_written_once_and_read_as_one(tmp_path: Path) -> None:
    tied = nn.Parameter(torch.randn(4, 4))
    one, other, alias = stored(tmp_path, tied, tied, tied.detach())
    assert one is other
    assert alias.data_ptr() == one.data_ptr()


def test_a_weight_with_views_is_still_stored_by_name_and_shape(tmp_path: Path) -> None:
    writer = TensorWriter()
    weight = nn.Parameter(torch.randn(4, 6))
    writer.add(weight.detach()[1:3], "inputs", "part")
    writer.add(weight, "weights", "fc.weight")
    table = written_tensors(writer, tmp_path)
    part, read = read_tensors(tmp_path, table)
    assert same(read, weight)
    assert part.data_ptr() == read.data_ptr() + 6 * 4
    assert load_file(tmp_path / "weights.safetensors")["fc.weight"].shape == (4, 6)


def test_only_the_used_part_of_a_large_memory_is_written(tmp_path: Path) -> None:
    data = torch.zeros(1_000_000)
    stored(tmp_path, data[500:510:3])
    assert (tmp_path / "inputs.safetensors").stat().st_size < 1000


def test_another_program_reads_the_weights_by_name(tmp_path: Path) -> None:
    writer = TensorWriter()
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    for name, parameter in model.named_parameters():
        writer.add(parameter, "weights", name)
    written_tensors(writer, tmp_path)
    found = load_file(tmp_path / "weights.safetensors")
    assert set(found) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert np.array_equal(found["0.weight"], model[0].weight.detach().numpy())


def test_writing_reads_only(tmp_path: Path) -> None:
    tensors = [each.clone() for each in AWKWARD.values() if each.is_leaf]
    versions = [each._version for each in tensors]
    before = [bits(each) for each in tensors]
    stored(tmp_path, *tensors)
    assert [each._version for each in tensors] == versions
    assert [bits(each) for each in tensors] == before


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_any_permuted_slice_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], random: object
) -> None:
    order = list(range(len(shape)))
    random.shuffle(order)  # type: ignore[attr-defined]
    tensor = torch.randn(*shape).permute(order)
    tensor = tensor[tuple(slice(0, None, 2) for _ in shape)]
    (read,) = stored(tmp_path_factory.mktemp("tensors"), tensor)
    assert same(read, tensor)


def entry(**changed: object) -> CapturedTensor:
    fields = {"file": "inputs", "key": "t0", "dtype": "float32", "shape": [2, 3]}
    return CapturedTensor(**{**fields, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        entry(key="other"),
        entry(dtype="float99"),
        entry(shape=[2, 4]),
        entry(shape=[2**40, 2**18]),
        entry(strides=[100, 1]),
        entry(strides=[1]),
        entry(offset=2),
        entry(offset=400),
        entry(file="random"),
    ],
)
def test_an_entry_that_does_not_fit_its_file_is_one_error(
    tmp_path: Path, wrong: CapturedTensor
) -> None:
    stored(tmp_path, torch.randn(2, 3))
    with pytest.raises(ReplayError) as error:
        read_tensors(tmp_path, [wrong])
    assert error.value.slug == "step-damaged"
    assert str(tmp_path) in error.value.message


def test_a_file_that_was_cut_is_one_error(tmp_path: Path) -> None:
    stored(tmp_path, torch.randn(2, 3))
    path = tmp_path / "inputs.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ReplayError, match="damaged"):
        read_tensors(tmp_path, [entry()])
