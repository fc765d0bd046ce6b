"""Tensors in ``.pt`` files, read without torch; torch itself is the truth."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from sonde.core.errors import DumpError
from sonde.dump.reading.pt_file import read_pt_header

TENSORS = {
    "matrix": torch.randn(3, 4),
    "scalar": torch.tensor(2.5),
    "empty": torch.zeros(0, 3),
    "transposed": torch.arange(12).reshape(3, 4).t(),
    "part of a storage": torch.arange(20.0)[5:11].reshape(2, 3),
    "expanded": torch.tensor([1.0, 2.0]).expand(3, 2),
    "parameter": torch.nn.Parameter(torch.randn(2, 2)),
    "with gradient": torch.randn(2, requires_grad=True),
    "bool": torch.tensor([True, False]),
    "half": torch.randn(5).half(),
    "double": torch.randn(5).double(),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "complex": torch.randn(2, dtype=torch.complex64),
    "large": torch.randn(600, 600),
}


@pytest.mark.parametrize("name", TENSORS)
def test_values_are_those_that_torch_saved(name: str, tmp_path: Path) -> None:
    tensor = TENSORS[name]
    torch.save(tensor, tmp_path / "a.pt")
    header = read_pt_header(tmp_path / "a.pt")
    found = header.array()
    assert (header.dtype, found.shape) == (str(tensor.dtype)[6:], tuple(tensor.shape))
    np.testing.assert_array_equal(found, tensor.detach().numpy())


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    tensor = torch.randn(7, 3).bfloat16()
    torch.save(tensor.t(), tmp_path / "a.pt")
    header = read_pt_header(tmp_path / "a.pt")
    assert header.dtype == "bfloat16"
    np.testing.assert_array_equal(header.array(), tensor.t().float().numpy())


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("made-by-a-pickle",)


@pytest.mark.parametrize("value", [Bomb(), {"a": torch.ones(2)}, [1, 2], "text"])
def test_what_is_not_one_tensor_is_refused_and_nothing_runs(
    value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(value, tmp_path / "a.pt")
    with pytest.raises(DumpError, match=r"a\.pt: not a file of one tensor by torch\.save"):
        read_pt_header(tmp_path / "a.pt")
    assert not (tmp_path / "made-by-a-pickle").exists()


def test_sizes_larger_than_the_file_are_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    torch.save(torch.ones(4), stream)
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(stream) as old, zipfile.ZipFile(path, "w") as new:
        for member in old.infolist():
            data = old.read(member)
            if member.filename.endswith("data.pkl"):
                data = data.replace(b"K\x04\x85", b"J\xff\xff\xff\x7f\x85")
            new.writestr(member.filename, data)
    with pytest.raises(DumpError, match="needs more bytes than its storage has"):
        read_pt_header(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", pickle.dumps([1]), b"\x93NUMPY"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(DumpError, match=r"a\.pt: not a file of one tensor"):
        read_pt_header(tmp_path / "a.pt")
