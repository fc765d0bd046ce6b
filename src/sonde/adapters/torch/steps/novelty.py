"""Tells the user if observing is slow because the steps of the program do not repeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sonde.adapters.torch.steps.dispatch_cost import dispatch_seconds
from sonde.core.text.problem_line import ProblemLine

_FIRST_STEPS = 4
_JUDGED_STEPS, _FEW_STEPS = 20, 4
# In steps of tens of thousands of ops, as those of LBFGS, twenty steps would be the whole training.
_ENOUGH_OPS = 50_000
_MANY = 100
# Observing an op of such a step takes about so many times as long as a mode that does nothing
# takes for one op in a loop: 3.9 to 5.9 in the programs of benchmarks/varying.py. About half of
# it is torch's own call of a mode, which takes twice as long among other ops as in a loop.
_OBSERVING = 4.0
_SLOW = 2.5


@dataclass(frozen=True, slots=True)
class StepTotals:
    """What was done in one step, or until a moment: ops that were learned, ops that were told by
    their call sites, all ops, and the processor time of the thread."""

    learned: int = 0
    told: int = 0
    ops: int = 0
    seconds: float = 0.0

    def since(self, before: StepTotals) -> StepTotals:
        return StepTotals(
            self.learned - before.learned,
            self.told - before.told,
            self.ops - before.ops,
            self.seconds - before.seconds,
        )


@dataclass(slots=True)
class Novelty:
    """Tells the user once if steps keep running ops in an order that no step had before.

    Such an op is learned, which takes longer than most ops, or told by its call site, which takes
    longer than a tiny op. The first steps do not count: in them every program is learned.
    ``measure`` returns the processor time that torch takes to call a mode for an op.
    """

    measure: Callable[[], float] = dispatch_seconds
    _steps: int = 0
    _known: StepTotals = field(default_factory=StepTotals)
    _new: list[StepTotals] = field(default_factory=list)
    _is_judged: bool = False
    _next_look: int = _ENOUGH_OPS

    def step_ended(self, now: StepTotals) -> str | None:
        """Count a step, after which ``now`` has been done since the start; the line, if it is
        time."""
        self._steps += 1
        if self._is_judged:
            return None
        if self._steps > _FIRST_STEPS:
            self._new.append(now.since(self._known))
            many_ops = sum(each.told for each in self._new) >= _ENOUGH_OPS
            if len(self._new) == _JUDGED_STEPS or (many_ops and len(self._new) >= _FEW_STEPS):
                self._is_judged = True
                return self._line()
        self._known = now
        return None

    def step_runs(self, now: StepTotals) -> str | None:
        """The line about the step that runs, in which ``now`` has been done since the start, if it
        is long and slow already: a training with LBFGS may be one such step."""
        work = now.since(self._known)
        if self._is_judged or max(work.told, work.learned) < self._next_look:
            return None
        self._next_look = 2 * max(work.told, work.learned)
        line = None
        if work.learned >= work.told:
            line = _learned_line(f"{work.learned} ops of the running step had")
        elif (factor := self._factor(work.ops, work.seconds)) is not None:
            line = _tiny_line(
                f"the ops of this program are tiny: {work.told} such ops in the running step, "
                f"which takes {work.seconds:.0f} s so far; observing makes it about {factor:.0f} "
                "times slower"
            )
        self._is_judged = line is not None
        return line

    def _factor(self, ops: int, seconds: float) -> float | None:
        """By how much observing these ops makes a program slower, if that is much."""
        bare = seconds - ops * _OBSERVING * self.measure()
        if seconds <= _SLOW * bare:
            return None
        # The estimate is coarse: a difference that is nearly nothing is no factor.
        return min(seconds / max(bare, 0.1 * seconds), 10.0)

    def _line(self) -> str | None:
        steps = len(self._new)
        learned = sorted(each.learned for each in self._new)
        if learned[steps // 4] >= _MANY:
            return _learned_line(
                "the steps of this program do not repeat: about "
                f"{sum(learned) // steps} ops of each step have"
            )
        told = sorted(each.told for each in self._new)
        if told[steps // 4] < _MANY:
            return None
        seconds = sum(each.seconds for each in self._new)
        factor = self._factor(sum(each.ops for each in self._new), seconds)
        if factor is None:
            return None
        return _tiny_line(
            f"the steps of this program do not repeat and its ops are tiny: about "
            f"{sum(told) // steps} such ops in the {1e3 * seconds / steps:.0f} ms of a step; "
            f"observing makes these steps about {factor:.0f} times slower"
        )


def _learned_line(found: str) -> ProblemLine:
    return ProblemLine(
        f"sonde: {found} to be learned anew, which makes observing slow; observe fewer steps "
        "(--steps) or search for overflow only (--overflow)",
        slug="steps-differ",
    )


def _tiny_line(found: str) -> ProblemLine:
    return ProblemLine(
        f"sonde: {found} (estimated), mostly by torch's call of Sonde for each op; observe fewer "
        "steps (--steps), use larger batches, or try --guard, which observes modules in place of "
        "ops",
        slug="steps-differ",
    )
