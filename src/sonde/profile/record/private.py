"""The private parts of torch that profiling stands on.

What is missing here costs a part of the report, never the training: every use says what is lost.
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
from sonde.core.patching import replace, wrap
from sonde.profile.record.events import MemoryEvent, TraceEvent

_RANGE_SCOPE = 7  # RecordScope::USER_SCOPE
_MEMORY = "[memory]"
_QUIET_KINETO = "6"
_C10_ERRORS_ONLY = 2


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compilation by torch.compile; ``begin`` and ``seconds`` are of the wall clock."""

    file: str
    line: int
    function: str
    begin: float
    seconds: float
    reason: str


def read_events(profiler: profile) -> tuple[list[TraceEvent], list[MemoryEvent]]:
    """The events of a stopped profiler on the host, in no special order."""
    inner = getattr(profiler, "profiler", None)
    results: Any = getattr(inner, "kineto_results", None)
    if results is None:
        raise TorchVersionError(torch.__version__, "torch.profiler.profile.profiler.kineto_results")
    events: list[TraceEvent] = []
    memory: list[MemoryEvent] = []
    for raw in results.events():
        name = raw.name()
        if name == _MEMORY:
            memory.append(MemoryEvent(raw.start_ns(), raw.nbytes(), raw.start_thread_id()))
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
                dtypes=tuple(raw.dtypes()),
            )
        )
    return events, memory


@contextlib.contextmanager
def watching_backward(
    began: Callable[[Sequence[Any]], None], ended: Callable[[], None]
) -> Iterator[bool]:
    """Call ``began`` with the tensors to differentiate before each backward, ``ended`` after it.

    Neither may raise. Yields False where this torch has no such place: then neither is called.
    """
    original = getattr(torch.autograd, "_engine_run_backward", None)
    if original is None:
        yield False
        return

    def run(outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        began(outputs)
        try:
            return original(outputs, *args, **kwargs)
        finally:
            ended()

    with contextlib.ExitStack() as undo:
        wrap(torch.autograd, "_engine_run_backward", lambda _: run, undo)
        yield True


def another_profiler_runs() -> bool:
    """Whether torch's profiler is on in this thread, by whomever."""
    enabled: Callable[[], bool] = getattr(torch.autograd, "_profiler_enabled", lambda: False)
    return enabled()


@contextlib.contextmanager
def giving_way(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` when the program is about to start torch's profiler itself.

    There is one profiler a thread: with ours still on, theirs would fail.
    """
    owner: Any = torch.autograd.profiler.profile
    original = owner.__dict__.get("_prepare_trace")
    if original is None:
        yield
        return

    @functools.wraps(original)
    def prepare(this: Any) -> Any:
        stop()
        return original(this)

    owner._prepare_trace = prepare
    try:
        yield
    finally:
        owner._prepare_trace = original


@contextlib.contextmanager
def quiet_first_start() -> Iterator[None]:
    """Kineto prints a line at every start and stop unless its level says otherwise at its first."""
    name = "KINETO_LOG_LEVEL"
    given = os.environ.get(name)
    if given is None:
        os.environ[name] = _QUIET_KINETO
    try:
        yield
    finally:
        if given is None:
            del os.environ[name]


def light_options() -> dict[str, Any]:
    """Options of torch's profiler that make it cheaper; what they leave out is for GPUs.

    An op is not tied to the kernels it launches, a fifth of an event's cost.
    """
    experimental: Any = getattr(torch._C._profiler, "_ExperimentalConfig", None)
    try:
        return {"experimental_config": experimental(disable_external_correlation=True)}
    except TypeError:  # a torch without it
        return {}


@contextlib.contextmanager
def ops_and_ranges_only() -> Iterator[None]:
    """A profiler that starts in this context records no second event for a backward op.

    Those called ``AddmmBackward0`` lie in one of the engine's and hold the ops: both are recorded.
    """
    module: Any = torch.autograd.profiler
    original = getattr(module, "_enable_profiler", None)
    scopes = getattr(torch._C._profiler, "RecordScope", None)
    if original is None or scopes is None:
        yield
        return
    wanted = {scopes.FUNCTION, scopes.USER_SCOPE}
    with contextlib.ExitStack() as undo:
        replace(module, "_enable_profiler", functools.partial(original, scopes=wanted), undo)
        yield


class QuietMemory:
    """While on, c10 does not warn of blocks that are older than the profile (once a second)."""

    def __init__(self) -> None:
        path = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
        self._level: ctypes.c_int | None
        try:
            self._level = ctypes.c_int.in_dll(ctypes.CDLL(path), "FLAGS_caffe2_log_level")
        except (OSError, ValueError):
            self._level = None
        self._before = 0

    def on(self) -> None:
        if self._level is not None:
            self._before = self._level.value
            self._level.value = max(self._before, _C10_ERRORS_ONLY)

    def off(self) -> None:
        if self._level is not None:
            self._level.value = self._before


def has_compiled() -> bool:
    """Whether torch.compile has compiled, or begun to, anything in this process."""
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
