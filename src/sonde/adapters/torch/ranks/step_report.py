"""Makes the reports of this rank's steps: hashes of weights, gradients, and a few numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any, Final

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sonde.adapters.torch import private
from sonde.adapters.torch.backward_calls import watch_backward
from sonde.adapters.torch.calling_line import calling_line
from sonde.adapters.torch.debugging.loss import LossWatch
from sonde.adapters.torch.debugging.optimizers import parameters_of
from sonde.adapters.torch.debugging.signals.norms import norms, whole_norm
from sonde.adapters.torch.monitor.batch_hash import batch_hash
from sonde.adapters.torch.ranks.digests import is_constant, plain, project, tensor_digest
from sonde.adapters.torch.ranks.layout import TensorPlacements, outermost
from sonde.adapters.torch.ranks.local_gradients import LocalGradient, LocalGradients
from sonde.adapters.torch.ranks.loss_graph import loss_scale_facts
from sonde.adapters.torch.replay.compiler_entries import watch_compiler
from sonde.adapters.torch.replay.module_hooks import OutermostHook
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable
from sonde.ranks.options import RankOptions
from sonde.ranks.report import ClipReport, RankGradient, RankReport, StepReport

_SHARE: Final = 0.01
"""The share of the time of steps that hashing may take; beyond, fewer steps are compared."""


class StepReporter:
    """Follows the steps of one rank; ``send`` takes the reports. Used from the training thread."""

    def __init__(
        self, send: Callable[[RankReport], None], options: RankOptions, shield: Any
    ) -> None:
        self._send = send
        self._options = options
        self._shield = shield
        self.step = 0
        self.is_on = False
        self._rank = 0
        self._world_size = 1
        self._interval = options.every
        self._layout = TensorPlacements()
        self._modules: WeakTable[nn.Module, str] = WeakTable()
        self._optimizers: WeakTable[torch.optim.Optimizer, None] = WeakTable()
        self._loss = LossWatch()
        self._hook = OutermostHook(self._module_begins, lambda module, result, error: None)
        self._local: LocalGradients | None = None
        self._described = 0
        self._step_began = time.perf_counter()
        self._spent = 0.0
        self._clear()

    def _clear(self) -> None:
        self._gradients: dict[str, RankGradient] = {}
        self._clips: list[ClipReport] = []
        self._passes = 0
        self._batch = 0
        self._loss_source = ""
        self._divisor = 1.0
        self._tokens: int | None = None
        self._is_skipped = False
        self._source = ""
        self._without: list[str] = []
        self._norm: float | None = None

    def install(self, undo: ExitStack) -> None:
        self._local = LocalGradients(lambda: self.is_sampled, self._shield, undo)
        self._loss.install(self._loss.keep_few, lambda error: None, undo)
        watch_backward(self, undo)
        watch_compiler(self._hook.hidden, lambda: None, undo)
        self._hook.install(undo)
        wrap(DistributedDataParallel, "__init__", self._wrapping, undo)
        patch = wrap(torch.optim.Optimizer, "add_param_group", self._adding, undo)
        private.hide_from_compiler(patch.replacement)

    def begin(self, rank: int, world_size: int) -> None:
        """The ranks are connected: report from now on."""
        self._rank, self._world_size = rank, world_size
        self.is_on = True

    @property
    def is_sampled(self) -> bool:
        """Whether the running step is compared."""
        return self.is_on and self._options.is_sampled(self.step, self._interval)

    # --------------------------------------------------------------------- hooks

    def _wrapping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make(wrapper: Any, *args: Any, **kwargs: Any) -> None:
            original(wrapper, *args, **kwargs)
            with self._shield:
                self._modules[wrapper] = type(wrapper.module).__name__

        return make

    def _adding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def add_param_group(optimizer: Any, group: Any) -> Any:
            result = original(optimizer, group)
            with self._shield:
                if self._local is not None:
                    self._local.follow(list(parameters_of(optimizer)))
            return result

        return add_param_group

    def _module_begins(self, module: nn.Module, args: Any, frame: FrameType) -> bool:
        with self._shield, private.unobserved():
            if module.training and torch.is_grad_enabled():
                if module not in self._modules:
                    self._modules[module] = type(module).__name__
                if self.is_on and not self._batch:
                    given = frame.f_locals.get("kwargs")
                    named = given.values() if isinstance(given, dict) else ()
                    self._batch = batch_hash([*args, *named])
        return True

    def backward_begins(self, tensors: Any, options: dict[str, Any]) -> None:
        with self._shield:
            if not self.is_on:
                return
            self._passes += 1
            self._loss_source = calling_line()
            first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
            if self.is_sampled:
                self._divisor, tokens = loss_scale_facts(first)
                if tokens is not None:
                    self._tokens = tokens + (self._tokens or 0)

    def backward_ended(self, error: Exception | None) -> None:
        """Gradients are compared when the optimizer begins."""

    def gradients_ready(self, parameters: Sequence[torch.Tensor]) -> None:
        """The gradients are as the exchange left them; they are about to be clipped or unscaled."""
        if self.is_sampled and self._local is not None:
            self._learn(parameters)
            self._measure(parameters)

    def clipped(self, report: ClipReport) -> None:
        if self.is_on:
            self._clips.append(report)

    def optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        if not self.is_on:
            return
        began = time.perf_counter()
        parameters = list(parameters_of(optimizer))
        self._source = calling_line()
        if optimizer not in self._optimizers:
            self._optimizers[optimizer] = None
            if self._local is not None:
                self._local.follow(parameters)
        self._learn(parameters)
        if self.is_sampled:
            self._measure(parameters)
        self._norm = whole_norm(norms([each.grad for each in parameters]))
        self._spent += time.perf_counter() - began

    def skipped(self, optimizer: torch.optim.Optimizer) -> None:
        self._is_skipped = True
        self.optimizer_begins(optimizer)

    def ended(self) -> None:
        """The step has ended: report it."""
        if not self.is_on:
            return
        began = time.perf_counter()
        was_sampled = self.is_sampled
        digests = self._digests() if was_sampled else ()
        if self._local is not None:
            self._local.clear()
        self._send(
            StepReport(
                self._rank,
                self.step,
                digests,
                gradients=tuple(self._gradients.values()),
                without_gradient=tuple(self._without),
                decisions=self._decisions(),
                clips=tuple(self._clips),
                loss=self._loss.take(),
                loss_source=self._loss_source,
                tokens=self._tokens,
                grad_norm=self._norm,
                backward_passes=self._passes,
                batch_digest=self._batch,
                is_loss_scaled=self._is_scaled(),
                source=self._source,
            )
        )
        self._clear()
        self.step += 1
        now = time.perf_counter()
        self._adapt(self._spent + now - began, now - self._step_began, was_sampled)
        self._step_began, self._spent = now, 0.0

    # ------------------------------------------------------------------- measuring

    def _learn(self, parameters: Sequence[torch.Tensor]) -> None:
        """Describe this rank when there are parameters that it has not described."""
        if all(self._layout.of(each) is not None for each in parameters):
            return
        modules = outermost({each: self._modules.get(each) or "" for each in list(self._modules)})
        with private.unobserved(), torch.no_grad():
            self._layout.learn(modules, parameters)
            self._send(self._layout.description(self._rank, self._world_size))
            known = self._tensors()
            constants = [n for n, each in enumerate(known) if each is None or is_constant(each)]
            self._send(
                StepReport(self._rank, -1, self._digests(), tuple(constants), source=self._source)
            )

    def _tensors(self) -> list[torch.Tensor | None]:
        """The described tensors, in their order; None for one that is gone."""
        alive: dict[tuple[int, str], torch.Tensor] = {}
        for optimizer in list(self._optimizers):
            for parameter in parameters_of(optimizer):
                key = private.tensor_id(parameter)
                alive[key, ""] = parameter
                for name, value in optimizer.state.get(parameter, {}).items():
                    if isinstance(value, torch.Tensor):
                        alive[key, str(name)] = value
        return [alive.get(key) for key in self._layout.named]

    def _digests(self) -> tuple[int, ...]:
        with private.unobserved(), torch.no_grad():
            new = [self._layout.learn_states(each) for each in list(self._optimizers)]
            if any(new):
                self._send(self._layout.description(self._rank, self._world_size))
            return tuple(0 if each is None else tensor_digest(each) for each in self._tensors())

    def _measure(self, parameters: Sequence[torch.Tensor]) -> None:
        """Hash and project the gradients that the optimizer uses, each parameter once a step."""
        assert self._local is not None
        with private.unobserved(), torch.no_grad():
            for parameter in parameters:
                known = self._layout.of(parameter)
                if known is None or known.name in self._gradients:
                    continue
                if parameter.grad is None:
                    if not known.is_inferred:
                        self._without.append(known.name)
                    continue
                local = self._local.of(parameter)
                report = _gradient(known.name, parameter.grad, local)
                if report is not None:
                    self._gradients[known.name] = report

    def _decisions(self) -> dict[str, str]:
        found = {"whether the step is skipped": str(self._is_skipped)}
        trainable = 0
        for number, optimizer in enumerate(list(self._optimizers)):
            rates = [group.get("lr") for group in optimizer.param_groups]
            text = ", ".join(f"{float(rate):.6g}" for rate in rates if rate is not None)
            found[f"the learning rate of optimizer {number}" if number else "the learning rate"] = (
                text
            )
            parameters = parameters_of(optimizer)
            trainable += sum(each.requires_grad for each in parameters)
        found["the number of trainable parameters"] = str(trainable)
        if self._without:
            found["the parameters without a gradient"] = ", ".join(sorted(self._without)[:5])
        return found

    def _is_scaled(self) -> bool:
        """Whether the program divides the loss by the number of ranks, or a multiple of it."""
        parts = self._divisor / self._world_size
        return self._divisor > 1 and math.isclose(parts, max(round(parts), 1), rel_tol=1e-6)

    def _adapt(self, spent: float, step_seconds: float, was_sampled: bool) -> None:
        """Compare fewer steps where hashing takes long; intervals are doubled, so that the steps
        stay a part of those of the other ranks."""
        if was_sampled and spent / self._interval > _SHARE * max(step_seconds - spent, 1e-4):
            self._interval = min(2 * self._interval, 64 * self._options.every)


def _gradient(
    name: str, gradient: torch.Tensor, local: LocalGradient | None
) -> RankGradient | None:
    values = plain(gradient)
    if values is None or not values.is_floating_point():
        return None
    used = tuple(project(values).tolist())
    total: tuple[float, ...] = ()
    last: tuple[float, ...] = ()
    if local is not None and local.total is not None and local.last is not None:
        total, last = tuple(local.total.tolist()), tuple(local.last.tolist())
    return RankGradient(
        name,
        tensor_digest(values),
        0 if local is None else local.digest,
        used,
        total,
        last,
        is_finite=all(map(math.isfinite, used)),
        is_local_finite=all(map(math.isfinite, total)),
    )
