"""Compiles many C++ kernels of Inductor in one file.

Inductor gives the C++ compiler one file per kernel, and most of its time goes into reading the same
headers again. Observed code has more kernels than plain code, and more of them are new. Put into
few files, they take a fraction of the time. A kernel computes the same: it is the same function,
compiled with the same options.

This module depends on private parts of torch. Where torch's template for a file differs from what
is expected, kernels are compiled as torch does it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from sonde.core import version_probe
from sonde.core.patching import replace

version_probe.require(
    "compiling observed code",
    (
        "torch._inductor.async_compile:AsyncCompile.cpp_pybinding",
        "torch._inductor.async_compile:AsyncCompile.wait",
        "torch._inductor.codecache:CppPythonBindingsCodeCache.load_pybinding_async",
        "torch._inductor.exc:CppCompileError",
    ),
)

# Imported after the check above, which reports in one line what this torch lacks.
# ruff: noqa: E402
import torch._inductor.async_compile as _async_compile
import torch._inductor.codecache as _codecache
from torch._inductor.exc import CppCompileError

_KERNEL = re.compile(r'extern "C"\s+void\s+kernel\(')
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include.*$", re.MULTILINE)
_METHOD = re.compile(r'^ *\{\{"\{entry_func\}", \{entry_func\}_py, METH_VARARGS, ""\}\},$', re.M)
_BINDING = "static PyObject* {entry_func}_py("
_TABLE = "static PyMethodDef py_methods[]"
_FEWEST = 8
"""Kernels in a file, where several processes could compile files at the same time."""


@dataclass(slots=True, eq=False)
class _Kernel:
    """A placeholder for the function of a kernel; ``load`` compiles it as torch does."""

    types: Sequence[str]
    source: str
    load: Callable[[], Any]


class _Later:
    """What torch takes for a compilation in another process; nothing is started yet."""

    def result(self) -> None:
        """There is nothing to wait for: the kernel is compiled when it is loaded."""


@contextmanager
def together() -> Iterator[None]:
    """Compile the C++ kernels of each graph of this block together."""
    kind: Any = _async_compile.AsyncCompile
    original, original_wait = kind.cpp_pybinding, kind.wait
    cache = _codecache.CppPythonBindingsCodeCache

    def cpp_pybinding(self: Any, argtypes: list[str], source_code: str) -> Any:
        if not _is_simple(source_code):
            return original(self, argtypes, source_code)
        missing: list[Any] = []

        def submit(task: Any) -> _Later:
            missing.append(task)
            return _Later()

        load = cache.load_pybinding_async(argtypes, source_code, submit_fn=submit)
        # Kernels in the cache on disk, as most of plain code are, are not compiled again.
        return _Kernel(argtypes, source_code, load) if missing else load()

    def wait(self: Any, scope: dict[str, Any]) -> None:
        waiting = [(name, each) for name, each in scope.items() if isinstance(each, _Kernel)]
        functions = _load([each for _, each in waiting])
        scope.update(zip((name for name, _ in waiting), functions, strict=True))
        original_wait(self, scope)

    with ExitStack() as undo:
        replace(kind, "cpp_pybinding", cpp_pybinding, undo)
        replace(kind, "wait", wait, undo)
        yield


def _is_simple(source: str) -> bool:
    """Whether ``source`` can share a file: one kernel, and no macros, which ignore namespaces."""
    return len(_KERNEL.findall(source)) == source.count('extern "C"') == 1 and not re.search(
        r"^[ \t]*#[ \t]*(define|undef)\b", source, re.MULTILINE
    )


def _load(kernels: Sequence[_Kernel]) -> list[Any]:
    """The functions of ``kernels``."""
    size = max(_FEWEST, -(-len(kernels) // _async_compile.get_compile_threads()))
    files = [kernels[first : first + size] for first in range(0, len(kernels), size)]
    loads = [_load_file(each) for each in files]
    return [function for load in loads for function in load()]


def _load_file(kernels: Sequence[_Kernel]) -> Callable[[], list[Any]]:
    """Start compiling ``kernels`` in one file; returns a function that waits for them."""

    def one_by_one() -> list[Any]:
        return [kernel.load() for kernel in kernels]

    source = _source(kernels)
    if len(kernels) < 2 or source is None:
        return one_by_one
    cache, pool = _codecache.CppPythonBindingsCodeCache, _async_compile.AsyncCompile
    is_parallel = _async_compile.get_compile_threads() > 1
    load = cache.load_async(source, "cpu", submit_fn=pool.submit if is_parallel else None)

    def functions() -> list[Any]:
        try:
            module = load()
        except CppCompileError:
            # Kernels that conflict in one file are compiled one by one.
            return one_by_one()
        return [getattr(module, _name(number)) for number in range(len(kernels))]

    return functions


def _name(number: int) -> str:
    return f"kernel{number}"


def _source(kernels: Sequence[_Kernel]) -> str | None:
    """One file with all ``kernels`` and their Python bindings; None if torch's template differs."""
    template = _codecache.CppPythonBindingsCodeCache.suffix_template
    head, found, rest = template.partition(_BINDING)
    binding, table_found, table = rest.partition(_TABLE)
    if not found or not table_found or len(_METHOD.findall(table)) != 1:
        return None
    includes = dict.fromkeys(line for each in kernels for line in _INCLUDE.findall(each.source))
    numbers = range(len(kernels))
    table = _METHOD.sub(
        lambda _: "\n".join(
            f'{{{{"{_name(number)}", {_name(number)}_py, METH_VARARGS, ""}}}},'
            for number in numbers
        ),
        table,
    )
    bodies = [_body(number, each.source) for number, each in enumerate(kernels)]
    bindings = [
        (_BINDING + binding).format(
            entry_func=_name(number), arg_len=len(each.types), call_entry_func=_call(number, each)
        )
        for number, each in enumerate(kernels)
    ]
    parts = [
        *includes,
        *bodies,
        head.format(entry_func="kernel", extra_parse_arg=""),
        *bindings,
        (_TABLE + table).format(entry_func="kernel"),
    ]
    return "\n".join(parts)


def _body(number: int, source: str) -> str:
    plain = _KERNEL.sub("void kernel(", _INCLUDE.sub("", source))
    return f"namespace sonde_{_name(number)} {{\n{plain}\n}}"


def _call(number: int, kernel: _Kernel) -> str:
    arguments = ", ".join(
        f"parse_arg<{kind.replace('const ', '')}>(args, {position})"
        for position, kind in enumerate(kernel.types)
    )
    return f"sonde_{_name(number)}::kernel({arguments}); Py_RETURN_NONE;"
