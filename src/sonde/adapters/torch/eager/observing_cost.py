"""Tells the user once if observing a program whose steps do not repeat is slow."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MethodType, ModuleType
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager import matcher
from sonde.adapters.torch.eager.dispatch_mode import Observer
from sonde.adapters.torch.eager.op_tree import Structures
from sonde.core.interruption import pass_on
from sonde.core.text.problem_line import ProblemLine

_FIRST_STEPS = 4
_MEASURED_STEPS = 8
_JUDGED_STEPS = 20
_MANY = 100
_SLOW = 2.5
_TURNS = 20
_TIMINGS = 7


@dataclass(frozen=True, slots=True)
class Work:
    """What the training thread has done since the capture began.

    ``learned`` ops were learned, ``told`` ones told by their call sites, of ``ops`` in all.
    ``seconds`` is the processor time of the thread. Of some ops, ``measured``, chosen at random,
    the part in which Sonde observed them is known: ``own`` seconds.
    """

    learned: int = 0
    told: int = 0
    ops: int = 0
    seconds: float = 0.0
    measured: int = 0
    own: float = 0.0
    has_backward: bool = False

    @classmethod
    def of(cls, observer: Observer, structures: Structures) -> Work:
        tables, seconds = observer.tables, time.thread_time()
        if not observer.is_native:
            return cls(structures.learned, seconds=seconds)
        return cls(
            structures.learned,
            tables.draft_count,
            tables.op_count,
            seconds,
            tables.measured_ops,
            1e-9 * tables.own_nanoseconds,
            bool(tables.has_backward),
        )

    def since(self, before: Work) -> Work:
        return Work(
            self.learned - before.learned,
            self.told - before.told,
            self.ops - before.ops,
            self.seconds - before.seconds,
            self.measured - before.measured,
            self.own - before.own,
            self.has_backward,
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
        return ProblemLine(
            f"sonde: the steps of this program do not repeat: about "
            f"{sum(learned) // len(learned)} ops of each step have to be learned anew, "
            "which makes observing slow; observe fewer steps (--steps) or search for "
            "overflow only (--overflow)",
            slug="steps-differ",
        )

    def _slow_line(self) -> str | None:
        told = sorted(each.told for each in self._new)
        if told[len(told) // 4] < _MANY:
            return None
        # The cheaper half: the steps in which few ops were learned and no garbage was collected.
        usual = sorted(self._new, key=lambda each: each.seconds / max(each.ops, 1))
        usual = usual[: (len(usual) + 1) // 2]
        ops = sum(each.ops for each in usual)
        seconds = sum(each.seconds for each in usual)
        own = sum(each.own for each in usual) / max(sum(each.measured for each in usual), 1)
        try:
            calling = mode_seconds(backward=usual[0].has_backward)
        except Exception as error:  # torch may be in a state in which these ops are not allowed
            pass_on(error)
            return None
        observing = min(ops * (own + calling), 0.9 * seconds)
        alone = seconds - observing
        if seconds < _SLOW * alone:
            return None
        return ProblemLine(
            f"sonde: the steps of this program do not repeat and its ops are tiny: with "
            f"{ops // len(usual)} ops a step, observed training takes about "
            f"{seconds / alone:.1f} times as long as training alone ({1e6 * observing / ops:.0f} "
            f"of {1e6 * seconds / ops:.0f} microseconds per op); observe fewer steps (--steps) or "
            "use larger batches: the cost is per op",
            slug="steps-differ",
        )


def mode_seconds(*, backward: bool = False) -> float:
    """The processor time that torch itself takes to call a dispatch mode for an op: measured here,
    with a mode that does nothing and tiny ops.

    It takes longer where autograd records and runs ops. With ``backward`` such ops are among them.
    They save no tensors, so that no hooks of the program run.
    """
    native = matcher.load()
    if native is None or private.hide_modes is None:
        return 0.0
    run = _train if backward and private.current_autograd_node() is None else _compute
    with (
        private.hide_modes(),
        private.without_torch_functions(),
        torch.inference_mode(False),
        torch.set_grad_enabled(run is _train),
    ):
        value = torch.ones(2, 2, device="cpu", dtype=torch.float32, requires_grad=run is _train)
        with _Counting() as counting:
            run(value)
        plain = min(_seconds_of(run, value) for _ in range(_TIMINGS))
        with _Silent(native):
            under_mode = min(_seconds_of(run, value) for _ in range(_TIMINGS))
    return float(max(under_mode - plain, 0.0) / counting.ops)


def _compute(value: torch.Tensor) -> torch.Tensor:
    return (value.t().t() + value).mul(0.5).view(4).sum()


def _train(value: torch.Tensor) -> None:
    torch.autograd.grad(_compute(value), value)


def _seconds_of(run: Callable[[torch.Tensor], object], value: torch.Tensor) -> float:
    start = time.thread_time()
    for _ in range(_TURNS):
        run(value)
    return (time.thread_time() - start) / _TURNS


class _Counting(private.TorchDispatchMode):  # type: ignore[misc]
    """A mode that counts ops."""

    def __init__(self) -> None:
        super().__init__()
        self.ops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops += 1
        return func(*args, **(kwargs or {}))


class _Silent(Observer):
    """A mode that runs every op as it is."""

    def __init__(self, native: ModuleType) -> None:
        private.TorchDispatchMode.__init__(self)
        self.__dict__["__torch_dispatch__"] = MethodType(native.pass_op, self)
