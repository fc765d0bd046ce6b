"""Observes loss scaling, clipping and schedulers, and their order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.loop.calls import TrainingCalls
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded, variables_holding
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable
from sonde.diagnosis.evidence import SchedulerEvidence

_OPTIONS = ("step_size", "gamma", "T_max", "T_0", "total_steps", "milestones", "eta_min")
MOST_RATES = 4000
WITH_NORM = "clip_grads_with_norm_"


@dataclass(slots=True, eq=False)
class _Scheduled:
    seen: SchedulerEvidence
    steps: int = 0


@dataclass(slots=True, eq=False)
class ScalingCalls:
    """Follows GradScaler, gradient clipping and schedulers."""

    recorder: EvidenceRecorder
    training: TrainingCalls
    schedulers: WeakTable[Any, _Scheduled] = field(default_factory=WeakTable)
    _is_scaled: bool = False
    _is_unscaled: bool = False

    def install(self, undo: ExitStack) -> None:
        wrap(torch.amp.GradScaler, "scale", self._around_scale, undo)
        wrap(torch.amp.GradScaler, "unscale_", self._around_unscale, undo)
        wrap(torch.amp.GradScaler, "step", self._around_step, undo)
        wrap(torch.amp.GradScaler, "update", self._around_update, undo)
        if hasattr(nn.utils, WITH_NORM):
            wrap(nn.utils, WITH_NORM, self._around_clip(WITH_NORM), undo)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            wrap(nn.utils.clip_grad, name, self._around_clip(name), undo)
            wrap(nn.utils, name, self._around_clip(name), undo)
        wrap(lr_scheduler.LRScheduler, "step", self._around_schedule, undo)
        wrap(lr_scheduler.ReduceLROnPlateau, "step", self._around_schedule, undo)

    def _around_scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(scaler: Any, outputs: Any) -> Any:
            result = original(scaler, outputs)
            self._scaled(scaler, outputs, result)
            return result

        return scale

    @shielded
    def _scaled(self, scaler: Any, outputs: Any, result: Any) -> None:
        if scaler.is_enabled():
            if isinstance(result, torch.Tensor) and result.numel() == 1:
                is_beyond = not result.isfinite() and bool(outputs.isfinite())
                self.training.unscaled = float(outputs) if is_beyond else None
            self._is_scaled = True
            self.training.scale = float(scaler.get_scale()) or 1.0
            self.recorder.event("loss-scaled", caller(), scale=self.training.scale)

    def _around_unscale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def unscale_(scaler: Any, optimizer: Any) -> Any:
            result = original(scaler, optimizer)
            self._is_unscaled = True
            return result

        return unscale_

    def _around_update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            self._is_scaled = self._is_unscaled = False
            return original(scaler, *args, **kwargs)

        return update

    def _around_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = self.recorder.evidence.steps
            result = original(scaler, optimizer, *args, **kwargs)
            if self.recorder.evidence.steps == before:
                self._skipped(scaler, optimizer)
            return result

        return step

    @shielded
    def _skipped(self, scaler: Any, optimizer: Any) -> None:
        held = " ".join(variables_holding(scaler)[:1])
        self.recorder.event("scaler-skipped", caller(), held, scale=float(scaler.get_scale()))
        if isinstance(optimizer, torch.optim.Optimizer):
            self.training.skipped(optimizer)

    def _around_clip(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
                result = original(parameters, *args, **kwargs)
                total = args[1] if len(args) > 1 else kwargs.get("total_norm")
                self._clipped(name, args, kwargs, total if result is None else result)
                return result

            return clip

        return make

    @shielded
    def _clipped(
        self, function: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        source = caller()
        limit = args[0] if args else next(iter(kwargs.values()), None)
        norm = float(result) if isinstance(result, torch.Tensor) else 0.0
        self.recorder.event("clip", source)
        self.training.clipped()
        if self._is_scaled and not self._is_unscaled:
            self.recorder.event(
                "clip-before-unscale",
                source,
                function,
                scale=self.training.scale,
                norm=norm,
                limit=float(limit) if isinstance(limit, (int, float)) else None,
            )

    def _around_schedule(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            is_first = not getattr(scheduler, "_step_count", 1)
            result = original(scheduler, *args, **kwargs)
            if not is_first:
                self._scheduled(scheduler)
            return result

        return step

    @shielded
    def _scheduled(self, scheduler: Any) -> None:
        optimizer = getattr(scheduler, "optimizer", None)
        if not isinstance(optimizer, torch.optim.Optimizer):
            return
        state = self.training.state_of(optimizer)
        rate = float(optimizer.param_groups[0]["lr"])
        known = self.schedulers.get(scheduler)
        if known is None:
            seen = SchedulerEvidence(type(scheduler).__name__, state.seen.name)
            initial = optimizer.param_groups[0].get("initial_lr", rate)
            seen.first_rate = float(initial)
            seen.variable = next(iter(variables_holding(scheduler)), "")
            for name in _OPTIONS:
                value = getattr(scheduler, name, None)
                if name == "milestones" and value:
                    value = max(value)
                if isinstance(value, (bool, int, float)):
                    seen.options[name] = value
            self.recorder.evidence.schedulers.append(seen)
            known = self.schedulers[scheduler] = _Scheduled(seen)
        seen = known.seen
        seen.calls += 1
        seen.stepped = caller()
        done = state.seen.steps + state.seen.skipped
        seen.calls_per_step += done - known.steps == 1
        known.steps = done
        seen.skipped_steps += state.is_skipped
        seen.rates.append(rate)
        del seen.rates[:-MOST_RATES]
