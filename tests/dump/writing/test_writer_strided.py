"""Elements that do not lie one after the other are put in order when their file is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sonde.dump.writing.npy_header import npy_header
from sonde.dump.writing.writer import Writer, open_writer

DTYPES = ["bool", "int8", "float16", "float32", "float64", "complex128"]


@pytest.fixture(params=["native", "python"])
def writer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SONDE_WRITER", request.param)
    opened = open_writer(1, 1 << 20)
    yield opened
    opened.close()


def _write(writer: Writer, path: Path, array: NDArray[Any]) -> None:
    strides = tuple(step // array.itemsize for step in array.strides)
    address = array.__array_interface__["data"][0]
    header = npy_header(array.dtype.name, array.shape)
    writer.write_strided(str(path), header, address, array.itemsize, array.shape, strides, array)


@st.composite
def _views(draw: st.DrawFn) -> NDArray[Any]:
    shape = draw(st.lists(st.integers(1, 5), max_size=4))
    dtype = draw(st.sampled_from(DTYPES))
    whole = np.arange(int(np.prod(shape)), dtype="float64").reshape(shape).astype(dtype)
    view = whole.transpose(draw(st.permutations(range(whole.ndim))))
    steps = draw(st.lists(st.sampled_from([1, 2, -1]), min_size=view.ndim, max_size=view.ndim))
    view = view[tuple(slice(None, None, step) for step in steps)]
    return np.broadcast_to(view, (draw(st.integers(0, 2)), *view.shape))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(view=_views())
def test_any_view_is_written_as_numpy_would_save_it(
    writer: Writer, tmp_path: Path, view: NDArray[Any]
) -> None:
    path = tmp_path / "view.npy"
    _write(writer, path, view)
    writer.wait_all()
    assert writer.error is None
    saved = np.load(path)
    assert saved.dtype == view.dtype
    np.testing.assert_array_equal(saved, view)


def test_a_view_that_is_owned_is_written_as_it_was(writer: Writer, tmp_path: Path) -> None:
    big = np.zeros(1 << 17)
    block = tmp_path / "first.npy"
    writer.write(str(block), b"", big.ctypes.data, big.nbytes, big)
    array = np.arange(12.0).reshape(3, 4)
    expected = array.T.copy()
    strides = (1, 4)
    job = writer.write_strided(
        str(tmp_path / "view.npy"),
        npy_header("float64", (4, 3)),
        array.ctypes.data,
        8,
        (4, 3),
        strides,
        array,
    )
    writer.own(job)
    array[:] = -1
    writer.wait_all()
    np.testing.assert_array_equal(np.load(tmp_path / "view.npy"), expected)


@pytest.mark.parametrize(
    ("itemsize", "shape", "strides"), [(0, (2,), (1,)), (4, (2, 2), (1,)), (4, (-1,), (1,))]
)
def test_a_shape_without_matching_strides_is_refused(
    writer: Writer, tmp_path: Path, itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    array = np.zeros(4)
    with pytest.raises(ValueError, match="do not fit together"):
        writer.write_strided(
            str(tmp_path / "x"), b"", array.ctypes.data, itemsize, shape, strides, array
        )
