"""Skips the ops of an optimizer at the end of a step, if no consumer wants them.

An optimizer's step is hundreds of small ops, the same in every step. If none of them is wanted, and
the optimizer ran the same ops twice before, the dispatch mode is left while it steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.dispatch_mode import Observer
from sonde.adapters.torch.eager.op_tree import OpRecord
from sonde.adapters.torch.mode_stack import pop_mode_below, push_mode_below
from sonde.capture.session import Session

_TIMES = 2
_MOST = 64
_UNIFORM = frozenset(
    {
        torch.optim.Adadelta,
        torch.optim.Adagrad,
        torch.optim.Adam,
        torch.optim.Adamax,
        torch.optim.AdamW,
        torch.optim.NAdam,
        torch.optim.RMSprop,
        torch.optim.SGD,
    }
)

_Signature = tuple[tuple[Any, ...], ...]


@dataclass(slots=True)
class _Seen:
    """How steps ended after an optimizer began at a given record, and how often they did so."""

    end: OpRecord
    signature: _Signature
    times: int
    checked: int = -1
    is_unwanted: bool = False


@dataclass(slots=True, eq=False)
class OptimizerSkip:
    """Leaves the dispatch mode while an optimizer steps whose ops are known and unwanted.

    Only for steps that end where the optimizer's ``step()`` returns, and only for torch's own
    optimizers: they run the same ops each time, unless the number of parameters with gradients
    or an option other than the learning rate changes, and then they are observed again. An
    optimizer of the program's own class, or with hooks, may run other ops in any step and is always
    observed. Used from the training thread only.
    """

    _observer: Observer
    _session: Session
    _seen: dict[OpRecord, _Seen] = field(default_factory=dict)
    _start: OpRecord | None = None
    _signature: _Signature = ()
    _skipped: _Seen | None = None

    def begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Leave the mode if possible: an optimizer is about to step, and the step ends with it."""
        if self._start is not None or not _is_uniform(optimizer):
            # Inside another optimizer's step, or its ops may differ from step to step.
            return
        if self._observer.is_every_op_wanted:
            return
        self._start = self._observer.last
        self._signature = _signature(optimizer)
        seen = self._seen.get(self._start)
        if (
            seen is not None
            and seen.times >= _TIMES
            and seen.signature == self._signature
            and not self._observer.tables.lends
            and self._is_unwanted(seen, self._start)
            and not private.keeps_modes()
        ):
            pop_mode_below(self._observer)
            self._skipped = seen

    def ends(self) -> None:
        """Continue after the optimizer's last op, if its ops were skipped; else remember them."""
        start, seen = self._start, self._skipped
        self.forget()
        if seen is not None:
            self._observer.set_current(seen.end)
        elif start is not None:
            self._remember(start, self._observer.last)

    def forget(self) -> None:
        """Enter the mode again: the optimizer raised, or other code runs inside its step."""
        self._start = None
        if self._skipped is not None:
            self._skipped = None
            push_mode_below(self._observer)

    def _remember(self, start: OpRecord, end: OpRecord) -> None:
        seen = self._seen.get(start)
        if seen is not None and seen.end is end and seen.signature == self._signature:
            seen.times += 1
            return
        if len(self._seen) >= _MOST:
            self._seen.clear()
        self._seen[start] = _Seen(end, self._signature, 1)

    def _is_unwanted(self, seen: _Seen, start: OpRecord) -> bool:
        generation = self._session.generation
        if seen.checked != generation:
            seen.is_unwanted = _is_unwanted(seen.end, start, generation)
            # Whether a record is wanted is known once it has run in this generation.
            seen.checked = generation if seen.is_unwanted else -1
        return seen.is_unwanted


def _is_unwanted(end: OpRecord, start: OpRecord, generation: int) -> bool:
    """Whether no op, and no step input of one, after ``start`` up to ``end`` is wanted."""
    record: OpRecord | None = end
    while record is not start:
        if (
            record is None
            or record.inner
            or record.scope.phase != "optimizer"
            or record.wants_generation != generation
            or record.wants is not None
            or any(leaf.wants is not None for _, leaf, _ in record.leaves)
        ):
            return False
        record = record.parent
    return True


def _is_uniform(optimizer: torch.optim.Optimizer) -> bool:
    return type(optimizer) in _UNIFORM and not (
        optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    )


def _signature(optimizer: torch.optim.Optimizer) -> _Signature:
    return (
        (id(optimizer), len(optimizer.state)),
        *(
            (
                len(group["params"]),
                sum(parameter.grad is not None for parameter in group["params"]),
                *(
                    (name, value if isinstance(value, (bool, int, float, tuple)) else id(value))
                    for name, value in group.items()
                    if name not in ("params", "lr")
                ),
            )
            for group in optimizer.param_groups
        ),
    )
