"""Tells the user once if observing a program whose steps do not repeat is slow."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from types import MethodType, ModuleType

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager import matcher
from sonde.adapters.torch.eager.dispatch_mode import Observer
from sonde.adapters.torch.eager.op_tree import Structures

_FIRST_STEPS = 4
_MEASURED_STEPS = 8
_JUDGED_STEPS = 20
_MANY = 100
_SLOW = 2.5
_TIMED_OPS = 100
_TIMINGS = 7


@dataclass(frozen=True, slots=True)
class Work:
    """What the training thread has done since the capture began.

    ``learned`` ops were learned, ``told`` ones told by their call sites, of ``ops`` in all.
    ``seconds`` is the processor time of the thread, ``own`` the part of it in which Sonde observed
    ops: an extrapolation, since one op of many is measured.
    """

    learned: int = 0
    told: int = 0
    ops: int = 0
    seconds: float = 0.0
    own: float = 0.0

    @classmethod
    def of(cls, observer: Observer, structures: Structures) -> Work:
        tables, seconds = observer.tables, time.thread_time()
        if not observer.is_native:
            return cls(structures.learned, seconds=seconds)
        own = 1e-9 * tables.own_nanoseconds * tables.op_count / max(tables.measured_ops, 1)
        return cls(structures.learned, tables.draft_count, tables.op_count, seconds, own)

    def since(self, before: Work) -> Work:
        return Work(
            self.learned - before.learned,
            self.told - before.told,
            self.ops - before.ops,
            self.seconds - before.seconds,
            self.own - before.own,
        )


@dataclass(slots=True)
class ObservingCost:
    """Decides whether steps keep running ops in an order that no step had before, and what that
    costs.

    Such an op is learned, which takes longer than most ops, or told by its call site, which takes
    longer than a tiny op. The first steps do not count: in them every program is learned.
    """

    _steps: int = 0
    _before: Work = field(default_factory=Work)
    _new: list[Work] = field(default_factory=list)
    _is_told: bool = False

    def step_ended(self, work: Work) -> str | None:
        """Count a step, after which ``work`` has been done; the line, if it is time for it."""
        self._steps += 1
        if self._is_told or len(self._new) == _JUDGED_STEPS:
            return None
        if self._steps > _FIRST_STEPS:
            self._new.append(work.since(self._before))
        self._before = work
        line = None
        if len(self._new) == _MEASURED_STEPS:
            line = self._slow_line()
        elif len(self._new) == _JUDGED_STEPS:
            line = self._learned_line()
        self._is_told = line is not None
        return line

    def _learned_line(self) -> str | None:
        learned = sorted(each.learned for each in self._new)
        if learned[len(learned) // 4] < _MANY:
            return None
        return (
            f"sonde: the steps of this program do not repeat: about "
            f"{sum(learned) // len(learned)} ops of each step have to be learned anew, "
            "which makes observing slow; observe fewer steps (--steps) or search for "
            "overflow only (--overflow) [steps-differ]"
        )

    def _slow_line(self) -> str | None:
        told = sorted(each.told for each in self._new)
        if told[len(told) // 4] < _MANY:
            return None
        ops = sum(each.ops for each in self._new)
        seconds = sum(each.seconds for each in self._new)
        # The median: an op that is learned takes a hundred times as long as one that is told, and
        # a few of these among the measured ones would distort the mean.
        own = statistics.median(each.own / max(each.ops, 1) for each in self._new)
        observing = min(ops * (own + mode_seconds()), 0.9 * seconds)
        alone = seconds - observing
        if seconds < _SLOW * alone:
            return None
        return (
            f"sonde: the steps of this program do not repeat and its ops are tiny: with "
            f"{ops // len(self._new)} ops a step, observed training takes about "
            f"{seconds / alone:.1f} times as long as training alone ({1e6 * observing / ops:.0f} "
            f"of {1e6 * seconds / ops:.0f} microseconds per op); observe fewer steps (--steps) or "
            "use larger batches: the cost is per op [steps-differ]"
        )


def mode_seconds() -> float:
    """The processor time that torch itself takes to call a dispatch mode for an op: measured here,
    with a mode that does nothing and a tiny op."""
    native = matcher.load()
    if native is None or private.hide_modes is None:
        return 0.0
    with private.hide_modes(), private.without_torch_functions(), torch.no_grad():
        value = torch.zeros(1, device="cpu")
        plain = min(_seconds_of_ops(value) for _ in range(_TIMINGS))
        with _Silent(native):
            under_mode = min(_seconds_of_ops(value) for _ in range(_TIMINGS))
    return max(under_mode - plain, 0.0)


def _seconds_of_ops(value: torch.Tensor) -> float:
    start = time.thread_time()
    for _ in range(_TIMED_OPS):
        value.neg()
    return (time.thread_time() - start) / _TIMED_OPS


class _Silent(Observer):
    """A mode that runs every op as it is."""

    def __init__(self, native: ModuleType) -> None:
        private.TorchDispatchMode.__init__(self)
        self.__dict__["__torch_dispatch__"] = MethodType(native.pass_op, self)
