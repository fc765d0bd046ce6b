"""The private parts of torch that profiling depends on.

Where the installed torch lacks one of them, the report lacks something; the training is unaffected.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import profile

from sonde.core.errors import TorchVersionError
from sonde.core.patching import call_before, replace, wrap
from sonde.profile.record.events import MemoryEvent, TraceEvent

_RANGE_SCOPE = 7  # RecordScope::USER_SCOPE
_MEMORY = "[memory]"
_QUIET_KINETO = "6"
_C10_ERRORS_ONLY = 2


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compilation by torch.compile; ``begin`` and ``seconds`` are wall-clock times."""

    file: str
    line: int
    function: str
    begin: float
    seconds: float
    reason: str


def read_events(profiler: profile) -> tuple[list[TraceEvent], list[MemoryEvent]]:
    """The host events of a stopped profiler, unordered."""
    inner = getattr(profiler, "profiler", None)
    results: Any = getattr(inner, "kineto_results", None)
    if results is None:
        raise TorchVersionError(torch.__version__, "torch.profiler.profile.profiler.kineto_results")
    events: list[TraceEvent] = []
    memory: list[MemoryEvent] = []
    for raw in results.events():
        name = raw.name()
        if name == _MEMORY:
            memory.append(MemoryEvent(raw.start_ns(), raw.nbytes()))
            continue
        start = raw.start_ns()
        events.append(
            TraceEvent(
                name=name,
                start=start,
                end=start + raw.duration_ns(),
                thread=raw.start_thread_id(),
                is_range=raw.scope() == _RANGE_SCOPE,
                is_async=raw.is_async(),
                shapes=tuple(map(tuple, raw.shapes())),
            )
        )
    return events, memory


@contextlib.contextmanager
def watching_backward(
    began: Callable[[Sequence[Any]], None], ended: Callable[[], None]
) -> Iterator[None]:
    """Call ``began`` with the tensors to differentiate before each backward, ``ended`` after it.

    Neither may raise. Neither is called if torch has no such function to wrap.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            began(outputs)
            try:
                return original(outputs, *args, **kwargs)
            finally:
                ended()

        return run

    with contextlib.ExitStack() as undo:
        if hasattr(torch.autograd, "_engine_run_backward"):
            wrap(torch.autograd, "_engine_run_backward", make, undo)
        yield


def another_profiler_runs() -> bool:
    """Whether any code has torch's profiler running in this thread."""
    enabled: Callable[[], bool] = getattr(torch.autograd, "_profiler_enabled", lambda: False)
    return enabled()


@contextlib.contextmanager
def before_another_profiler(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` when the program is about to start torch's profiler itself.

    A thread can run one profiler: the program's would fail while Sonde's runs.
    """
    kind = torch.autograd.profiler.profile
    with contextlib.ExitStack() as undo:
        if hasattr(kind, "_prepare_trace"):
            call_before(kind, "_prepare_trace", lambda _: stop(), undo)
        yield


@contextlib.contextmanager
def quiet_first_start() -> Iterator[None]:
    """Set the log level that Kineto reads at its first start.

    By default it prints a line at every start and stop.
    """
    name = "KINETO_LOG_LEVEL"
    was_set = name in os.environ
    os.environ.setdefault(name, _QUIET_KINETO)
    try:
        yield
    finally:
        if not was_set:
            del os.environ[name]


def light_options() -> dict[str, Any]:
    """Options of torch's profiler that make it cheaper; only GPU profiles need what they omit.

    An op is not linked to the kernels that it launches, which is a fifth of an event's cost.
    """
    experimental: Any = getattr(torch._C._profiler, "_ExperimentalConfig", None)
    try:
        return {"experimental_config": experimental(disable_external_correlation=True)}
    except TypeError:  # a torch without this option
        return {}


@contextlib.contextmanager
def ops_and_ranges_only() -> Iterator[None]:
    """A profiler that starts in this context records no second event for a backward op.

    Omitted are events such as ``AddmmBackward0``: the engine's event around it and the ops inside
    it are recorded.
    """
    module: Any = torch.autograd.profiler
    original = getattr(module, "_enable_profiler", None)
    scopes = getattr(torch._C._profiler, "RecordScope", None)
    with contextlib.ExitStack() as undo:
        if original is not None and scopes is not None:
            wanted = {scopes.FUNCTION, scopes.USER_SCOPE}
            replace(module, "_enable_profiler", functools.partial(original, scopes=wanted), undo)
        yield


@contextlib.contextmanager
def quiet_memory() -> Iterator[None]:
    """Suppress c10's warnings, one a second, about blocks that are older than the profile."""
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
    try:
        level = ctypes.c_int.in_dll(ctypes.CDLL(path), "FLAGS_caffe2_log_level")
    except (OSError, ValueError):
        yield
        return
    before = level.value
    level.value = max(before, _C10_ERRORS_ONLY)
    try:
        yield
    finally:
        level.value = before


def has_compiled() -> bool:
    """Whether torch.compile has compiled, or begun to compile, anything in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    return bool(counters is not None and counters.get("frames", {}).get("total", 0))


def compilations() -> list[Compilation]:
    """The latest compilations of this process, oldest first; torch keeps a limited number."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    listed = getattr(dynamo, "get_compilation_metrics", None)
    if listed is None:
        return []
    return [
        Compilation(
            file=str(each.co_filename),
            line=int(each.co_firstlineno or 0),
            function=str(each.co_name),
            begin=each.start_time_us / 1e6,
            seconds=(each.duration_us or 0) / 1e6,
            reason=str(each.recompile_reason or ""),
        )
        for each in listed()
        if getattr(each, "co_filename", None) and getattr(each, "start_time_us", None)
    ]
