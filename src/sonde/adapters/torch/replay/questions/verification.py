"""Runs a program up to its first step, with the state and the batch of a captured step.

Where the program calls a network of the step for training, the network gets the weights, buffers
and random states of the step, and the tensors of its batch in place of the program's. Tensors that
the program's loss uses (labels) get the values of the step, too. Before the optimizer steps, the
loss and the gradients are known and the program is ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.backward_calls import watch_backward
from sonde.adapters.torch.eager.step_end import StepHooks
from sonde.adapters.torch.replay.execution import Execution
from sonde.adapters.torch.replay.kept_tensor import KeptTensor, map_tree, tensors_in
from sonde.adapters.torch.replay.networks.single_rank import as_single_rank
from sonde.adapters.torch.replay.networks.sources import fits
from sonde.adapters.torch.replay.networks.weights import give_weights
from sonde.adapters.torch.replay.outside_ops import (
    pop_function_mode_below,
    push_function_mode_below,
)
from sonde.adapters.torch.replay.questions.outcomes import outcome_of
from sonde.adapters.torch.replay.questions.verified_labels import (
    LabelMode,
    LossInput,
    own_or_copy,
)
from sonde.adapters.torch.replay.random_states import set_random
from sonde.adapters.torch.replay.recording.closures import watch_closures
from sonde.adapters.torch.replay.saved_state import set_before
from sonde.adapters.torch.replay.step_record import AveragedGradient, ModuleCall, StepRecord
from sonde.adapters.torch.replay.storage.captured_step import CapturedStep
from sonde.adapters.torch.replay.storage.wrappers import unwrapped
from sonde.core.patching import wrap
from sonde.replay.errors import ReplayError
from sonde.replay.judgement import Outcome
from sonde.replay.manifest import StoredCall, StoredModule


class VerifyDone(BaseException):
    """Raised in the program when its first step is known, to end it."""


@dataclass(slots=True)
class _Expected:
    """A call of the captured step that the program has not made yet."""

    stored: StoredCall
    module: StoredModule


@dataclass(slots=True)
class Verification:
    """Watches a program; ``outcome`` is that of its first step.

    ``unused``: tensors that the loss of the captured step was given and that no tensor of the
    program corresponds to.
    """

    step: CapturedStep
    outcome: Outcome | None = None
    problem: ReplayError | None = None
    unused: int = 0
    _expected: list[_Expected] = field(default_factory=list)
    _modules: dict[int, nn.Module] = field(default_factory=dict)
    _calls: list[ModuleCall] = field(default_factory=list)
    _losses: list[torch.Tensor] = field(default_factory=list)
    _averaged: dict[int, AveragedGradient] = field(default_factory=dict)
    _depth: int = 0
    _labels: LabelMode | None = None

    def __post_init__(self) -> None:
        modules = self.step.manifest.modules
        for event in self.step.manifest.events:
            if isinstance(event, StoredCall):
                self._expected.append(_Expected(event, modules[event.module]))

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Watch the program that runs in this block."""
        with ExitStack() as undo:
            if self.step.manifest.averaged_over > 1:
                undo.enter_context(as_single_rank())
            wrap(nn.Module, "__call__", self._calling, undo)
            watch_backward(self, undo)
            hooks = StepHooks(
                lambda _: self._stepping() if hooks.closure is None else None,
                lambda _: None,
                lambda: None,
                lambda _: None,
                lambda _: self._stepping(),
            )
            hooks.install(undo)
            # An optimizer with a closure (Lightning) has its gradients when that has returned.
            watch_closures(lambda _: None, lambda _: self._stepping(), undo)
            undo.callback(self._stop_labels)
            yield

    # ------------------------------------------------------------------ module calls

    def _calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._depth or not isinstance(module, nn.Module):
                return original(module, *args, **kwargs)
            expected = self._match(module)
            if expected is None:
                return original(module, *args, **kwargs)
            self._stop_labels()
            with private.unobserved():
                args, kwargs = self._prepare(module, expected, args, kwargs)
            self._depth += 1
            try:
                result = original(module, *args, **kwargs)
            finally:
                self._depth -= 1
            self._start_labels()
            return result

        return call

    def _match(self, module: nn.Module) -> _Expected | None:
        """The next call of the captured step, if ``module`` is its network and trains."""
        inner, _ = unwrapped(module)
        for number, each in enumerate(self._expected):
            is_same = fits(inner, each.module)
            if not each.module.parameters:
                is_same &= each.module.of.endswith(f":{type(inner).__qualname__}")
            is_training = not each.stored.training or each.stored.training[0] == inner.training
            if is_same and is_training and torch.is_grad_enabled():
                return self._expected.pop(number)
        return None

    def _prepare(
        self, module: nn.Module, expected: _Expected, args: Any, kwargs: Any
    ) -> tuple[Any, Any]:
        """Put ``module`` into the state of the captured call; the arguments of that call."""
        inner, _ = unwrapped(module)
        if id(inner) not in self._modules:
            try:
                give_weights(inner, expected.module, self.step.tensors)
            except ReplayError as error:
                self.problem = error
                raise VerifyDone from None
            self._modules[id(inner)] = inner
        record = self._record_of(inner, expected)
        self._averaged |= record.averaged
        call = record.calls[0]
        self._calls.append(call)
        set_before(call)
        set_random(call.random)
        if self._labels is None:
            self._labels = LabelMode(self._labels_of(record))
        given = list(tensors_in((args, kwargs)))
        wanted = list(call.inputs)
        if len(given) == len(wanted):
            replaced = {
                id(one): _values(kept, one) for one, kept in zip(given, wanted, strict=True)
            }
            self._labels.know(one for one in given if replaced[id(one)] is one)
            return map_tree((args, kwargs), torch.Tensor, lambda each: replaced.get(id(each), each))  # type: ignore[no-any-return]
        if any(kept.alias.is_meta for kept in wanted):
            self.problem = ReplayError(
                f"{expected.module.name} is called with {len(given)} tensors, in the captured step "
                f"with {len(wanted)}",
                slug="module-differs",
            )
            raise VerifyDone
        made = map_tree((call.args, call.kwargs), KeptTensor, _copied)
        return made[0], made[1]

    def _record_of(self, module: nn.Module, expected: _Expected) -> StepRecord:
        """A record of the captured call alone, and of the ops of the step."""
        modules: list[nn.Module] = []
        for stored in self.step.manifest.modules:
            known = next((each for each in self._modules.values() if fits(each, stored)), None)
            modules.append(module if stored is expected.module else known or nn.Identity())
        parameters = [each for one in modules for each in one.parameters()]
        gradients = [each.grad for each in parameters]
        record = self.step.record(modules)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient  # those of the program, not of the captured step
        number = [e for e in self.step.manifest.events if isinstance(e, StoredCall)].index(
            expected.stored
        )
        call = record.calls[number]
        record.events = [call, *record.outside_ops]
        return record

    def _labels_of(self, record: StepRecord) -> list[LossInput]:
        """The tensors that ops outside of modules were given and that the step did not compute."""
        made = {id(each.tensor) for call in record.calls for each in call.outputs}
        return [
            LossInput(op.function, position, kept.values)
            for op in record.outside_ops
            for position, kept in enumerate(op.inputs)
            if id(kept) not in made and _is_given(kept)
        ]

    def _start_labels(self) -> None:
        if self._labels is not None and not self._labels.is_active:
            self._labels.is_active = True
            push_function_mode_below(self._labels)

    def _stop_labels(self) -> None:
        if self._labels is not None and self._labels.is_active:
            self._labels.is_active = False
            pop_function_mode_below(self._labels)

    # ------------------------------------------------------------------ the end

    def backward_begins(self, tensors: Any, options: dict[str, Any]) -> None:
        self._stop_labels()
        if self._calls:
            self._losses += [each.detach().clone() for each in tensors_in(_listed(tensors))]

    def backward_ended(self, error: Exception | None) -> None:
        if self._calls and self._expected:
            self._start_labels()

    def _stepping(self) -> None:
        """An optimizer is about to step, or was skipped: the step is complete."""
        if not self._calls or len(self._losses) < min(1, self.step.manifest.accumulation):
            return
        done = Execution(was_run=True, losses=self._losses)
        for module in self._modules.values():
            for parameter in module.parameters():
                done.gradients[id(parameter)] = (parameter, parameter.grad)
        manifest = self.step.manifest
        record = StepRecord(manifest.step, manifest.rank, list(self._calls))
        record.averaged_over, record.averaged = manifest.averaged_over, self._averaged
        self.outcome = outcome_of(record, done)
        if self._labels is not None:
            self.unused = len(self._labels.wanted)
            is_unknown = self._labels.is_spoiled and not self.outcome.is_finite
            self.outcome = replace(self.outcome, is_spoiled_outside=is_unknown)
        raise VerifyDone


def _values(kept: KeptTensor, own: torch.Tensor) -> torch.Tensor:
    """The tensor of the captured step; the program's ``own`` if the step computed it."""
    if kept.alias.is_meta or own.requires_grad:
        return own
    if kept.requires_grad:
        return kept.values.detach().clone().requires_grad_()
    return own_or_copy(kept.values, own)


def _is_given(kept: KeptTensor) -> bool:
    values_are_known = not kept.alias.is_meta and kept.leaf is None
    return values_are_known and not kept.requires_grad and kept.values.dim() > 0


def _copied(kept: KeptTensor) -> torch.Tensor:
    return kept.values.detach().clone().requires_grad_(kept.requires_grad)


def _listed(tensors: Any) -> Any:
    return tensors if isinstance(tensors, list | tuple) else (tensors,)
