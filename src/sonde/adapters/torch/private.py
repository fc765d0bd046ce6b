"""The private parts of torch that eager capture stands on, probed once.

Everything version-sensitive of the eager adapter is named here and nowhere else. A torch that
lacks one of them gets a clear message, not an AttributeError in the middle of training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _python_dispatch

from sonde.core.errors import CaptureError

_NEEDED: tuple[tuple[object, str], ...] = (
    (_python_dispatch, "TorchDispatchMode"),
    (_python_dispatch, "_get_current_dispatch_mode_stack"),
    (_python_dispatch, "_push_mode"),
    (_python_dispatch, "_pop_mode"),
    (torch._C, "_autograd"),
    (torch._C, "_current_autograd_node"),
    (torch._C, "_storage_Use_Count"),
    (torch.UntypedStorage, "_cdata"),
    (torch.UntypedStorage, "_weak_ref"),
    (torch.UntypedStorage, "_free_weak_ref"),
    (torch.UntypedStorage, "_expired"),
    (torch.Tensor, "_cdata"),
    (torch.Tensor, "_fix_weakref"),
    (torch._C, "TensorBase"),
    (torch._C, "_WeakTensorRef"),
    (torch._C, "_current_graph_task_id"),
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
free_weak_storage: Callable[[int], None] = torch.UntypedStorage._free_weak_ref
is_storage_gone: Callable[[int], bool] = getattr(torch.UntypedStorage, "_expired")  # noqa: B009
weak_tensor: Callable[[torch.Tensor], object] = getattr(torch._C, "_WeakTensorRef")  # noqa: B009
fix_weak: Callable[[torch.Tensor], None] = getattr(torch.Tensor, "_fix_weakref")  # noqa: B009
to_numpy: Callable[[torch.Tensor], Any] = torch._C.TensorBase.numpy


def storage_owners(storage: torch.UntypedStorage) -> int:
    """How many owners the memory of ``storage`` has, ``storage`` itself included."""
    return int(torch._C._storage_Use_Count(storage._cdata))


def version_of(tensor: torch.Tensor) -> int:
    """How often ops have written to the memory of ``tensor``; -1 where torch does not count."""
    try:
        return tensor._version
    except RuntimeError:
        return -1


def is_in_backward() -> bool:
    """Whether autograd's engine runs us. Modes entered or left there are forgotten afterwards."""
    return bool(torch._C._current_graph_task_id() != -1)


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
