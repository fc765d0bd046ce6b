"""The optimizer at the end of a step, which need not be watched op by op if nobody wants its ops.

An optimizer's step is hundreds of small ops, the same in every step. Where none of them is wanted,
and it did the same twice before, the third time the dispatch mode steps aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager import Observer
from sonde.adapters.torch.structure import Record
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
    """How the steps ended in which an optimizer began where this is kept."""

    end: Record
    signature: _Signature
    times: int
    checked: int = -1
    is_unwanted: bool = False


class OptimizerTail:
    """Takes the mode away while an optimizer steps whose ops are known and wanted by nobody.

    Only for steps that end where the optimizer's ``step()`` returns, and for optimizers of torch
    that do the same ops each time unless what they have changes: how many parameters with
    gradients, or an option other than the learning rate. Then they are watched again. Optimizers of
    a class of the program's own, or with hooks, may do anything at any step, and are always
    watched. Used from the training thread only.
    """

    def __init__(self, observer: Observer, session: Session) -> None:
        self._observer = observer
        self._session = session
        self._seen: dict[Record, _Seen] = {}
        self._start: Record | None = None
        self._signature: _Signature = ()
        self._away: _Seen | None = None

    def begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to step, as the last thing in this step."""
        if self._start is not None or not _is_uniform(optimizer):
            # Inside another optimizer's step, or not to be relied on.
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
            private.pop_mode_below(self._observer)
            self._away = seen

    def ends(self) -> None:
        """The step ends: the optimizer has done what it always does, or has shown what it does."""
        start, seen = self._start, self._away
        self.forget()
        if seen is not None:
            self._observer.ran_unwatched(seen.end)
        elif start is not None:
            self._remember(start, self._observer.last)

    def forget(self) -> None:
        """The optimizer did something else, or has raised: watch again what follows."""
        self._start = None
        if self._away is not None:
            self._away = None
            private.push_mode_below(self._observer)

    def _remember(self, start: Record, end: Record) -> None:
        seen = self._seen.get(start)
        if seen is not None and seen.end is end and seen.signature == self._signature:
            seen.times += 1
            return
        if len(self._seen) >= _MOST:
            self._seen.clear()
        self._seen[start] = _Seen(end, self._signature, 1)

    def _is_unwanted(self, seen: _Seen, start: Record) -> bool:
        generation = self._session.generation
        if seen.checked != generation:
            seen.is_unwanted = _is_unwanted(seen.end, start, generation)
            # Records are asked when they run: until they all have been, there is no answer.
            seen.checked = generation if seen.is_unwanted else -1
        return seen.is_unwanted


def _is_unwanted(end: Record, start: Record, generation: int) -> bool:
    """Whether nobody wants an op, or a leaf of one, after ``start`` up to ``end``."""
    record: Record | None = end
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
