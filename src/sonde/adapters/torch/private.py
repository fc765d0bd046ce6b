"""The private parts of torch that eager capture stands on, probed once.

Everything version-sensitive of the eager adapter is named here and nowhere else. A torch that
lacks one of them gets a clear message, not an AttributeError in the middle of training.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch._C._dynamo import eval_frame
from torch._library import simple_registry
from torch.utils import _python_dispatch

from sonde.core.errors import CaptureError

_RULE = "find_torch_dispatch_rule"
_ASKED = ("data_ptr", "numel", "dim", "sizes", "strides", "dtype", "device_type")
_HIGHER_ORDER = os.path.join("torch", "_higher_order_ops", "")
_COMPILER_FILE = os.path.join("torch", "_dynamo", "eval_frame.py")
_NEEDED: tuple[tuple[object, str], ...] = (
    (_python_dispatch, "TorchDispatchMode"),
    (_python_dispatch, "_get_current_dispatch_mode_stack"),
    (_python_dispatch, "_push_mode"),
    (_python_dispatch, "_pop_mode"),
    (torch._C, "_autograd"),
    (torch._C, "_current_autograd_node"),
    (torch._C, "_storage_Use_Count"),
    (torch.UntypedStorage, "_cdata"),
    (eval_frame, "set_eval_frame"),
    (eval_frame, "set_code_exec_strategy"),
    (eval_frame, "_FrameAction"),
    (eval_frame, "_FrameExecStrategy"),
    (torch.Tensor, "_cdata"),
    (torch.Tensor, "_fix_weakref"),
    (torch._C, "TensorBase"),
    (torch._C, "_current_graph_task_id"),
    (torch._C, "_get_dispatch_mode"),
    (torch._C, "_TorchDispatchModeKey"),
    (torch._C, "_DisableTorchDispatch"),
    (torch._C, "DisableTorchFunction"),
)


def require() -> None:
    """Raise CaptureError when this torch cannot be observed."""
    missing = [
        f"{getattr(owner, '__name__', owner)}.{name}"
        for owner, name in _NEEDED
        if not hasattr(owner, name)
    ]
    if missing:
        raise CaptureError(
            f"torch {torch.__version__} lacks {', '.join(missing)}, which observing needs; "
            "install a torch version that Sonde's package metadata allows",
            slug="torch-version",
        )


TorchDispatchMode: Any = _python_dispatch.TorchDispatchMode
sequence_number: Callable[[], int] = torch._C._autograd._get_sequence_nr
current_autograd_node: Callable[[], Any] = torch._C._current_autograd_node
is_profiling: Callable[[], bool] = torch._C._autograd._profiler_enabled
fix_weak: Callable[[torch.Tensor], None] = getattr(torch.Tensor, "_fix_weakref")  # noqa: B009
to_numpy: Callable[[torch.Tensor], Any] = torch._C.TensorBase.numpy


set_eval_frame: Callable[[Any], Any] = eval_frame.set_eval_frame
"""Sets the function that compiles what runs, None for none; returns the one that was set."""


def answer_for_mode(mode: type, rule_finder: Callable[[Any, type], Callable[..., Any]]) -> None:
    """Let ``rule_finder`` stand before the function that torch asks, for every op under a mode,
    whether somebody registered a rule of its own: nobody does for ``mode``.

    Torch looks the function up once, when the first op runs under any mode. Where that was before,
    or this torch has no such function, it goes on asking as it did, and all is only slower.
    """
    original = getattr(simple_registry, _RULE, None)
    if isinstance(original, FunctionType):
        setattr(simple_registry, _RULE, rule_finder(original, mode))


def stable_functions() -> tuple[int, ...]:
    """Addresses of torch's C functions with a stable binary interface that the native matcher
    asks, in its order; empty where this torch has not all of them."""
    try:
        library = ctypes.CDLL(torch._C.__file__)
        functions = [getattr(library, f"aoti_torch_get_{name}") for name in _ASKED]
    except (OSError, AttributeError):
        return ()
    return tuple(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in functions)


def hide_from_compiler(*functions: Callable[..., Any]) -> None:
    """Keep dynamo out of ``functions`` and all they call, where it compiles what runs."""
    skip = eval_frame._FrameAction.SKIP
    for function in functions:
        eval_frame.set_code_exec_strategy(
            function.__code__, eval_frame._FrameExecStrategy(skip, skip)
        )
        # What calls them is compiled up to the call, and from there on again.
        vars(function)["_torchdynamo_disable"] = True


@contextmanager
def unobserved() -> Iterator[None]:
    """What torch does in this block is our own business: no mode sees it, ours or the program's."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        yield


def storage_owners(storage: torch.UntypedStorage) -> int:
    """How many owners the memory of ``storage`` has, ``storage`` itself included."""
    return int(torch._C._storage_Use_Count(storage._cdata))


def version_of(tensor: torch.Tensor) -> int:
    """How often ops have written to the memory of ``tensor``; -1 where torch does not count."""
    try:
        return tensor._version
    except RuntimeError:
        return -1


def module_hooks() -> tuple[dict[int, Any], ...]:
    """The hooks on all modules, by the numbers of their handles."""
    module = sys.modules["torch.nn.modules.module"]
    return tuple(
        getattr(module, name)
        for name in (
            "_global_forward_pre_hooks",
            "_global_forward_hooks",
            "_global_forward_hooks_always_called",
            "_global_forward_hooks_with_kwargs",
        )
    )


def compiled_codes() -> list[CodeType]:
    """What dynamo has compiled so far, and not forgotten; imports nothing."""
    dynamo = sys.modules.get("torch._dynamo.convert_frame")
    references = getattr(getattr(dynamo, "output_codes", None), "seen", ())
    return [code for code in (reference() for reference in references) if code is not None]


def run_uncompiled(is_on: bool) -> None:
    """Let functions of torch.compile run without being compiled, or as they are meant to.

    Nothing if the compiler is not there, or the program has its own idea of it.
    """
    dynamo: Any = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is None:
        return
    if is_on and dynamo._stance.stance == "default":
        ours = dataclasses.replace(dynamo._stance, stance="force_eager")
        _UNCOMPILED[:] = (ours, dynamo._stance)
        dynamo._stance = ours
    elif not is_on and _UNCOMPILED and dynamo._stance is _UNCOMPILED[0]:
        dynamo._stance = _UNCOMPILED[1]
        _UNCOMPILED.clear()


_UNCOMPILED: list[Any] = []


def keeps_modes(*, at_entry: bool = False) -> bool:
    """Whether modes entered or left here will be forgotten: what runs us puts its own back.

    Autograd's engine does, and the wrapper of a compiled function. ``at_entry``: such a wrapper
    runs us before it notes which modes there are.
    """
    if torch._C._current_graph_task_id() != -1:
        return True
    wrappers = 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_compile_wrapper(frame.f_code):
            wrappers += 1
            if wrappers > at_entry:
                return True
        frame = frame.f_back
    return False


def is_called_compiled(frame: FrameType | None) -> bool:
    """Whether the program called ``frame`` through what ``torch.compile`` returned.

    Torch does so itself for ``cond`` and its like, which stay what they are.
    """
    while frame is not None:
        above = frame.f_back
        if _is_compile_wrapper(frame.f_code):
            return above is None or _HIGHER_ORDER not in above.f_code.co_filename
        frame = above
    return False


def _is_compile_wrapper(code: CodeType) -> bool:
    return code.co_name == "compile_wrapper" and code.co_filename.endswith(_COMPILER_FILE)


def is_tracing() -> bool:
    """Whether torch only pretends to compute, to make a graph of a piece of the program."""
    get, keys = torch._C._get_dispatch_mode, torch._C._TorchDispatchModeKey
    return get(keys.FAKE) is not None or get(keys.PROXY) is not None


def mode_stack() -> list[Any]:
    return list(_python_dispatch._get_current_dispatch_mode_stack())


def push_mode_below(mode: Any) -> None:
    """Enter ``mode`` beneath the modes that are active now.

    A step may end while the user's own modes are entered; were ours on top of theirs, their exit
    would pop ours.
    """
    above = [_python_dispatch._pop_mode() for _ in mode_stack()]
    try:
        mode.__enter__()
    finally:
        for other in reversed(above):
            _python_dispatch._push_mode(other)


def pop_mode_below(mode: Any) -> None:
    """Leave ``mode`` wherever it stands among the active modes; nothing if it is not active."""
    if not any(active is mode for active in mode_stack()):
        return
    above = []
    while (top := mode_stack()[-1]) is not mode:
        above.append(top)
        _python_dispatch._pop_mode()
    mode.__exit__(None, None, None)
    for other in reversed(above):
        _python_dispatch._push_mode(other)
