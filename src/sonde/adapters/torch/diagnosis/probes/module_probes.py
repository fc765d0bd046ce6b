"""Runs a trained module again on one batch, once, to see what its outputs depend on.

State and random numbers are put back afterwards: training flags, buffers, plain attributes of
modules, and the generators of torch, numpy and Python. A module is not probed if it has hooks of
the program's own, is compiled or spans ranks, or if a call fails.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from sonde.adapters.torch.diagnosis.losses.functions import FunctionCalls
from sonde.adapters.torch.diagnosis.losses.op_trace import OpTrace
from sonde.adapters.torch.diagnosis.modules import (
    ModuleCalls,
    RootCall,
    replaced,
    tensors_in,
)
from sonde.adapters.torch.diagnosis.probes.attention import inverted, leaking, padding_of
from sonde.adapters.torch.diagnosis.probes.first_layer import first_input
from sonde.adapters.torch.diagnosis.probes.restoring import can_probe, put_back
from sonde.adapters.torch.diagnosis.probes.targets import token_ids
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.interruption import pass_on

AT_STEP = 10
PROBED_SAMPLES = 3


@dataclass(slots=True, eq=False)
class _Run:
    output: torch.Tensor
    modules: list[tuple[nn.Module, list[torch.Tensor], list[torch.Tensor]]]
    trace: OpTrace | None


@dataclass(slots=True, eq=False)
class Probes:
    """Probes the module after step 10."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    functions: FunctionCalls
    _is_done: bool = False

    @shielded
    def step_ended(self) -> None:
        if self.recorder.step == AT_STEP:
            self._probe()

    def finish(self) -> None:
        if not self._is_done and self.recorder.step >= 2:
            self._probe()

    # ------------------------------------------------------------ running the module again

    def _probe(self) -> None:
        self._is_done = True
        call = self.modules.last
        if call is None or self.recorder.uses_compiler or not can_probe(call.module):
            return
        self.recorder.is_probing = True
        try:
            with put_back(call.module):
                self._run_probes(with_few_samples(call), padding_of(call))
        except Exception as error:  # The module is the program's: it may refuse anything.
            pass_on(error)
            self.recorder.event("probe-failed", call.source, type(error).__name__)
        finally:
            self.recorder.is_probing = False
            self.functions.probe = None

    def _run_probes(self, call: RootCall, padding: torch.Tensor | None) -> None:
        first = self._run(call, call.args, call.kwargs, OpTrace())
        if first is None or first.trace is None:
            return
        for name, source, numbers in first.trace.found:
            self.recorder.event(name, source, type(call.module).__name__, **numbers)
        for attention, rows in inverted(first.trace.attentions, padding, len(first.output)):
            self.recorder.event("mask-inverted", attention.source, attention.name, rows=rows)
        layer = first_input(first.modules)
        if layer is not None:
            path = module_path(call.module, layer[0])
            self.recorder.event("first-input", call.source, path, **layer[1])
        if self._is_independent(call, first):
            return
        second = self._run(call, call.args, call.kwargs)
        if second is None or not _is_repeated(first.output, second.output):
            return
        self._change_sample(call, first)
        self._change_last_token(call, first)

    def _run(
        self, call: RootCall, args: Any, kwargs: Any, trace: OpTrace | None = None
    ) -> _Run | None:
        given: list[torch.Tensor] = []
        self.functions.probe = given
        seen: list[tuple[nn.Module, list[torch.Tensor], list[torch.Tensor]]] = []

        def note(module: nn.Module, inputs: Any, output: Any) -> None:
            seen.append((module, tensors_in(inputs), tensors_in(output)))

        handle = register_module_forward_hook(note)
        try:
            with trace or contextlib.nullcontext():
                output = call.module(*args, **kwargs)
        finally:
            handle.remove()
        floats = [each for each in tensors_in(output) if each.is_floating_point() and each.dim()]
        found = floats[0] if floats else given[-1] if given else None
        return None if found is None else _Run(found, seen, trace)

    def _is_independent(self, call: RootCall, first: _Run) -> bool:
        """Whether one run shows that no sample, and no token, depends on others: with another first
        sample and, in the other samples, another last token. If not, each is looked at alone."""
        ids = token_ids(call, self.recorder.evidence)
        tensors = [each for each in tensors_in((call.args, call.kwargs)) if each.dim() >= 1]
        if {each.shape[0] for each in tensors} != {len(first.output)} or len(first.output) < 3:
            return False
        length = None if ids is None or ids.shape[1] < 3 else ids.shape[1]
        if length is not None and first.output.shape[1:2] != (length,):
            return False

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            copy = tensor.clone()
            copy[0] = tensor[1]
            if tensor is ids and length is not None:
                copy[1:, -1] = tensor[:-1, 0]
            return copy

        second = self._run(call, replaced(call.args, changed), replaced(call.kwargs, changed))
        if second is None or second.output.shape != first.output.shape:
            return False
        before, after = first.output[1:], second.output[1:]
        if length is not None:
            before, after = before[:, :-1], after[:, :-1]
        scale = float(first.output.abs().max()) or 1.0
        if not float((after - before).abs().max()) / scale <= 1e-5:
            return False
        if length is not None:
            self.recorder.event("is-causal", call.source)
        return True

    def _change_sample(self, call: RootCall, first: _Run) -> None:
        tensors = [each for each in tensors_in((call.args, call.kwargs)) if each.dim() >= 1]
        sizes = {each.shape[0] for each in tensors}
        if len(sizes) != 1 or not tensors[0].dim() >= 2:
            return
        batch = sizes.pop()
        if batch < 3 or not first.output.dim() or first.output.shape[0] != batch:
            return

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            copy = tensor.clone()
            copy[0] = tensor[1]
            return copy

        args, kwargs = replaced(call.args, changed), replaced(call.kwargs, changed)
        second = self._run(call, args, kwargs)
        if second is None or second.output.shape != first.output.shape:
            return
        rows = (second.output != first.output).reshape(batch, -1).any(1)
        others = int(rows[1:].sum())
        scale = float(first.output.abs().max()) or 1.0
        moved = float((second.output[1:] - first.output[1:]).abs().max()) / scale
        if others and moved > 1e-4:
            self.recorder.event(
                "samples-mixed",
                call.source,
                type(call.module).__name__,
                rows=others,
                batch=batch,
                moved=moved,
            )
            if _has_equal_rows(first.output) and _has_equal_rows(second.output):
                self._note_equal_rows(call, first, batch)

    def _note_equal_rows(self, call: RootCall, first: _Run, batch: int) -> None:
        """All samples get one output, which depends on all of them: name the first module that
        makes equal rows of different ones."""
        module = next(
            (
                module
                for module, inputs, outputs in first.modules
                if _rows(inputs, batch)
                and _rows(outputs, batch)
                and all(_has_equal_rows(each) for each in _rows(outputs, batch))
                and not all(_has_equal_rows(each) for each in _rows(inputs, batch))
            ),
            call.module,
        )
        self.recorder.event(
            "outputs-equal",
            call.source,
            module_path(call.module, module),
            layer=type(module).__name__,
            rows=batch,
        )

    def _change_last_token(self, call: RootCall, first: _Run) -> None:
        ids = token_ids(call, self.recorder.evidence)
        if ids is None or ids.shape[1] < 3:
            return
        length = ids.shape[1]

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            if tensor is not ids:
                return tensor
            copy = tensor.clone()
            copy[:, -1] = ids.flatten()[torch.arange(len(ids)) * 7 % ids.numel()]
            return copy

        args, kwargs = replaced(call.args, changed), replaced(call.kwargs, changed)
        second = self._run(call, args, kwargs, OpTrace())
        if second is None or second.output.shape != first.output.shape:
            return
        before, after = first.output, second.output
        if before.dim() == 2 and before.shape[0] == ids.numel():
            before, after = (each.view(*ids.shape, -1) for each in (before, after))
        moved = earlier_change(before, after, length)
        if moved is None:
            return
        if moved > 1e-4:
            module = leaking_module(first, second, length)
            name = "" if module is None else module_path(call.module, module)
            one, two = (each.trace for each in (first, second))
            attention = None
            if one is not None and two is not None:
                attention = leaking(one.attentions, two.attentions, length)
            self.recorder.event(
                "future-seen",
                call.source if attention is None else attention.source,
                name,
                moved=moved,
                positions=length - 1,
                op="" if attention is None else attention.name,
                layer="" if module is None else type(module).__name__,
            )
        else:
            self.recorder.event("is-causal", call.source)


def _rows(tensors: list[torch.Tensor], batch: int) -> list[torch.Tensor]:
    return [each for each in tensors if each.dim() >= 2 and each.shape[0] == batch]


def _has_equal_rows(tensor: torch.Tensor) -> bool:
    scale = float(tensor.abs().max()) or 1.0
    return float((tensor - tensor[:1]).abs().max()) <= 1e-6 * scale


def _is_repeated(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two runs agree up to rounding: a run that is traced may take another kernel."""
    if first.shape != second.shape:
        return False
    return float((first - second).abs().max()) <= 1e-6 * (float(first.abs().max()) or 1.0)


def with_few_samples(call: RootCall) -> RootCall:
    """``call`` with the first samples of its batch, if all its tensors have one for each."""
    tensors = tensors_in((call.args, call.kwargs))
    sizes = {each.shape[0] if each.dim() else 0 for each in tensors}
    if len(sizes) != 1 or sizes.pop() <= PROBED_SAMPLES or any(each.dim() < 2 for each in tensors):
        return call

    def first(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[:PROBED_SAMPLES]

    args, kwargs = replaced(call.args, first), replaced(call.kwargs, first)
    return RootCall(call.module, args, kwargs, call.source)


def leaking_module(first: _Run, second: _Run, length: int) -> nn.Module | None:
    """The first module whose outputs at early positions changed while its inputs there did not."""

    def differs(one: list[torch.Tensor], two: list[torch.Tensor]) -> bool:
        pairs = zip(one, two, strict=False)
        return any((earlier_change(left, right, length) or 0.0) > 1e-5 for left, right in pairs)

    for (module, inputs, outputs), (other, new_inputs, new_outputs) in zip(
        first.modules, second.modules, strict=False
    ):
        if module is other and not differs(inputs, new_inputs) and differs(outputs, new_outputs):
            return module
    return None


def earlier_change(before: torch.Tensor, after: torch.Tensor, length: int) -> float | None:
    """How much values of all positions but the last differ, relative to the largest value; None
    without positions: dimension 1 or, as after a convolution, the last one. Where both have this
    length, the smaller change counts."""
    if before.dim() < 3 or before.shape != after.shape or not before.is_floating_point():
        return None
    scale = float(before.abs().max()) or 1.0
    changes = [
        float((after - before).narrow(dim, 0, length - 1).abs().max()) / scale
        for dim in {1, before.dim() - 1}
        if before.shape[dim] == length
    ]
    return min(changes, default=None)


def module_path(root: nn.Module, module: nn.Module) -> str:
    return next((path for path, each in root.named_modules() if each is module), "")
