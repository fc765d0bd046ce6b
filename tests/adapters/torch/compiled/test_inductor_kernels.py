"""Kernels of observed code are compiled in few files, and are the same as in separate files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import codecache, config, cpp_builder

from sonde.adapters.torch.compiled import inductor_kernels as compiler_kernels

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Torch's cache. What makes it slow to begin with an empty one are the headers."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def _nothing_compiled(monkeypatch: pytest.MonkeyPatch, disk: Path) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(disk))
    forget(disk)
    with config.patch(fx_graph_cache=False, compile_threads=1):
        yield
    torch._dynamo.reset()


def forget(disk: Path) -> None:
    """All kernels."""
    for kernel in disk.rglob("*.main.so"):
        kernel.unlink()


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that the C++ compiler makes, in order."""
    seen: list[str] = []
    original = cpp_builder.CppBuilder.build

    def build(self: Any) -> None:
        if self.get_target_file_path().endswith(".main.so"):
            seen.append(self.get_target_file_path())
        original(self)

    monkeypatch.setattr(cpp_builder.CppBuilder, "build", build)
    return seen


def results() -> list[torch.Tensor]:
    """Of three kernels, with products of matrices between them, compiled anew."""
    torch._dynamo.reset()
    codecache.CppPythonBindingsCodeCache.cache_clear()

    @torch.compile
    def run(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        first = torch.softmax(x, 1).sin()
        second = (first @ y).tanh()
        return first, second, (second @ y).mean()

    torch.manual_seed(1)
    return list(run(torch.randn(5, 40), torch.randn(40, 40)))


def same(made: Callable[[], list[torch.Tensor]], expected: list[torch.Tensor]) -> bool:
    return len(expected) == 3 and all(map(torch.equal, made(), expected))


def test_kernels_of_a_graph_share_a_file_and_compute_the_same_bits(
    files: list[str], disk: Path
) -> None:
    expected = results()
    apart = len(files)
    files.clear()
    forget(disk)
    with compiler_kernels.together():
        assert same(results, expected)
    assert apart == 3
    assert len(files) == 1


def test_kernels_that_are_on_disk_are_not_compiled_again(files: list[str]) -> None:
    expected = results()
    files.clear()
    with compiler_kernels.together():
        assert same(results, expected)
    assert not files


def test_kernels_that_cannot_share_a_file_are_compiled_apart(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = compiler_kernels._source
    monkeypatch.setattr(compiler_kernels, "_source", lambda each: f"{original(each)}\n#error no")
    with compiler_kernels.together():
        made = results()
    assert len(files) == 4, "one in vain"
    assert same(results, made)


def test_bindings_that_are_not_known_are_left_to_torch(
    files: list[str], monkeypatch: pytest.MonkeyPatch, disk: Path
) -> None:
    expected = results()
    apart = len(files)
    files.clear()
    forget(disk)
    monkeypatch.setattr(compiler_kernels, "_TABLE", "a table that torch does not write")
    with compiler_kernels.together():
        assert same(results, expected)
    assert len(files) == apart


def test_a_source_with_macros_or_two_kernels_is_not_simple() -> None:
    kernel = 'extern "C" void kernel(float* out)\n{\n}\n'
    assert compiler_kernels._is_simple(kernel)
    assert not compiler_kernels._is_simple(f"#define A 1\n{kernel}")
    assert not compiler_kernels._is_simple(f"{kernel}{kernel}")
    assert not compiler_kernels._is_simple('extern "C" void other(float* out)\n{\n}\n')


def test_compiling_kernels_together_leaves_torch_unchanged() -> None:
    kind = compiler_kernels._async_compile.AsyncCompile
    before = kind.cpp_pybinding, kind.wait
    with compiler_kernels.together():
        assert kind.wait is not before[1]
    assert (kind.cpp_pybinding, kind.wait) == before
