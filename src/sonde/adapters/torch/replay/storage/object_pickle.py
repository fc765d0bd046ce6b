"""The pickles of a captured step: networks and other objects, without their tensors.

Tensors are in the safetensors files; a pickle has their indices. Loading a pickle executes what
its writer put into it: ``replay/ownership`` decides whether that is allowed.
"""

from __future__ import annotations

import io
import os
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from sonde.adapters.torch.replay.kept_tensor import KeptTensor
from sonde.adapters.torch.replay.storage.local_functions import reduce_function
from sonde.adapters.torch.replay.storage.tensor_files import TensorWriter, is_storable
from sonde.core.interruption import pass_on
from sonde.replay.errors import ReplayError
from sonde.replay.ownership import refuse_foreign

PROTOCOL = 5
_HOOKS = "_hooks"


@dataclass(slots=True)
class ObjectWriter:
    """Collects objects that can be pickled, then pickles them together: what they share stays
    shared. ``kept_value`` describes a kept tensor."""

    file: str
    tensors: TensorWriter
    kept_value: Callable[[KeptTensor], Any]
    _objects: list[Any] = field(default_factory=list)

    def keep(self, value: Any) -> int | str:
        """The index of an object, or the reason why it cannot be pickled."""
        for index, known in enumerate(self._objects):
            if known is value:
                return index
        try:
            _Pickler(io.BytesIO(), _Trial()).dump(value)
        except Exception as error:  # any code of the user may run and fail
            pass_on(error)
            return first_line(error)
        self._objects.append(value)
        return len(self._objects) - 1

    def pickled(self) -> bytes:
        """The pickle; empty if there is nothing to keep. Call it before the tensors are collected:
        the tensors that objects hold are added to them."""
        stream = io.BytesIO()
        if self._objects:
            _Pickler(stream, _Indices(self.tensors, self.kept_value)).dump(self._objects)
        return stream.getvalue()


def read_objects(
    path: Path, tensors: Sequence[torch.Tensor], keep: Callable[[Any], KeptTensor], *, trust: bool
) -> list[Any]:
    """The objects of a pickle; empty if there is none. Executes code: see ``ownership``."""
    try:
        with open(path, "rb", opener=_without_links) as stream:
            refuse_foreign(path, stream.fileno(), trust=trust)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # classes that torch has renamed
                loaded = _Unpickler(stream, tensors, keep).load()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ReplayError(f"{path} cannot be read: {error.strerror}", slug="step-damaged") from None
    except (ImportError, AttributeError) as error:
        raise ReplayError(
            f"{path.name} cannot be unpickled, code of it is missing: {first_line(error)}; give "
            "the network with --module package.module:function, or add --run-setup",
            slug="code-missing",
        ) from None
    except ReplayError:
        raise
    except Exception as error:  # a damaged pickle, or code of the user, fails in any way
        raise ReplayError(
            f"{path} cannot be unpickled: {first_line(error)}", slug="step-damaged"
        ) from None
    if not isinstance(loaded, list):
        raise ReplayError(f"{path} is damaged: it has no list of objects", slug="step-damaged")
    return loaded


def unpicklable_hooks(module: nn.Module) -> list[str]:
    """The hooks of a module and its submodules that are left out of the pickle."""
    found = []
    for name, each in module.named_modules():
        for attribute, hooks in vars(each).items():
            if attribute.endswith(_HOOKS) and isinstance(hooks, OrderedDict):
                lost = [each for each in hooks.values() if not _is_ours(each)]
                lost = [hook for hook in lost if not _is_picklable(hook)]
                found += [f"{name or type(each).__name__}: {_hook_name(hook)}" for hook in lost]
    return found


def removed_handle() -> RemovableHandle:
    """A handle of a hook that is not registered any more."""
    return RemovableHandle(OrderedDict())


def first_line(error: BaseException) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


class _Trial:
    """Stands in for the table of tensors, to find out whether an object can be pickled."""

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, KeptTensor):
            return ("kept", 0)
        return ("tensor", 0) if isinstance(value, torch.Tensor) and is_storable(value) else None


@dataclass(frozen=True, slots=True)
class _Indices:
    tensors: TensorWriter
    kept_value: Callable[[KeptTensor], Any]

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, KeptTensor):
            return ("kept", self.kept_value(value))
        if isinstance(value, torch.Tensor) and is_storable(value):
            return ("tensor", self.tensors.add(value, "buffers", "attribute"))
        return None


class _Pickler(pickle.Pickler):
    def __init__(self, stream: Any, indices: _Trial | _Indices) -> None:
        super().__init__(stream, PROTOCOL)
        self._indices = indices

    def persistent_id(self, value: Any) -> Any:
        return self._indices.persistent_id(value)

    def reducer_override(self, value: Any) -> Any:
        """Modules without the hooks that cannot be pickled, and functions without a name that
        leads to them; anything else as usual."""
        if type(value) is FunctionType:
            return reduce_function(value) or NotImplemented
        if isinstance(value, RemovableHandle):  # it refers to the hooks, also to dropped ones
            return removed_handle, ()
        if not isinstance(value, nn.Module) or isinstance(value, type):
            return NotImplemented
        reduced = value.__reduce_ex__(PROTOCOL)
        if not isinstance(reduced, tuple) or len(reduced) < 3 or not isinstance(reduced[2], dict):
            return reduced
        # A hook may refer to modules with hooks, also to its own: those are tried one by one.
        is_kept = _is_never_kept if isinstance(self._indices, _Trial) else _is_picklable
        state = {name: _with_hooks(name, each, is_kept) for name, each in reduced[2].items()}
        return (*reduced[:2], state, *reduced[3:])


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, stream: Any, tensors: Sequence[torch.Tensor], keep: Callable[[Any], KeptTensor]
    ) -> None:
        super().__init__(stream)
        self._tensors = tensors
        self._keep = keep

    def persistent_load(self, pid: Any) -> Any:
        kind, value = pid
        return self._keep(value) if kind == "kept" else self._tensors[value]


def _with_hooks(name: str, value: Any, is_kept: Callable[[Any], bool]) -> Any:
    if not name.endswith(_HOOKS) or not isinstance(value, OrderedDict):
        return value
    return OrderedDict((key, hook) for key, hook in value.items() if is_kept(hook))


def _is_never_kept(hook: Any) -> bool:
    return False


def _is_ours(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("sonde.adapters.")


def _is_picklable(hook: Any) -> bool:
    if _is_ours(hook):
        return False
    try:
        _Pickler(io.BytesIO(), _Trial()).dump(hook)
    except Exception as error:  # as above
        pass_on(error)
        return False
    return True


def _hook_name(hook: Any) -> str:
    return str(getattr(hook, "__qualname__", None) or type(hook).__name__)


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
