"""``.npy`` files: correct values, and damaged files are refused safely."""

from __future__ import annotations

import mmap
import pickle
import random
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sonde.core.errors import DumpError
from sonde.dump.reading.npy import read_header


def _write(path: Path, header: str, payload: bytes = b"") -> Path:
    text = header.encode("latin-1") + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + payload)
    return path


def _header(descr: str, shape: str, fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"


@given(
    array=hnp.arrays(
        st.sampled_from(["?", "i1", "<i8", "u2", "f2", "<f4", ">f4", "f8", "c8", "c16"]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
    fortran=st.booleans(),
)
def test_files_saved_by_numpy_are_read(
    array: np.ndarray, fortran: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("npy") / "a.npy"
    np.save(path, np.asarray(array, order="F" if fortran else "C"))
    header = read_header(path)
    found = header.array()
    assert header.shape == found.shape == array.shape
    assert header.nbytes == array.nbytes
    assert found.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, array)
    assert not found.flags.writeable


def test_a_large_file_is_mapped_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    expected = np.arange(1_000_000, dtype=np.float32).reshape(1000, 1000)
    np.save(path, expected)
    found = read_header(path).array()
    owner: object = found
    while isinstance(owner, np.ndarray):
        owner = owner.base
    assert isinstance(owner, mmap.mmap)
    np.testing.assert_array_equal(found, expected)


def test_raw_bfloat16_by_mindspore_becomes_float32(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5, np.inf, np.nan, 0.0, 3.140625], np.float32)
    raw = (values.view(np.uint32) >> 16).astype("<u2")
    path = _write(tmp_path / "a.npy", _header("'<E2'", "(2, 3)"), raw.tobytes())
    with pytest.raises(ValueError, match="E2"):
        np.load(path)
    header = read_header(path)
    assert header.dtype == "bfloat16"
    assert header.nbytes == 12
    found = header.array()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, values.reshape(2, 3))


def test_another_shape_of_the_same_size_is_taken_on_request(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(24).reshape(2, 3, 4))
    np.testing.assert_array_equal(read_header(path).array((6, 4)), np.arange(24).reshape(6, 4))
    with pytest.raises(DumpError, match="cannot reshape"):
        read_header(path).array((5, 5))


BAD = {
    "no numpy file": (b"PK\x03\x04whatever", "byte 0: not an .npy file"),
    "empty": (b"", "byte 0: not an .npy file"),
    "version": (b"\x93NUMPY\x09\x00\x10\x00\x00\x00", "byte 6: .npy version 9 is not known"),
    "header beyond the end": (b"\x93NUMPY\x01\x00\xff\xff  ", "byte 8: a header of 65535 bytes"),
}


@pytest.mark.parametrize(("contents", "message"), BAD.values(), ids=BAD.keys())
def test_a_file_that_is_no_npy_is_refused(tmp_path: Path, contents: bytes, message: str) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(contents)
    with pytest.raises(DumpError, match=message) as caught:
        read_header(path)
    assert str(path) in str(caught.value)
    assert caught.value.slug == "npy-file"


HEADERS = {
    "huge shape": (_header("'<f4'", f"({2**40}, {2**20})"), "the file ends early"),
    "overflowing shape": (_header("'<f4'", f"({2**61}, {2**61}, 0, 1)"), None),
    "negative": (_header("'<f4'", "(-1,)"), "the shape in the header"),
    "bool size": (_header("'<f4'", "(True,)"), "the shape in the header"),
    "list": (_header("'<f4'", "[1]"), "the shape in the header"),
    "object": (_header("'|O'", "(1,)"), "not a type of plain numbers"),
    "text": (_header("'<U8'", "(1,)"), "not a type of plain numbers"),
    "record": (_header("[('a', '<f4')]", "(1,)"), "not a type of plain numbers"),
    "long double": (_header("'<f16'", "(1,)"), "not a type of plain numbers"),
    "code": ("__import__('os').abort()", "the header is damaged"),
    "nested": ("(" * 5000, "the header is damaged"),
    "missing key": ("{'descr': '<f4'}", "lacks descr"),
    "null": ("\0", "the header is damaged"),
}


@pytest.mark.parametrize(("text", "message"), HEADERS.values(), ids=HEADERS.keys())
def test_a_header_is_checked_before_anything_is_allocated(
    tmp_path: Path, text: str, message: str | None
) -> None:
    path = _write(tmp_path / "a.npy", text, b"\0" * 16)
    if message is None:
        assert read_header(path).size == 0
        with pytest.raises(DumpError):
            read_header(path).array()
    else:
        with pytest.raises(DumpError, match=message):
            read_header(path)


def test_nothing_is_ever_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (pytest.fail, ("unpickled",))

    path = tmp_path / "a.npy"
    np.save(path, np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(DumpError):
        read_header(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DumpError):
        read_header(path)


def test_a_cut_file_says_where_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(100, np.float32))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DumpError, match=r"byte 200: the file ends early; float32\[100\] needs 528"):
        read_header(path)


def test_a_damaged_file_is_read_or_refused_and_never_more(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(30, dtype=np.float32).reshape(5, 6))
    whole = path.read_bytes()
    rng = random.Random(3)
    refused = 0
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(130)] = rng.randrange(256)
        path.write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
        try:
            read_header(path).array()
        except DumpError:
            refused += 1
    assert refused > 100


def test_headers_are_read_by_many_threads_at_once(tmp_path: Path) -> None:
    """Python 3.11's own parser fails there; only a header that no library writes reaches it."""
    plain, odd = tmp_path / "plain.npy", tmp_path / "odd.npy"
    np.save(plain, np.zeros((2, 3), np.float32))
    header = b"{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}".ljust(117) + b"\n"
    odd.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(24))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read_header, [plain, odd] * 200))
    assert {(each.dtype, each.shape, each.fortran_order) for each in found} == {
        ("float32", (2, 3), False)
    }
