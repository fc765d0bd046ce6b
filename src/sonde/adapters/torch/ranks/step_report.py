"""Makes the reports of this rank's steps: hashes of weights, gradients, and a few numbers."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, Final

import numpy as np
import torch
from msgspec.structs import replace
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sonde.adapters.torch import private
from sonde.adapters.torch.backward_calls import watch_backward
from sonde.adapters.torch.calling_line import calling_line
from sonde.adapters.torch.debugging.loss import LossWatch
from sonde.adapters.torch.debugging.signals.norms import norms, whole_norm
from sonde.adapters.torch.monitor.batch_hash import batch_hash
from sonde.adapters.torch.ranks.activations import ModuleOutputs, may_be_tensor_parallel
from sonde.adapters.torch.ranks.communication.pending_works import UnfinishedCollectives
from sonde.adapters.torch.ranks.communication.recorded_collectives import (
    LineMarks,
    first_exchange_since,
)
from sonde.adapters.torch.ranks.decisions import ModuleModes, decisions
from sonde.adapters.torch.ranks.described_tensors import DescribedTensors
from sonde.adapters.torch.ranks.digests import plain
from sonde.adapters.torch.ranks.gradients.ddp_buckets import DdpBuckets
from sonde.adapters.torch.ranks.loaded_samples import LoaderEpochs, loaded_samples
from sonde.adapters.torch.ranks.loss_graph import loss_scale_facts, ops_of
from sonde.adapters.torch.ranks.non_finite.search import NonFiniteSearch
from sonde.adapters.torch.ranks.output_statistics import OutputStatistics
from sonde.adapters.torch.ranks.running_step import RunningStep
from sonde.adapters.torch.ranks.sampling import Sampling
from sonde.adapters.torch.ranks.sending.loop_exits import LastStep
from sonde.adapters.torch.ranks.spot_hashes import SpotHashes
from sonde.adapters.torch.replay.compiler_entries import watch_compiler
from sonde.adapters.torch.replay.module_hooks import OutermostHook
from sonde.core.patching import wrap
from sonde.ranks.options import FEWEST_FOR_OUTLIERS, RankOptions
from sonde.ranks.report import (
    ClipReport,
    MicroBatch,
    OriginOnRank,
    RankReport,
    ReportedLoss,
    SpotReport,
)

_MOST_MICRO_BATCHES: Final = 256


class StepReporter:
    """Follows the steps of one rank; ``send`` takes the reports. Used from the training thread.
    ``search`` finds where NaN and Inf begin; None: nothing does."""

    def __init__(
        self,
        send: Callable[[RankReport], None],
        options: RankOptions,
        shield: Any,
        search: NonFiniteSearch | None,
    ) -> None:
        self._send = send
        self._shield = shield
        self.step = self.first = 0
        self.is_on = False
        self._rank = 0
        self._world_size = 1
        self._sampling = Sampling(options)
        self.tensors = DescribedTensors(send, shield, options.placements)
        self.marks = LineMarks()
        self.buckets = DdpBuckets()
        self._outputs = ModuleOutputs(shield)
        self._statistics = OutputStatistics(shield, self.timed)
        self._spots = SpotHashes()
        self._loaders = LoaderEpochs(shield)
        self._last = LastStep()
        self._modes = ModuleModes()
        self._search = search
        self._loss = LossWatch()
        self._hook = OutermostHook(self._module_begins, self._module_ended)
        self._last_loss: tuple[float, int | None] | None = None
        self._running = RunningStep()
        self.unfinished = UnfinishedCollectives()

    def install(self, undo: ExitStack) -> None:
        self.tensors.install(lambda: self.is_sampled, undo)
        self._loaders.install(undo)
        self._loss.install(self._loss.keep_few, lambda error: None, undo)
        watch_backward(self, undo)
        watch_compiler(self._hook.hidden, lambda: None, undo)
        self._hook.install(undo)
        if self._search is not None:
            self._search.install(undo, self._paused)
        wrap(DistributedDataParallel, "__init__", self._wrapping, undo)

    def begin(self, rank: int, world_size: int) -> None:
        """The ranks are connected: report from now on."""
        self._rank, self._world_size = rank, world_size
        self.tensors.begin(rank, world_size)
        self.is_on = True

    def begin_at(self, step: int) -> None:
        """The running step has another number, because steps were made before this run."""
        self.first += step - self.step
        self.step = step

    @property
    def is_sampled(self) -> bool:
        """Whether the running step is compared."""
        return self.is_on and self._sampling.is_sampled(self._made)

    @property
    def _made(self) -> int:
        """How many steps were made in this run. Ranks may number steps differently, as when one of
        them alone has loaded a checkpoint."""
        return self.step - self.first

    # --------------------------------------------------------------------- hooks

    def _wrapping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make(wrapper: Any, *args: Any, **kwargs: Any) -> None:
            original(wrapper, *args, **kwargs)
            with self._shield:
                self.tensors.modules[wrapper] = type(wrapper.module).__name__
                self.tensors.reduced.wrapped(wrapper)
                self.buckets.wrapped(wrapper)
                if self.is_on:
                    self.tensors.buffers.begin()

        return make

    def _module_begins(self, module: nn.Module, args: Any, frame: FrameType) -> bool:
        with self._shield, private.unobserved():
            known = self.tensors.modules.get(module)
            if known is not None and torch.is_grad_enabled():
                self._running.in_eval = "" if module.training else known
                self._running.modules_in_eval = self._modules_in_eval(module)
            if known is None and not (module.training and torch.is_grad_enabled()):
                self.tensors.copies.called(module)
            if module.training and torch.is_grad_enabled():
                if module not in self.tensors.modules:
                    self.tensors.modules[module] = type(module).__name__
                    if self.is_on:
                        self.tensors.buffers.begin()
                if self.is_on:
                    self.marks.add(calling_line(), self.step)
                    self.tensors.reduced.called(module)
                if self.is_on and not self._running.batch:
                    given = frame.f_locals.get("kwargs")
                    named = given.values() if isinstance(given, dict) else ()
                    self._running.batch = batch_hash([*args, *named])
                    self._keep_samples([*args, *named])
                # First: it tells the program's hooks from those of the outputs.
                if self.is_on and self._search is not None:
                    self._search.module_begins(module, args)
                if self.is_sampled and self._is_tensor_parallel(module):
                    self._outputs.follow(module)
                if self.is_sampled and self._world_size >= FEWEST_FOR_OUTLIERS:
                    self._statistics.follow(module)
        return True

    def _module_ended(self, module: nn.Module, result: Any, error: BaseException | None) -> None:
        with self._shield:
            self._outputs.leave()
            self._statistics.leave()
            if self._search is not None:
                self._search.module_ended(has_failed=error is not None)

    def backward_begins(self, tensors: Any, options: dict[str, Any]) -> None:
        with self._shield, self.timed():
            if not self.is_on:
                return
            self.tensors.reduced.backward(has_ended=False)
            step = self._running
            step.passes += 1
            step.loss_source = calling_line()
            step.backward_ns = step.backward_ns or time.time_ns()
            self.marks.add(step.loss_source, self.step)
            first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
            if self.is_sampled:
                self.tensors.backward_begins()
                step.divisor, tokens = loss_scale_facts(first)
                if len(step.micro_batches) < _MOST_MICRO_BATCHES:
                    step.micro_batches.append(MicroBatch(step.loss_source, tokens, step.divisor))
                if tokens is not None:
                    step.tokens = tokens + (step.tokens or 0)
                step.ops = step.ops or ops_of(first, self._parameter_name)
                self._last_loss = (_number(first) * step.divisor, tokens)

    def backward_ended(self, error: Exception | None) -> None:
        """Gradients are compared when the optimizer begins."""
        self.tensors.reduced.backward(has_ended=True)
        if error is None and self.is_sampled:
            with self._shield, self.timed():
                self.tensors.backward_left()
        if self._search is not None:
            self._search.backward_ended()

    def gradients_ready(self, parameters: Sequence[torch.Tensor]) -> None:
        """The gradients are as the exchange left them; they are about to be clipped or unscaled."""
        if self.is_sampled:
            with self.timed():
                self.tensors.learn(parameters, self._running.source)
                self.tensors.measure(parameters, self._running)

    def squares(self, parameters: Sequence[torch.Tensor]) -> dict[str, float]:
        """The squares of gradients by the group that shards them (`ClipReport`)."""
        if not self.is_sampled:
            return {}
        with self.timed():
            return self.tensors.squares(parameters)

    def clipped(self, report: ClipReport) -> None:
        if self.is_on:
            self._running.clips.append(report)

    def loss_reduced(self, given: float, mean: float, line: str) -> None:
        """The program has reduced a number over all ranks; it may be the last loss."""
        last = self._last_loss
        if self.is_on and last is not None and math.isclose(given, last[0], rel_tol=1e-6):
            self._running.reported = ReportedLoss(mean, line, given, last[1])

    def optimizer_begins(
        self, optimizer: torch.optim.Optimizer, *, has_closure: bool = False
    ) -> None:
        if self._search is not None:
            self._search.optimizer_begins(optimizer, has_closure=has_closure)
        if not self.is_on:
            return
        with self.timed():
            step = self._running
            step.unfinished = step.unfinished or self.unfinished.take()
            step.source = calling_line()
            self._last.take(sys._getframe(1))
            parameters = self.tensors.add_optimizer(optimizer, step.source)
            self.buckets.learn(self._parameter_name)
            if self.is_sampled:
                self.tensors.measure(parameters, step)
            step.norm = _norm(parameters)
        if self._search is None or step.is_skipped or has_closure:
            return
        if math.isfinite(step.norm):
            step.origin = step.origin or self._search.made_here()
        else:
            with self._paused():
                step.origin = self._search.find(
                    self.step, optimizer, lambda: self._exchange(parameters)
                )

    def skipped(self, optimizer: torch.optim.Optimizer) -> None:
        self._running.is_skipped = True
        self.optimizer_begins(optimizer)

    def ended(self) -> None:
        """The step has ended: report it."""
        if self._search is not None:
            self._search.step_ended()
        if not self.is_on:
            return
        was_sampled = self.is_sampled
        with self.timed():
            self._keep_spots()
            if self._sampling.options.is_sampled(self._made):
                self._send_spots()
            report = self._running.report(
                self._rank, self.step, self._world_size, self._loss.take()
            )
            self._send(
                replace(
                    report,
                    digests=self.tensors.digests() if was_sampled else (),
                    activations=self._outputs.take(),
                    outputs=self._statistics.take(),
                    entry=self._outputs.take_entry(),
                    decisions=decisions(
                        self.tensors.optimizers, self._running, self._parameter_name, self.first
                    ),
                    first=self.first,
                )
            )
            self.tensors.step_ended()
        self._running = RunningStep()
        self.step += 1
        self._sampling.step_ended(was_sampled)

    def finish(self) -> None:
        """The training has ended: send what is kept, and report no more."""
        if self.is_on:
            self.is_on = False
            self._send_spots()
            if loop := self._last.report(self._rank):
                self._send(loop)

    # ------------------------------------------------------------------------ parts

    def _keep_samples(self, given: Sequence[Any]) -> None:
        if self.is_sampled and self._loaders.current >= 0:
            with self.timed():
                self._running.samples = loaded_samples(given, self._loaders.current)

    def _keep_spots(self) -> None:
        if self._sampling.has_spots(self._made):
            began = time.perf_counter()
            self._spots.add(self._made, self.tensors.replicas())
            self._sampling.spent_on_spots = time.perf_counter() - began

    def _send_spots(self) -> None:
        if kept := self._spots.take():
            self._send(SpotReport(self._rank, kept))

    def _exchange(self, parameters: Sequence[torch.Tensor]) -> OriginOnRank:
        """The collective of the running step that has given a gradient with NaN or Inf."""
        with private.unobserved(), torch.no_grad():
            lost = {
                self._parameter_name(each)
                for each in parameters
                if not math.isfinite(_norm([each]))
            }
        return first_exchange_since(self._running.backward_ns, self.buckets, lost)

    def _parameter_name(self, leaf: torch.Tensor) -> str:
        known = self.tensors.layout.of(leaf)
        return "" if known is None else known.name

    def _modules_in_eval(self, network: nn.Module) -> str:
        if not network.training:
            return ""
        return self._modes.in_eval(network, is_new=self._sampling.options.is_sampled(self._made))

    def _is_tensor_parallel(self, module: nn.Module) -> bool:
        layout = self.tensors.layout
        if layout.roles or self._made:
            return "tensor" in layout.roles.values()
        return layout.declares("tensor") or may_be_tensor_parallel(module)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Do Sonde's own work in this block: no dump or debugger observes its ops."""
        began = time.perf_counter()
        try:
            with private.unobserved(), torch.no_grad():
                yield
        finally:
            self._sampling.spent += time.perf_counter() - began

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Report nothing in this block, in which the step is executed again."""
        self.is_on = False
        try:
            with self._hook.hidden():
                yield
        finally:
            self.is_on = True


def _norm(parameters: Sequence[torch.Tensor]) -> float:
    """The norm of the gradients; not finite if one of their values is not."""
    gradients = [each.grad for each in parameters if each.grad is not None]
    local = [plain(each) for each in gradients]
    parts = norms([each for each in local if each is not None])
    return math.nan if np.isnan(parts).any() else whole_norm(parts) if len(parts) else 0.0


def _number(loss: Any) -> float:
    """The loss; NaN if it is no single number, or not yet known on this rank."""
    is_scalar = isinstance(loss, torch.Tensor) and loss.numel() == 1 and not loss.is_complex()
    if not is_scalar or not all(each.is_replicate() for each in getattr(loss, "placements", ())):
        return math.nan
    with private.unobserved():
        values = plain(loss)
        return math.nan if values is None else float(values)
