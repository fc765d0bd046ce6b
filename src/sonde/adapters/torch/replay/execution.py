"""Executes a recorded step again, in the process that recorded it or in another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.backward_calls import plain_backward
from sonde.adapters.torch.replay.comparison import ReplayDifference, difference
from sonde.adapters.torch.replay.kept_tensor import KeptTensor, map_tree, tensors_in
from sonde.adapters.torch.replay.module_calls import outputs_of
from sonde.adapters.torch.replay.needed_ops import needed_events
from sonde.adapters.torch.replay.random_states import AutocastRegion, set_random
from sonde.adapters.torch.replay.saved_state import SavedState, kept_state, set_before
from sonde.adapters.torch.replay.step_record import (
    BackwardPass,
    Event,
    ModuleCall,
    OutsideOp,
    ReplayProblem,
    StepRecord,
)
from sonde.core.interruption import pass_on

FATAL = frozenset(("optimizer_inside", "collective", "weights_changed", "recording_failed"))
"""Reasons for which a step is not executed again: it would change the training, or wait for other
ranks, or its weights are gone."""


@dataclass(slots=True, eq=False)
class Execution:
    """The result of executing a step again.

    ``was_run`` is False if it could not be; ``reasons`` say why, and what was left out.
    ``compared`` counts the tensors that were compared with those of the training.
    ``failed_at``: the event that raised ``error``. ``losses`` and ``gradients`` (by the id of the
    parameter, with the parameter) are what was computed. ``optimizer_problem``: why the
    optimizer did not step although its state was kept.
    """

    was_run: bool = False
    differences: list[ReplayDifference] = field(default_factory=list)
    compared: int = 0
    reasons: list[ReplayProblem] = field(default_factory=list)
    error: Exception | None = None
    failed_at: Event | None = None
    losses: list[torch.Tensor] = field(default_factory=list)
    gradients: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = field(default_factory=dict)
    optimizer_problem: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether everything that was compared is equal bit for bit, and the step raised what it
        raised before, if anything."""
        if not self.was_run or self.differences:
            return False
        return self.is_same_error if self.error is not None else self.compared > 0

    @property
    def is_same_error(self) -> bool:
        before = None if self.failed_at is None else self.failed_at.error
        return type(before) is type(self.error) and str(before) == str(self.error)


BeginEvent = Callable[[Event | None], None]


def execute(
    record: StepRecord,
    *,
    begin_event: BeginEvent = lambda event: None,
    at_end: Callable[[SavedState], None] = lambda saved: None,
    hides_earlier: bool = False,
) -> Execution:
    """Run forward and backward passes of ``record`` again, and compare; everything is afterwards as
    it was. ``begin_event`` is called before each event, and with None at the end. ``at_end`` is
    called if nothing raised, when parameters have the gradients that were computed; it gets those
    of the training. ``hides_earlier``: calls that belong to an earlier step are not observed.

    An exception of the program's code is part of the result: the step may have raised it, too.
    """
    done = Execution(reasons=list(record.unreplayable))
    if not record.calls and not record.outside_ops and not record.has_optimizer_state:
        return done
    if any(reason.kind in FATAL for reason in done.reasons):
        return done
    events = needed_events(record.events)
    for call in events:
        if isinstance(call, ModuleCall) and call.weight_versions != weight_versions(call.module):
            done.reasons.append(ReplayProblem("weights_changed", call.name))
            return done
    with kept_state(record, events) as saved:
        run = _Run(record, events, done, saved, begin_event, hides_earlier)
        try:
            with private.with_torch_functions():
                run.run()
        except Exception as error:
            pass_on(error)
            done.error = error
        finally:
            run.close()
        done.was_run = True
        with private.unobserved():
            run.compare_gradients()
        if done.error is None:
            at_end(saved)
    return done


class _Run:
    def __init__(
        self,
        record: StepRecord,
        events: list[Event],
        done: Execution,
        saved: SavedState,
        begin_event: BeginEvent,
        hides_earlier: bool,
    ) -> None:
        self._record = record
        self._done = done
        self._saved = saved
        self._begin_event = begin_event
        self._hides_earlier = hides_earlier
        self._tensors: dict[int, torch.Tensor] = {}
        self._constants: set[int] = set()
        self._region = AutocastRegion()
        self._undo = ExitStack()
        passes = record.backward_passes
        self._is_connected = all(each.is_connected for each in passes)
        self._results: dict[tuple[int, int], torch.Tensor] = {}
        self._arrived: dict[tuple[int, int], torch.Tensor] = {}
        self._events = events
        self._passed: set[int | None] = set()

    def run(self) -> None:
        for leaf, gradient in self._saved.gradients.values():
            prior = self._record.prior_gradients.get(id(leaf))
            with private.unobserved():
                leaf.grad = _prior(prior.values, gradient, leaf) if prior is not None else None
        for event in self._events:
            self._done.failed_at = event
            self._begin_event(event)
            if isinstance(event, ModuleCall):
                self._call(event)
            elif isinstance(event, BackwardPass):
                self._backward(event)
            elif self._is_connected:
                self._outside(event)
        self._done.failed_at = None

    def close(self) -> None:
        self._begin_event(None)
        self._region.close()
        self._undo.close()

    # ----------------------------------------------------------------------- events

    def _call(self, call: ModuleCall) -> None:
        with private.unobserved():
            set_before(call)
            args = map_tree(call.args, KeptTensor, self._argument)
            kwargs = map_tree(call.kwargs, KeptTensor, self._argument)
        self._region.set(call.autocast)
        set_random(call.random)
        is_hidden = self._hides_earlier and call.age > 0
        hidden = private.unobserved() if is_hidden else nullcontext()
        with hidden, torch.set_grad_enabled(call.has_gradients):
            result = call.module(*args, **kwargs)
        with private.unobserved():
            self._take_outputs(call, [tensor for _, tensor in outputs_of(result)])

    def _take_outputs(self, call: ModuleCall, tensors: Sequence[torch.Tensor]) -> None:
        if len(tensors) != len(call.outputs):
            if call.error is None:
                self._differs(ReplayDifference("output", call.name, 1, 0, float("nan")))
            return
        for number, (output, tensor) in enumerate(zip(call.outputs, tensors, strict=True)):
            name = ".".join(map(str, (call.name, *output.path)))
            if output.tensor.is_unchanged:
                self._compare("output", name, output.tensor.alias, tensor)
            place = (call.number, number)
            if tensor.requires_grad:
                self._results[place] = tensor
                self._note_gradient(tensor, place)
            known = tensor
            if not self._is_connected:
                known = tensor.detach().requires_grad_(output.tensor.requires_grad)
            self._tensors[id(output.tensor)] = known

    def _note_gradient(self, tensor: torch.Tensor, place: tuple[int, int]) -> None:
        def hook(gradient: torch.Tensor) -> None:
            with private.unobserved():  # else the capture of a replay has an op more
                self._arrived.setdefault(place, gradient.detach())

        tensor.register_hook(hook)  # type: ignore[no-untyped-call]

    def _outside(self, op: OutsideOp) -> None:
        with private.unobserved():
            args = map_tree(op.args, KeptTensor, self._argument)
            kwargs = map_tree(op.kwargs, KeptTensor, self._argument)
            if any(each.leaf is None and id(each) in self._constants for each, _ in op.written):
                args = _with_copies(args)
        self._region.set(op.autocast)
        if op.random is not None:
            set_random(op.random)
        with torch.set_grad_enabled(op.has_gradients):
            result = op.function(*args, **kwargs)
        kept = list(op.outputs)
        made = list(tensors_in(result))
        if len(kept) == len(made):
            self._tensors.update((id(one), other) for one, other in zip(kept, made, strict=True))
        written = tensors_in(args[:1])
        for (_, after), tensor in zip(op.written, written, strict=False):
            self._tensors[id(after)] = tensor

    def _backward(self, passed: BackwardPass) -> None:
        self._passed.add(passed.number)
        self._region.close()
        self._region.set(passed.autocast)
        if self._is_connected:
            self._backward_from_roots(passed)
        else:
            self._backward_from_outputs(passed)
        self._region.close()
        for parameter, kept in passed.parameter_gradients:
            if parameter.grad is not None:
                self._tensors[id(kept)] = parameter.grad

    def _backward_from_roots(self, passed: BackwardPass) -> None:
        with private.unobserved():
            roots = [self._argument(each) for each in passed.roots]
            gradients = [
                None if each is None else self._argument(each) for each in passed.gradients
            ]
            self._done.losses += [root.detach() for root in roots]
            for kept, root in zip(passed.roots, roots, strict=True):
                if kept.is_unchanged and id(kept) in self._tensors:
                    self._compare("loss", f"backward {passed.number}", kept.alias, root)
            inputs = passed.inputs
            wanted = None if inputs is None else [self._argument(each) for each in inputs]
        plain_backward()(roots, gradients, passed.keeps_graph, passed.makes_graph, inputs=wanted)

    def _backward_from_outputs(self, passed: BackwardPass) -> None:
        """Start at the outputs of the modules, with the gradients that arrived there."""
        roots, gradients = [], []
        for call in self._record.calls:
            for number, output in enumerate(call.outputs):
                root = self._results.get((call.number, number))
                if root is None or output.backward != passed.number:
                    continue
                if output.gradient is None:
                    self._done.reasons.append(ReplayProblem("gradient_unknown", call.name))
                    continue
                roots.append(root)
                gradients.append(output.gradient)
        if roots:
            plain_backward()(roots, gradients, passed.keeps_graph, passed.makes_graph)

    # ---------------------------------------------------------------------- tensors

    def _argument(self, kept: KeptTensor) -> torch.Tensor:
        """The tensor of the replay for one of the training."""
        known: KeptTensor | None = kept
        while known is not None:
            found = self._tensors.get(id(known))
            if found is not None:
                return found
            known = known.earlier
        if kept.leaf is not None and kept.requires_grad:
            return kept.leaf
        if not kept.is_known:
            self._add_reason(ReplayProblem("input_changed"))
        is_written = kept.copy is not None or not kept.is_unchanged or kept.leaf is not None
        made = kept.values.clone() if is_written else kept.values.detach()
        if kept.requires_grad:
            made.requires_grad_()
        self._tensors[id(kept)] = made
        self._constants.add(id(kept))
        return made

    def _add_reason(self, reason: ReplayProblem) -> None:
        if reason not in self._done.reasons:
            self._done.reasons.append(reason)

    def _compare(self, quantity: Any, name: str, before: Any, now: Any) -> None:
        self._done.compared += 1
        found = difference(quantity, name, before, now)
        if found is not None:
            self._differs(found)

    def _differs(self, found: ReplayDifference) -> None:
        self._done.differences.append(found)

    def compare_gradients(self) -> None:
        """Compare the gradients that arrived at outputs and those of parameters; fill in the
        gradients at outputs that were too large to keep."""
        for call in self._record.calls:
            for number, output in enumerate(call.outputs):
                arrived = self._arrived.get((call.number, number))
                if output.backward not in self._passed:
                    continue
                if output.gradient is not None and self._is_connected:
                    name = ".".join(map(str, (call.name, *output.path)))
                    self._compare("output gradient", name, output.gradient, arrived)
                elif output.gradient is None:
                    output.gradient = arrived
        averaged = self._record.averaged
        names = {id(each): name for name, each in _names(self._record)}
        for leaf, gradient in self._saved.gradients.values():
            self._done.gradients[id(leaf)] = (leaf, leaf.grad)
            if not self._record.backward_passes:
                continue
            name = names.get(id(leaf), "tensor")
            if self._record.averaged_over <= 1:
                self._compare("parameter gradient", name, gradient, leaf.grad)
            elif id(leaf) in averaged and averaged[id(leaf)].own is not None:
                self._compare("parameter gradient", name, averaged[id(leaf)].own, leaf.grad)


def weight_versions(module: torch.nn.Module) -> int:
    """The sum of the counts of writes to the parameters."""
    return sum(map(private.version_of, module.parameters()))


def _names(record: StepRecord) -> list[tuple[str, torch.Tensor]]:
    return [found for call in record.calls for found in call.module.named_parameters()]


def _with_copies(args: Any) -> Any:
    """``args`` with a copy of the tensors of the first argument, which is written to."""
    return (map_tree(args[0], torch.Tensor, lambda each: each.detach().clone()), *args[1:])


def _prior(
    values: torch.Tensor | None, gradient: torch.Tensor | None, leaf: torch.Tensor
) -> torch.Tensor:
    """The gradient that a parameter had before the step."""
    if values is not None:
        return values.clone()
    return torch.zeros_like(leaf.detach() if gradient is None else gradient)
