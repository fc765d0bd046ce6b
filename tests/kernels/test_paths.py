"""Choosing a path; all native paths give the same bits, whatever the number of threads."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from sonde import kernels
from sonde.core.errors import UsageError
from sonde.kernels.codes import DTYPES

NATIVE = [path for path in kernels.available_paths() if path != "twin"]

pytestmark = pytest.mark.skipif(not NATIVE, reason="the native kernels are not built")


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    before = kernels.current_path()
    limit = kernels.thread_limit(1)
    kernels.thread_limit(limit)
    yield
    kernels.use_path(before)
    kernels.thread_limit(limit)


def rows_of(tensor: torch.Tensor, paths: list[str]) -> list[bytes]:
    code = kernels.dtype_code(str(tensor.dtype).removeprefix("torch."))
    found = []
    for path in paths:
        kernels.use_path(path)
        row = np.empty(16)
        kernels.summarize_into(row.ctypes.data, tensor.data_ptr(), code, tensor.numel())
        found.append(row.tobytes())
    return found


@pytest.mark.parametrize("size", [1, 100, 4096, 50_001])
@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64],
    ids=str,
)
def test_all_native_paths_give_the_same_bits(dtype: torch.dtype, size: int) -> None:
    values = torch.randn(size, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    assert len(set(rows_of((values * 1000).to(dtype), NATIVE))) == 1


def test_the_number_of_threads_changes_no_bit() -> None:
    values = torch.randn(5_000_001, generator=torch.Generator().manual_seed(1))
    transposed = values[:5_000_000].view(2000, 2500)[:, :2499].t()
    found = set()
    for limit in (1, 2, 3):
        kernels.thread_limit(limit)
        (row,) = rows_of(values, [NATIVE[0]])
        strided = np.empty(16)
        kernels.summarize_strided_into(
            strided.ctypes.data, transposed.data_ptr(), 11, transposed.shape, transposed.stride()
        )
        found.add(row + strided.tobytes())
    assert len(found) == 1
    expected = transposed.double().numpy()
    assert strided[11] == pytest.approx(expected.mean(), rel=1e-10)
    assert strided[12] == pytest.approx(np.linalg.norm(expected), rel=1e-13)


def test_non_finite_elements_are_counted_by_several_threads() -> None:
    kernels.thread_limit(3)
    values = torch.zeros(4_000_000)
    values[[0, 1_500_000, 2_500_000, 3_999_999]] = float("inf")
    assert kernels.non_finite(values.data_ptr(), kernels.dtype_code("float32"), 4_000_000) == 4


def test_thread_limit_gives_the_previous_one_and_refuses_nonsense() -> None:
    kernels.thread_limit(1)
    assert kernels.thread_limit(4) == 1
    assert kernels.thread_limit(1) == 4
    with pytest.raises(ValueError, match="between 1 and 4096"):
        kernels.thread_limit(0)


def test_many_threads_of_python_may_summarize_at_once() -> None:
    values = [torch.full((300_000,), float(k)) for k in range(4)]
    wrong: list[int] = []

    def check(k: int) -> None:
        for _ in range(20):
            found = kernels.summarize(values[k].data_ptr(), "float32", (300_000,))
            if (found.max, found.avg) != (float(k), float(k)):
                wrong.append(k)

    threads = [threading.Thread(target=check, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_path_this_machine_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(
        UsageError, match=r"'mmx' cannot be used here; choose from .*twin \[kernel-"
    ):
        kernels.use_path("mmx")


def test_python_and_native_code_agree_on_the_dtype_codes() -> None:
    from sonde.kernels import _native

    assert _native.dtype_names() == DTYPES


def test_native_code_refuses_arguments_that_make_no_sense() -> None:
    from sonde.kernels import _native

    row = np.empty(16)
    out = row.ctypes.data
    with pytest.raises(ValueError, match="99 is not the code of an element type"):
        _native.summarize_into(out, out, 99, 1)
    with pytest.raises(ValueError, match="a count below zero"):
        _native.summarize_into(out, out, 11, -1)
    with pytest.raises(ValueError, match="1 strides for 2 dimensions"):
        _native.summarize_strided_into(out, out, 11, (1, 2), (1,))
    with pytest.raises(ValueError, match="a dimension below zero"):
        _native.summarize_strided_into(out, out, 11, (-1,), (1,))
    with pytest.raises(ValueError, match="65 dimensions; 64 at most"):
        _native.summarize_strided_into(out, out, 11, (1,) * 65, (1,) * 65)
    with pytest.raises(TypeError, match="takes 4 arguments"):
        _native.summarize_into(out, out, 11)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        _native.summarize_into("x", out, 11, 1)  # type: ignore[arg-type]


def run_python(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_environment_forces_a_path() -> None:
    for path in kernels.available_paths():
        done = run_python(
            "from sonde import kernels; print(kernels.current_path())", SONDE_KERNEL=path
        )
        assert (done.stdout, done.stderr) == (f"{path}\n", "")


def test_a_wrong_path_in_the_environment_is_named() -> None:
    done = run_python("from sonde import kernels", SONDE_KERNEL="mmx")
    assert done.returncode != 0
    assert "the kernel path 'mmx' cannot be used here" in done.stderr


def test_without_the_native_kernels_one_line_says_so_and_the_numbers_are_there() -> None:
    done = run_python(
        "import sys; sys.modules['sonde.kernels._native'] = None\n"
        "from sonde import kernels\n"
        "import sonde.kernels, numpy\n"
        "print(kernels.current_path(), kernels.summarize_array(numpy.ones(3)).avg)"
    )
    assert done.stdout == "twin 1.0\n"
    assert done.stderr.count("\n") == 1
    assert "numpy computes statistics" in done.stderr
    assert "[slow-twin]" in done.stderr
