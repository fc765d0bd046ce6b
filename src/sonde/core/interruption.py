"""Tells exceptions of the program, raised while Sonde's code runs, from failures of Sonde.

Python runs a signal handler between any two instructions of the main thread, so also inside Sonde's
functions, and so it does with a tracer. What such a function raises (a time-out, a request to stop)
is meant for the program.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import pairwise
from types import FrameType, TracebackType

from sonde.core.threads.thread_event import ThreadEvent

_SONDE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def is_interruption(error: BaseException) -> bool:
    """Whether a function that Sonde did not call raised ``error``.

    Python gives a signal handler, and a tracer, the frame that it interrupted, which is the frame
    before its own in the traceback. Functions that Sonde or torch calls get no such
    argument.
    """
    frames = [entry.tb_frame for entry in _entries(error.__traceback__)]
    return any(
        _has_argument(inner, outer)
        for outer, inner in pairwise(frames)
        if not inner.f_code.co_filename.startswith(_SONDE)
    )


def hidden_interruption(error: BaseException) -> BaseException | None:
    """The interruption that ``error`` is, or during whose handling it was raised.

    Code that cleans up after an interruption may fail because it was interrupted:
    ``Thread.start``, for example. An exception that the program handles while Sonde's code runs is
    in the context of ``error``, too, but the frame that caught it is none of those that ``error``
    has left.
    """
    found: BaseException | None = error
    frames = {entry.tb_frame for entry in _entries(error.__traceback__)}
    while found is not None and not is_interruption(found):
        found = found.__context__
        if found is None or found.__traceback__ is None:
            return None
        if found.__traceback__.tb_frame not in frames:
            return None
    return found


def raise_interruption(error: BaseException) -> None:
    """Raise the interruption that ``error`` is or hides; do nothing if there is none."""
    interruption = hidden_interruption(error)
    if interruption is not None:
        try:
            raise interruption
        finally:
            # A reference from this frame, which the traceback holds, would keep what the frames of
            # the error own until a garbage collection: torch's guards, for example.
            del error, interruption


def pass_on(error: BaseException) -> None:
    """Raise ``error`` again if it is none of Sonde: an interruption, or the program's recursion has
    used up the stack. For ``except`` clauses around Sonde's own code in the training thread."""
    try:
        if isinstance(error, RecursionError):
            raise error
        raise_interruption(error)
    finally:
        del error


@contextmanager
def ignored(*kinds: type[Exception]) -> Iterator[None]:
    """Ignore exceptions of these kinds that Sonde's own code raises in the block: the same as
    ``contextlib.suppress``, for the training thread."""
    try:
        yield
    except kinds as error:
        pass_on(error)


def start_thread(thread: threading.Thread) -> None:
    """Start ``thread``; RuntimeError if the system refuses it.

    ``Thread.start`` that is interrupted by an exception of a signal handler leaves a thread that
    prints a traceback, or one that cannot be joined. Handlers run in the main thread only, so that
    the method is called in another one. The exception still reaches the caller, while the thread
    starts: the caller tells it to end.
    """
    done = ThreadEvent()
    problems: list[Exception] = []

    def start() -> None:
        try:
            thread.start()
        except Exception as error:
            problems.append(error)
        finally:
            done.set()

    _thread.start_new_thread(start, ())
    done.wait()
    if problems:
        raise problems[0]


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _has_argument(frame: FrameType, wanted: FrameType) -> bool:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    values = frame.f_locals
    for name in code.co_varnames[:count]:
        value = values.get(name)
        if value is wanted or (isinstance(value, tuple) and any(x is wanted for x in value)):
            return True
    return False
