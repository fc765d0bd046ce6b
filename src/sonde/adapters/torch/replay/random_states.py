"""Random generators and autocast: read before a forward pass, and set for its repetition."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from sonde.adapters.torch.replay.step_record import AutocastState, RandomStates


def _has_cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def take_random(*, with_python: bool = True) -> RandomStates:
    """The states of the global generators. Without ``with_python`` only those of torch: reading
    the others takes 40 microseconds."""
    numpy: Any = sys.modules.get("numpy")
    devices = {}
    if _has_cuda():
        index = torch.cuda.current_device()
        devices[index] = torch.cuda.get_rng_state(index)
    return RandomStates(
        torch.get_rng_state(),
        random.getstate() if with_python else None,
        numpy.random.get_state() if with_python and numpy is not None else None,
        devices,
    )


def set_random(states: RandomStates) -> None:
    torch.set_rng_state(states.cpu)
    if states.python is not None:
        random.setstate(states.python)
    if states.numpy is not None:
        sys.modules["numpy"].random.set_state(states.numpy)
    for index, state in states.devices.items():
        torch.cuda.set_rng_state(state, index)


@contextmanager
def kept_random() -> Iterator[None]:
    """Leave the generators after this block as they were before it."""
    states = take_random()
    try:
        yield
    finally:
        set_random(states)


def autocast_states() -> tuple[AutocastState, ...]:
    """Autocast as it is now, of the devices for which it is on."""
    devices = ("cpu", "cuda") if _has_cuda() else ("cpu",)
    return tuple(
        AutocastState(
            device, True, torch.get_autocast_dtype(device), torch.is_autocast_cache_enabled()
        )
        for device in devices
        if torch.is_autocast_enabled(device)
    )


class AutocastRegion:
    """Enters and leaves autocast as the events of a step need it.

    Events in a row with the same state share one region, as they did in the program: inside a
    region a weight is cast once, and the gradients of its uses are added up in the lower precision.
    A backward pass ends a region. Where the program itself is inside a region, casts are not
    cached, because its cache must stay as it is.
    """

    def __init__(self) -> None:
        self._outer = autocast_states()
        self._states = self._outer
        self._entered = ExitStack()

    def set(self, states: Sequence[AutocastState]) -> None:
        """Make ``states`` the state of autocast."""
        wanted = tuple(states)
        if wanted == self._states:
            return
        self.close()
        for outer in self._outer:
            if all(each.device != outer.device for each in wanted):
                self._entered.enter_context(torch.autocast(outer.device, enabled=False))
        for each in wanted:
            self._entered.enter_context(
                torch.autocast(
                    each.device, each.dtype, cache_enabled=each.is_cached and not self._outer
                )
            )
        self._states = wanted

    def close(self) -> None:
        """Return to the state of the program."""
        self._entered.close()
        self._states = self._outer
