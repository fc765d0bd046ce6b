"""Finds out which ops a network will run, before it runs them.

A forked copy of the process traces the network; the training itself does nothing but wait at its
pause. docs/decisions/0011 has the reasons.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType
from typing import Final

from sonde.adapters.torch.adapter import TorchAdapter
from sonde.adapters.torch.debugging.held_tensors import TorchHeld
from sonde.core.interruption import start_thread
from sonde.debugger.trainee import ForwardTrace

_MOST_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.2
_MOST_TEXT: Final = 300
_CHUNK: Final = 1 << 16


def start_trace(
    adapter: TorchAdapter, held: Mapping[int, TorchHeld], deliver: Callable[[ForwardTrace], None]
) -> Callable[[], None]:
    """Trace the outermost module that runs now, in a copy of this process. ``held``: its tensors by
    their ids. See ``debugger.trainee.Trainee.trace_forward``."""
    if adapter.observer.scopes.outermost_module is None or not hasattr(os, "fork"):
        return lambda: None
    reader, writer = os.pipe()
    try:
        with warnings.catch_warnings():
            # Python warns of forks with threads, since these may hold locks. Then the copy waits
            # for a lock until it is killed.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        deliver(ForwardTrace(problem=f"the process cannot be copied: {error.strerror}"))
        return lambda: None
    if child == 0:
        _run_copy(adapter, held, writer)
    os.close(writer)
    return _Waiting(child, reader, deliver).stop


class _Waiting:
    """Waits for the result of the copy, in a thread of its own. ``stop`` kills the copy."""

    def __init__(self, child: int, reader: int, deliver: Callable[[ForwardTrace], None]) -> None:
        self._child = child
        self._reader = reader
        self._deliver = deliver
        self._is_stopped = False
        self._lock = threading.Lock()
        self._is_reaped = False  # Then its number may belong to another process.
        self._thread = threading.Thread(target=self._wait, name="sonde-trace", daemon=True)
        start_thread(self._thread)

    def stop(self) -> None:
        self._is_stopped = True
        self._kill()
        self._thread.join()

    def _kill(self) -> None:
        with self._lock, suppress(ProcessLookupError):
            if not self._is_reaped:
                os.kill(self._child, signal.SIGKILL)

    def _wait(self) -> None:
        data = self._read()
        os.close(self._reader)
        if data is None:
            self._kill()
        with self._lock:  # The copy has ended, or is about to.
            self._is_reaped = True
            with suppress(ChildProcessError):  # The program waits for all its children, perhaps.
                os.waitpid(self._child, 0)
        if not self._is_stopped:
            self._deliver(_result(data))

    def _read(self) -> bytes | None:
        """Everything the copy wrote; None if it took too long, or was stopped.

        A process that another thread has forked meanwhile may hold the other end of the pipe, which
        then stays open although the copy has ended.
        """
        waiting = select.poll()
        waiting.register(self._reader, select.POLLIN | select.POLLHUP)
        end = time.monotonic() + _MOST_SECONDS
        data = bytearray()
        while time.monotonic() < end and not self._is_stopped:
            if waiting.poll(_POLL_SECONDS * 1e3):
                chunk = os.read(self._reader, _CHUNK)
                if not chunk:
                    return bytes(data)
                data += chunk
        return None


def _result(data: bytes | None) -> ForwardTrace:
    if data is None:
        return ForwardTrace(problem=f"tracing them took more than {_MOST_SECONDS:.0f} s")
    try:
        found = pickle.loads(data)
        assert isinstance(found, ForwardTrace)
    except Exception:
        return ForwardTrace(problem="the process that traced them has crashed")
    return found


# ------------------------------------------------------------------ in the copy


def _run_copy(adapter: TorchAdapter, held: Mapping[int, TorchHeld], writer: int) -> None:
    """Trace, write the result, and end this process, whatever happens. No function of the program
    returns here, and no cleanup code runs."""
    try:
        # Objects that the program has dropped must not run their finalizers twice.
        gc.disable()
        _silence()
        warnings.simplefilter("ignore")
        found = _traced(adapter, held, sys._getframe())
        data = pickle.dumps(found)
        while data:
            data = data[os.write(writer, data) :]
    finally:
        os._exit(0)


def _silence() -> None:
    """Let nothing that this process does reach the terminal, and no signal its handlers."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with suppress(ValueError, OSError):
            signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)


def _traced(adapter: TorchAdapter, held: Mapping[int, TorchHeld], frame: FrameType) -> ForwardTrace:
    """Trace in a new thread: in this one an op is being dispatched, and modes are active."""
    from sonde.adapters.torch.debugging.network_tracing import NetworkTracer

    tracer = NetworkTracer.at(adapter, held, frame)
    if tracer is None:
        return ForwardTrace(problem="no module runs")
    results: list[ForwardTrace] = []

    def trace() -> None:
        try:
            results.append(tracer.trace())
        except BaseException as error:
            results.append(ForwardTrace(problem=_reason(error)))

    thread = threading.Thread(target=trace)
    start_thread(thread)
    thread.join()
    return results[0]


def _reason(error: BaseException) -> str:
    """The first line of an error, with its type."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
