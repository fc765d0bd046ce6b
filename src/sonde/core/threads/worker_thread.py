"""A thread that runs functions for the training thread.

``concurrent.futures`` would do, but for the reason that ``thread_event`` gives.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sonde.core.interruption import start_thread
from sonde.core.threads.thread_event import ThreadEvent

Result = TypeVar("Result")


class Job(Generic[Result]):
    """One call of a function, in the thread of a ``WorkerThread``."""

    __slots__ = ("_call", "_done", "_error", "_result")

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call: Callable[[], Result] | None = call
        self._done = ThreadEvent()
        self._error: BaseException | None = None
        self._result: Result

    def run(self) -> None:
        call, self._call = self._call, None  # What the function refers to is free when it returns.
        assert call is not None
        try:
            self._result = call()
        except BaseException as error:  # Raised in the thread that asks for the result.
            self._error = error
        finally:
            self._done.set()

    def result(self) -> Result:
        """Wait for the call; what it returned, or raise what it raised."""
        while not self._done.wait():
            pass
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            del self  # The traceback refers to this frame.


class WorkerThread:
    """One thread, which starts with the first function; functions run in their order.

    Its methods are called by one thread. Its owner calls ``close``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._has_jobs = False
        # Held by the thread that works, as long as it lives: an interruption while one starts may
        # leave two, or none.
        self._working = threading.Lock()
        self._ended = ThreadEvent()

    def submit(self, call: Callable[[], Result]) -> Job[Result]:
        """Run ``call`` after those before it."""
        job = Job(call)
        self._has_jobs = True
        self._start()
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """Wait for all functions, and end the thread."""
        if not self._has_jobs:
            return
        self._start()
        self._jobs.put(None)
        while not self._ended.wait():
            pass

    def _start(self) -> None:
        if not self._working.locked() and not self._ended.is_set():
            start_thread(threading.Thread(target=self._run, name=self._name, daemon=True))

    def _run(self) -> None:
        if not self._working.acquire(blocking=False):
            return
        while (job := self._jobs.get()) is not None:
            job.run()
            del job
        self._ended.set()
