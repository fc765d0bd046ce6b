"""The private parts of torch that eager capture needs, checked when this module is imported.

Other sub-packages name theirs in a ``private`` module of their own, in ``compiled`` in
``compiler_private`` and ``inductor_kernels``. If torch lacks a name, the user gets one clear
message instead of an AttributeError in the middle of training.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import importlib
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

import torch

from sonde.adapters.torch.living_objects import living_objects
from sonde.core import version_probe
from sonde.core.interruption import pass_on
from sonde.core.patching import Patch, replace

_RULE = "find_torch_dispatch_rule"
_ASKED = (
    *("data_ptr", "numel", "dim", "sizes", "strides", "dtype", "device_type"),
    "storage_offset",
)
_HIGHER_ORDER = os.path.join("torch", "_higher_order_ops", "")
_COMPILER_FILE = os.path.join("torch", "_dynamo", "eval_frame.py")
NEEDED = (
    "torch.utils._python_dispatch:TorchDispatchMode",
    "torch.utils._python_dispatch:_get_current_dispatch_mode_stack",
    "torch.utils._python_dispatch:_disable_current_modes",
    "torch.utils._python_dispatch:_pop_mode",
    "torch.utils._python_dispatch:_push_mode",
    "torch._C._dynamo.eval_frame:_FrameAction",
    "torch._C._dynamo.eval_frame:_FrameExecStrategy",
    "torch._C._dynamo.eval_frame:set_code_exec_strategy",
    "torch._C._dynamo.eval_frame:set_eval_frame",
    "torch._C:DisableTorchFunction",
    "torch._C:TensorBase.numpy",
    "torch._C:_DisableTorchDispatch",
    "torch._C:_EnableTorchFunction",
    "torch._C:_RestorePythonTLSSnapshot",
    "torch._C:_SetExcludeDispatchKeyGuard",
    "torch._C:_TorchDispatchModeKey",
    "torch._C:_are_functorch_transforms_active",
    "torch._C:_autograd._get_sequence_nr",
    "torch._C:_autograd._unsafe_set_version_counter",
    "torch._C:_current_autograd_node",
    "torch._C:_current_graph_task_id",
    "torch._C:_dispatch_has_kernel_for_dispatch_key",
    "torch._C:_dispatch_kernel_for_dispatch_key_is_fallthrough",
    "torch._C:_get_dispatch_mode",
    "torch._C:_get_tracing_state",
    "torch._C:_len_torch_dispatch_stack",
    "torch._C:_increment_version",
    "torch._C:_storage_Use_Count",
    "torch._ops:OpOverload",
    "torch.overrides:_get_current_function_mode_stack",
    "torch.overrides:_pop_mode",
    "torch.overrides:_push_mode",
    "torch.nn.modules.loss:_Loss",
    "torch:Tensor._cdata",
    "torch:Tensor._use_count",
    "torch:UntypedStorage._cdata",
)
"""What eager capture cannot do without. The rest of this module copes with what is missing."""

version_probe.require("observing", NEEDED)

_python_dispatch: Any = torch.utils._python_dispatch
_eval_frame: Any = torch._C._dynamo.eval_frame

TorchDispatchMode: Any = _python_dispatch.TorchDispatchMode
OpOverload: Any = torch._ops.OpOverload
LossModule: type[torch.nn.Module] = torch.nn.modules.loss._Loss
sequence_number: Callable[[], int] = torch._C._autograd._get_sequence_nr
current_autograd_node: Callable[[], Any] = torch._C._current_autograd_node
owners: Callable[[torch.Tensor], int] = getattr(torch.Tensor, "_use_count")  # noqa: B009
"""The number of owners of torch's tensor object; all its Python references are one of them."""
to_numpy: Callable[[torch.Tensor], Any] = torch._C.TensorBase.numpy

tensor_id: Callable[[torch.Tensor], int] = operator.attrgetter("_cdata")
"""The address of torch's tensor object: equal for all Python objects of one tensor while it lives,
and used again for another tensor after that."""

storage_id: Callable[[torch.UntypedStorage], int] = operator.attrgetter("_cdata")
"""The address of torch's storage object; see `tensor_id`."""

without_torch_functions: Callable[[], AbstractContextManager[None]] = torch._C.DisableTorchFunction
"""In this block tensor subclasses behave as plain tensors, and no TorchFunctionMode is active: no
``__torch_function__`` of the program sees what Sonde reads, and ``set_default_device`` does not
move what Sonde makes. For every function of Sonde that torch calls."""

with_torch_functions: Callable[[], AbstractContextManager[None]] = torch._C._EnableTorchFunction
"""In this block, inside one of `without_torch_functions`, code of the program runs as outside."""

without_modes: Callable[[], AbstractContextManager[None]] = torch._C._DisableTorchDispatch
"""In this block no dispatch mode sees the ops that run."""

without_current_modes: Callable[[], AbstractContextManager[Any]] = (
    _python_dispatch._disable_current_modes
)
"""Like `without_modes`, but modes that are entered in the block see their ops."""

function_modes: Callable[[], list[Any]] = torch.overrides._get_current_function_mode_stack
"""The TorchFunctionModes that are active, the outermost first."""
push_function_mode: Callable[[Any], None] = torch.overrides._push_mode
pop_function_mode: Callable[[], Any] = torch.overrides._pop_mode

set_eval_frame: Callable[[Any], Any] = _eval_frame.set_eval_frame
"""Sets the function that compiles frames, None for none; returns the previous one."""


_call_state: Callable[[], AbstractContextManager[None]] = getattr(  # noqa: B009
    torch._C, "_RestorePythonTLSSnapshot"
)


@contextmanager
def as_without_mode(devices: Iterable[str], *, records: bool) -> Iterator[None]:
    """Run the ops of this block, inside a dispatch mode, as torch runs them outside: while a mode
    runs an op, torch keeps off what comes before modes.

    Autocast is on again for those of ``devices`` for which the program has it on, and with
    ``records`` autograd is. For an op that the program itself has called, not another op.
    """
    with _call_state():  # The state in which the program called the op.
        cast = [device for device in devices if torch.is_autocast_enabled(device)]
    keys = [getattr(torch._C.DispatchKey, f"Autocast{device.upper()}", None) for device in cast]
    if records:
        keys += [torch._C.DispatchKey.AutogradFunctionality, torch._C.DispatchKey.ADInplaceOrView]
    with ExitStack() as stack:
        for key in keys:
            if key is not None:
                stack.enter_context(torch._C._SetExcludeDispatchKeyGuard(key, False))
        yield


def has_autograd_kernel(op: Any, devices: Iterable[str]) -> bool:
    """Whether ``op`` records its gradient itself; else the ops that it calls record theirs."""
    keys = ("Autograd", "CompositeImplicitAutograd", *(f"Autograd{x.upper()}" for x in devices))
    return any(
        torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)
        and not torch._C._dispatch_kernel_for_dispatch_key_is_fallthrough(op.name(), key)
        for key in keys
    )


def answer_for_mode(
    mode: type, rule_finder: Callable[[Any, type], Callable[..., Any]], undo: ExitStack
) -> None:
    """Shorten torch's search for a dispatch rule of ``mode``, until ``undo`` is closed.

    For every op that runs under a mode, torch searches a registry for a rule of that mode and op.
    There are none for ``mode``; the native ``rule_finder`` answers without the search.

    Torch looks the search function up once, when the first op runs under any mode, and keeps it.
    Where that happened before this call, or this torch has no such function, observing works too
    and is only slower.
    """
    registry = sys.modules.get("torch._library.simple_registry")
    original = getattr(registry, _RULE, None)
    if isinstance(original, FunctionType):
        replace(registry, _RULE, rule_finder(original, mode), undo)


def stable_functions() -> tuple[int, ...]:
    """Addresses of torch's C functions with a stable binary interface that the native matcher
    calls, in its order; empty if this torch lacks one."""
    try:
        library = ctypes.CDLL(torch._C.__file__)
        functions = [getattr(library, f"aoti_torch_get_{name}") for name in _ASKED]
    except (OSError, AttributeError):
        return ()
    return tuple(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in functions)


def negated_view(tensor: torch.Tensor) -> torch.Tensor:
    """A view whose values torch negates when it reads them."""
    return torch._neg_view(tensor)  # type: ignore[no-any-return,attr-defined,unused-ignore]


def hide_from_compiler(*functions: Callable[..., Any]) -> None:
    """Keep dynamo from compiling ``functions`` and everything they call."""
    skip = _eval_frame._FrameAction.SKIP
    for function in functions:
        _eval_frame.set_code_exec_strategy(
            function.__code__, _eval_frame._FrameExecStrategy(skip, skip)
        )
        # A function that calls them is compiled up to the call, and from there on again.
        vars(function)["_torchdynamo_disable"] = True


def has_compiled() -> bool:
    """Whether something exists that ``torch.compile`` has made, and that may be compiled at any
    time."""
    kind = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizeContext", None)
    if not isinstance(kind, type) or not living_objects(kind):
        return False
    gc.collect()  # What is left of earlier trainings does not count.
    return bool(living_objects(kind))


def is_in_mode() -> bool:
    """Whether a dispatch mode or a TorchFunctionMode sees ops."""
    return bool(torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack())


@contextmanager
def hidden_from_modes() -> Iterator[None]:
    """Hide the ops of this block, which are Sonde's own, from all modes; tensor subclasses compute
    them as usual, unless a TorchFunctionMode is active."""
    if torch._C._len_torch_function_stack():
        with without_torch_functions(), without_current_modes():
            yield
    else:
        with without_current_modes():
            yield


def is_recording_trace() -> bool:
    """Whether ``torch.jit.trace`` records the ops that run."""
    return torch._C._get_tracing_state() is not None


@contextmanager
def _interruptible_pair(
    outer: AbstractContextManager[None], inner: AbstractContextManager[None]
) -> Iterator[None]:
    """What the native GuardPair does, in Python: an exception of a signal handler may leave both
    guards on until the exception is freed."""
    with outer, inner:
        yield


def _guard_pair() -> Callable[..., AbstractContextManager[None]]:
    try:
        module = importlib.import_module("sonde.adapters.torch.eager._match")
    except ImportError:
        return _interruptible_pair
    found: Callable[..., AbstractContextManager[None]] = getattr(
        module, "GuardPair", _interruptible_pair
    )
    return found


_both = _guard_pair()


def unobserved() -> AbstractContextManager[None]:
    """Hide the ops of this block, which are Sonde's own, from all modes."""
    return _both(without_modes(), without_torch_functions())


def storage_owners(storage: torch.UntypedStorage) -> int:
    """The number of owners of the memory of ``storage``, ``storage`` itself included."""
    return int(torch._C._storage_Use_Count(storage_id(storage)))


def version_of(tensor: torch.Tensor) -> int:
    """Torch's count of writes to the memory of ``tensor``; -1 where torch does not count."""
    try:
        return tensor._version
    except RuntimeError as error:
        pass_on(error)
        return -1


def count_write(tensors: Sequence[torch.Tensor]) -> None:
    """Count one write to each of ``tensors``, as torch does for an op that writes in place."""
    torch._C._increment_version(tensors)


def is_transforming() -> bool:
    """Whether a transform of ``torch.func`` runs, whose tensors are wrappers without memory, or
    ``torch.jit.trace``, which would see ops of Sonde."""
    if torch._C._are_functorch_transforms_active():
        return True
    return torch._C._get_tracing_state() is not None


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set torch's count of writes to the memory of ``tensor``, which holds what it held then."""
    if version >= 0 and version_of(tensor) != version:
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


@contextmanager
def kept_autograd() -> Iterator[None]:
    """Leave grad mode after this block as it was before it; inside it is on."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


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


def remove_hooks_of(owner: object) -> None:
    """Remove the hooks on all modules that are methods of ``owner``."""
    all_hooks = module_hooks()
    numbers = [
        number
        for hooks in all_hooks
        for number, hook in list(hooks.items())
        if type(hook) is MethodType and hook.__self__ is owner
    ]
    # The hooks last: an interruption may leave them, to be found again.
    for hooks in reversed(all_hooks):
        for number in numbers:
            hooks.pop(number, None)


def compiled_codes() -> list[CodeType]:
    """The code that dynamo has compiled and still keeps; imports nothing."""
    dynamo = sys.modules.get("torch._dynamo.convert_frame")
    references = getattr(getattr(dynamo, "output_codes", None), "seen", ())
    return [code for code in (reference() for reference in references) if code is not None]


def compiler_context() -> type | None:
    """The class of which ``torch.compile`` makes an object for each function that it gets, with any
    backend; None if the compiler is not imported."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    return getattr(dynamo, "OptimizeContext", None)


def has_compiled_functions() -> bool:
    """Whether functions were given to ``torch.compile``; imports nothing."""
    kind = compiler_context()
    if kind is None:
        return "torch._dynamo.eval_frame" in sys.modules  # Of this torch it is not known.
    return bool(compiled_codes()) or bool(living_objects(kind))


def run_uncompiled(is_on: bool) -> None:
    """Make compiled functions run eagerly (``is_on``), or compiled again.

    Does nothing if the compiler is not imported or the program has set a stance of its own.
    """
    dynamo: Any = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is None:
        return
    if is_on:
        version_probe.require("eager steps", ("torch._dynamo.eval_frame:_stance",))
        if dynamo._stance.stance != "default":
            return
        stance = dataclasses.replace(dynamo._stance, stance="force_eager")
        _STANCES.append(Patch(dynamo, "_stance", stance))
        _STANCES[-1].install()
    elif _STANCES:
        _STANCES.pop().restore()


_STANCES: list[Patch] = []
"""The patch that holds compiled code back; empty where it is not held back."""


def keeps_modes(*, at_entry: bool = False) -> bool:
    """Whether a mode entered or left here would be lost, because a caller restores the modes.

    Autograd's engine and the wrapper of a compiled function do that. ``at_entry``: the innermost
    such wrapper calls this code before it saves the modes, and does not count.
    """
    if torch._C._current_graph_task_id() != -1:
        return True
    frames = frames_from(sys._getframe(1))
    return sum(_is_compile_wrapper(frame.f_code) for frame in frames) > at_entry


def is_called_compiled(frame: FrameType | None) -> bool:
    """Whether the program called ``frame`` through a function that ``torch.compile`` returned.

    Torch itself does so for ``cond`` and similar ops, which do not count.
    """
    for each in frames_from(frame):
        if _is_compile_wrapper(each.f_code):
            return each.f_back is None or _HIGHER_ORDER not in each.f_back.f_code.co_filename
    return False


def frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    """``frame`` and the frames that called it, from the innermost outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_compile_wrapper(code: CodeType) -> bool:
    return code.co_name == "compile_wrapper" and code.co_filename.endswith(_COMPILER_FILE)


def is_tracing() -> bool:
    """Whether torch is tracing: it makes a graph with fake tensors and computes nothing."""
    get, keys = torch._C._get_dispatch_mode, torch._C._TorchDispatchModeKey
    return get(keys.FAKE) is not None or get(keys.PROXY) is not None
