"""Where a program clears gradients between the backward passes of a step."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType

import torch

from sonde.adapters.torch.debugging.optimizers import parameters_of
from sonde.adapters.torch.replay.kept_tensor import KeptTensor
from sonde.adapters.torch.replay.run_again import batch_size
from sonde.adapters.torch.replay.step_record import BackwardPass, OutsideOp, StepRecord
from sonde.core.graph import Source

_CLEARING = ("zero_", "_foreach_zero_")


@dataclass(frozen=True, slots=True)
class Cleared:
    """The program cleared the gradients of backward pass ``number``, counted from 0, before the
    optimizer's step; ``rows`` is the size of its micro-batch, None if it is not known."""

    number: int
    passes: int
    source: Source | None
    rows: int | None = None


def cleared_passes(record: StepRecord, optimizer: torch.optim.Optimizer | None) -> list[Cleared]:
    """The backward passes whose gradients were cleared before a later pass: those of at least half
    of the parameters of ``optimizer`` that have a gradient; of any, without one."""
    passes = record.backward_passes
    if len(passes) < 2:
        return []
    owned = None if optimizer is None else _with_gradient(optimizer)
    found: list[Cleared] = []
    running: list[int] = []
    cleared: dict[int, OutsideOp] = {}
    for event in record.events:
        if isinstance(event, BackwardPass):
            if running and _is_lost(cleared, owned):
                line = next(iter(cleared.values())).line
                found += [
                    Cleared(number, len(passes), source_at(line), batch_size(record, number))
                    for number in running
                ]
                running = []
            cleared = {}
            running.append(event.number)
        elif running and isinstance(event, OutsideOp):
            cleared.update((key, event) for key in _cleared_by(event, passes[running[-1]]))
    return found


def _with_gradient(optimizer: torch.optim.Optimizer) -> set[int]:
    return {id(each) for each in parameters_of(optimizer) if each.grad is not None}


def _is_lost(cleared: Iterable[int], owned: set[int] | None) -> bool:
    if owned is None:
        return bool(set(cleared))
    return bool(owned) and 2 * len(owned & set(cleared)) >= len(owned)


def _cleared_by(op: OutsideOp, passed: BackwardPass) -> Iterator[int]:
    """Ids of the parameters whose gradients ``op`` sets to None or to zero."""
    if op.name == "__set__":
        is_gradient = getattr(op.function, "__self__", None) is torch.Tensor.grad
        if is_gradient and op.args[-1] is None and isinstance(op.args[0], KeptTensor):
            yield op.args[0].key
    elif op.name in _CLEARING:
        written = {id(before.leaf) for before, _ in op.written}
        for parameter, gradient in passed.parameter_gradients:
            if id(gradient.leaf) in written:
                yield id(parameter)


def source_at(line: tuple[CodeType, int] | None) -> Source | None:
    """The line of the program that a record has."""
    if line is None:
        return None
    code, number = line
    text = linecache.getline(code.co_filename, number).strip()
    return Source(code.co_filename, number, code.co_name, text)
