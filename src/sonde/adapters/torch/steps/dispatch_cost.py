"""What torch's call of a dispatch mode costs on this machine."""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.core.interruption import pass_on, start_thread

_ROUNDS, _CALLS = 3, 200


class _Inert(private.TorchDispatchMode):  # type: ignore[misc]
    """Passes every op on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def dispatch_seconds() -> float:
    """The processor time that an op takes longer under a mode that does nothing; 0 if unknown.

    Measured in a thread of its own, as modes and the state of autograd belong to a thread: the
    program's modes do not see these ops. Takes about ten milliseconds.
    """
    measured: list[float] = []
    thread = threading.Thread(target=_measure, args=(measured,), name="sonde-cost", daemon=True)
    try:
        start_thread(thread)
    except RuntimeError as error:  # The system starts no more threads.
        pass_on(error)
        return 0.0
    thread.join()
    return max(statistics.median(measured), 0.0) if measured else 0.0


def _measure(measured: list[float]) -> None:
    numbers = torch.ones(4, device="cpu")
    _seconds(numbers)
    for _ in range(_ROUNDS):
        bare = _seconds(numbers)
        with _Inert():
            measured.append((_seconds(numbers) - bare) / _CALLS)


def _seconds(numbers: torch.Tensor) -> float:
    began = time.thread_time()
    for _ in range(_CALLS):
        torch.add(numbers, numbers)
    return time.thread_time() - began
