"""How much of a training's time is ours: what torch does to show us its ops."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import torch

from sonde.adapters.torch.eager import Observer
from sonde.adapters.torch.scopes import ScopeBook
from sonde.adapters.torch.structure import Structures
from sonde.capture.session import Session

logger = logging.getLogger("sonde.capture")

_LEARNING: Final = 2
_ROUNDS: Final = 12
_FEWEST_ROUNDS: Final = 3
_MOST_SECONDS: Final = 0.3


def seconds_of_visit() -> float:
    """How much longer an op takes because an Observer sees it, what that does itself left out: its
    tables count that. Measured over ops as a training has them, on tensors too small to take time,
    as the least of some rounds; 0 where it cannot be measured. Never raises.

    In a thread of its own, in which nothing is entered that the program has entered: modes, hooks
    on what is saved for the backward, the autograd state.
    """
    found: list[float] = []
    thread = threading.Thread(target=_measure, args=(found,), name="sonde-visits")
    try:
        thread.start()
    except RuntimeError:  # no more threads
        return 0.0
    thread.join()
    return max(found[0], 0.0) if found else 0.0


def _measure(found: list[float]) -> None:
    try:
        found.append(_cost())
    except Exception:  # a shield: nobody else would see it
        logger.debug("the cost of showing an op cannot be measured", exc_info=True)


def _cost() -> float:
    broken: list[Exception] = []
    observer = Observer(
        Session([]), ScopeBook(), Structures("visits"), broken.append, starts_at_once=True
    )
    tables = observer.tables
    tables.counts_time = 1
    make: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}
    weight = torch.full((4, 4), 0.5, requires_grad=True, **make)
    bias = torch.zeros(4, requires_grad=True, **make)
    moments = [torch.zeros(4, 4, **make), torch.zeros(4, **make)]
    rounds: list[tuple[float, float]] = []
    end = time.perf_counter() + _MOST_SECONDS
    while len(rounds) < _LEARNING + _ROUNDS:
        plain = _timed(lambda: _train(weight, bias, moments))
        observer.begin_step()
        own, visits = tables.own_seconds(), tables.visits
        with observer:
            seen = _timed(lambda: _train(weight, bias, moments))
        own, visits = tables.own_seconds() - own, tables.visits - visits
        observer.end_step()
        rounds.append((plain, seen - own))
        if len(rounds) >= _LEARNING + _FEWEST_ROUNDS and time.perf_counter() > end:
            break
    observer.close()
    if broken or not visits:
        return 0.0
    plain, seen = map(min, zip(*rounds[_LEARNING:], strict=True))
    return float((seen - plain) / visits)


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _train(weight: torch.Tensor, bias: torch.Tensor, moments: list[torch.Tensor]) -> None:
    """A small training step, of ops alone."""
    functional = torch.nn.functional
    value = weight.detach()
    for _ in range(6):
        value = functional.layer_norm(value, (4,), bias, bias)
        value = torch.addmm(bias, value, weight)
        value = torch.relu(value.view(2, 8).view(4, 4).transpose(0, 1) + weight)
        value = value * weight.softmax(dim=-1)
    gradients = list(torch.autograd.grad(value.mean(), (weight, bias)))
    with torch.no_grad():
        torch._foreach_mul_(moments, 0.9)
        torch._foreach_add_(moments, gradients, alpha=0.1)
