"""Measures the signals of a step right before its optimizer changes the weights."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.debugging.optimizers import parameters_of
from sonde.adapters.torch.debugging.signals.norms import non_finite, norms, whole_norm
from sonde.adapters.torch.debugging.signals.updates import SampledUpdates
from sonde.core.weak_table import WeakTable
from sonde.monitor.signals import Signals

Know = Callable[[Sequence[torch.Tensor]], npt.NDArray[np.intp]]
"""Takes parameters and returns their columns, -1 for those that have none."""


@dataclass(slots=True)
class _OptimizerFacts:
    """What is kept of one optimizer; ``ids`` are those of its parameters when they were looked up.

    Tensors are not kept: a reference would keep a network alive that the program has dropped."""

    number: int
    ids: list[int] = field(default_factory=list)
    columns: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    sample: SampledUpdates = field(default_factory=SampledUpdates)


@dataclass(slots=True)
class Meter:
    """Measures the steps of all optimizers. Used from the training thread only.

    Costs one pass over the gradients and one over the weights, and two transfers to the host for
    each device; no copy of either is made.
    """

    _know: Know
    _facts: WeakTable[torch.optim.Optimizer, _OptimizerFacts] = field(default_factory=WeakTable)
    _count: int = 0
    _last: float = field(default_factory=time.perf_counter)

    def measure(self, step: int, optimizer: torch.optim.Optimizer, loss: float | None) -> Signals:
        """The signals of the step that ``optimizer`` is about to make."""
        with private.unobserved(), torch.no_grad():
            return self._measure(step, optimizer, loss)

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Copy the sample of weights with which `after_update` compares."""
        facts = self._facts.get(optimizer)
        if facts is not None:
            with private.unobserved(), torch.no_grad():
                facts.sample.before_step(list(parameters_of(optimizer)))

    def after_update(self, optimizer: torch.optim.Optimizer, signals: Signals) -> None:
        """Set the ratio of the update, and the time that the step took."""
        facts = self._facts.get(optimizer)
        if facts is not None and not signals.is_skipped:
            with private.unobserved(), torch.no_grad():
                found = facts.sample.after_step()
                signals.update_ratio = found.ratio
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratios = np.where(found.weights > 0, found.changes / found.weights, np.nan)
                signals.updates = _in_columns(ratios, facts.columns)
        self.step_ended(signals)

    def step_ended(self, signals: Signals) -> None:
        last = self._last
        self.step_passed()
        signals.step_seconds = self._last - last

    def step_passed(self) -> None:
        """A step has ended that was not measured."""
        self._last = time.perf_counter()

    def _measure(self, step: int, optimizer: torch.optim.Optimizer, loss: float | None) -> Signals:
        facts = self._facts.get(optimizer)
        if facts is None:
            facts = self._facts[optimizer] = _OptimizerFacts(self._count)
            self._count += 1
        parameters = list(parameters_of(optimizer))
        # A parameter without a column may get one when its module has run.
        has_all = not (facts.columns < 0).any()
        if not has_all or [id(each) for each in parameters] != facts.ids:
            facts.ids = [id(each) for each in parameters]
            facts.columns = self._know(parameters)
        gradients = [each.grad for each in parameters]
        by_parameter = norms(gradients)
        scale, is_overflown = _given_scale(optimizer)
        by_parameter /= scale
        is_there = np.fromiter((each is not None for each in gradients), bool, len(gradients))
        is_bad = is_there & ~np.isfinite(by_parameter)
        is_bad &= ~np.fromiter(map(_has_no_norm, gradients), bool, len(gradients))
        by_parameter[is_bad] = math.inf
        weights = norms(parameters)
        bad_weights = ~np.isfinite(weights)
        signals = Signals(
            step,
            time=time.time(),
            loss=math.nan if loss is None else loss,
            has_loss=loss is not None,
            grad_norm=whole_norm(by_parameter),
            weight_norm=whole_norm(weights),
            learning_rate=_learning_rate(optimizer),
            optimizer=facts.number,
            is_skipped=is_overflown,
        )
        if is_bad.any():
            signals.non_finite_gradients = non_finite(
                [each for each, bad in zip(gradients, is_bad, strict=True) if bad]
            )
        if bad_weights.any():
            signals.non_finite_weights = non_finite(
                [each for each, bad in zip(parameters, bad_weights, strict=True) if bad]
            )
        signals.gradients = _in_columns(by_parameter, facts.columns)
        bad_weights &= ~np.fromiter(map(_has_no_norm, parameters), bool, len(parameters))
        weights[bad_weights] = math.inf
        signals.weights = _in_columns(weights, facts.columns)
        return signals


def _in_columns(
    values: npt.NDArray[np.float64], columns: npt.NDArray[np.intp]
) -> npt.NDArray[np.float32]:
    found = np.full(int(columns.max(initial=-1)) + 1, np.nan, np.float32)
    has_column = columns >= 0
    with np.errstate(over="ignore"):
        found[columns[has_column]] = values[has_column]
    return found


def _has_no_norm(gradient: torch.Tensor | None) -> bool:
    return gradient is None or gradient.device.type == "meta"


def _given_scale(optimizer: Any) -> tuple[float, bool]:
    """The factor by which the gradients are still scaled, and whether they overflowed: a GradScaler
    leaves both to fused optimizers."""
    scale = getattr(optimizer, "grad_scale", None)
    found = getattr(optimizer, "found_inf", None)
    return (
        float(scale) if isinstance(scale, torch.Tensor) else 1.0,
        bool(isinstance(found, torch.Tensor) and float(found)),
    )


def _learning_rate(optimizer: torch.optim.Optimizer) -> float:
    """The largest rate of the groups: schedules of several groups move together as a rule."""
    rates = [group.get("lr") for group in optimizer.param_groups]
    return max((float(rate) for rate in rates if rate is not None), default=math.nan)
