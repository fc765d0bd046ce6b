"""Runs a trained module again on one batch, once, to see what its outputs depend on.

State and random numbers are put back afterwards: training flags, buffers, plain attributes of
modules, and the generators of torch, numpy and Python. A module is not probed if it has hooks of
the program's own, is compiled or spans ranks, or if a call fails.
"""

from __future__ import annotations

import contextlib
import io
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from sonde.adapters.torch.diagnosis.functions import CLASSIFYING, FunctionCalls, LossCall
from sonde.adapters.torch.diagnosis.modules import ModuleCalls, RootCall, tensors_in
from sonde.adapters.torch.diagnosis.op_trace import OpTrace
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.graph import Source

AT_STEP = 10
MOST_SAMPLES = 512
FEWEST_SAMPLES = 64
MOST_FEATURES = 4096
_PLAIN = (bool, int, float, str, type(None), tuple)


@dataclass(slots=True, eq=False)
class _Run:
    output: torch.Tensor
    modules: list[tuple[nn.Module, list[torch.Tensor], list[torch.Tensor]]]
    trace: OpTrace


@dataclass(slots=True, eq=False)
class Probes:
    """Compares targets with inputs in the first steps, and probes the module after step 10."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    functions: FunctionCalls
    _is_done: bool = False
    _rows: list[torch.Tensor] = field(default_factory=list)
    _labels: list[torch.Tensor] = field(default_factory=list)
    _count: int = 0
    _loss: tuple[Source | None, str] = (None, "")

    @shielded
    def backward_begins(self, roots: list[torch.Tensor]) -> None:
        last = self.modules.last
        calls = [each for each in self.functions.in_this_step if each.name in CLASSIFYING]
        if last is None or not calls:
            return
        self._collect(last, calls[-1])
        if self.recorder.step <= AT_STEP:
            self._compare_targets(last, calls[-1])

    def _compare_targets(self, last: RootCall, call: LossCall) -> None:
        ids = token_ids(last)
        target = call.target.flatten()
        if ids is None or not ids.shape[1] > 2 or target.is_floating_point():
            return
        if target.numel() == ids.numel():
            shaped = target.view(ids.shape)
            same = float(shaped.eq(ids).float().mean())
            shifted = float(shaped[:, :-1].eq(ids[:, 1:]).float().mean())
        elif target.numel() == ids[:, 1:].numel():
            shaped = target.view(ids[:, 1:].shape)
            same = float(shaped.eq(ids[:, :-1]).float().mean())
            shifted = float(shaped.eq(ids[:, 1:]).float().mean())
        else:
            return
        if same > 0.999 and shifted < 0.9:
            self.recorder.event("target-is-input", call.source, call.name, same=same)
        elif shifted > 0.98:
            self.recorder.event("target-is-shifted", call.source, call.name, shifted=shifted)
        self._compare_padding(last, call, shaped)

    def _compare_padding(self, last: RootCall, call: LossCall, target: torch.Tensor) -> None:
        for name, module in last.module.named_modules():
            pad = module.padding_idx if isinstance(module, nn.Embedding) else None
            if pad is None or call.options.get("ignore_index") == pad:
                continue
            tail = target.eq(pad).flip(1).cumprod(1).sum(1).float() / target.shape[1]
            if float(tail.mean()) >= 0.1 and float(tail.min()) < 1:
                share = float(tail.mean())
                self.recorder.event(
                    "padding-in-loss",
                    call.source,
                    name,
                    share=share,
                    pad=int(pad),
                    function=call.name,
                )

    def _collect(self, last: RootCall, call: LossCall) -> None:
        """Keep a few samples with their labels."""
        inputs = [each for each in tensors_in((last.args, last.kwargs)) if each.dim() >= 2]
        if self._count >= MOST_SAMPLES or not inputs or not inputs[0].is_floating_point():
            return
        rows, labels = inputs[0].detach(), call.target
        self._loss = call.source, call.name
        if labels.dim() == 1 and len(labels) == len(rows) and call.input.dim() == 2:
            flat = rows.flatten(1)
            if flat.shape[1] <= MOST_FEATURES and rows.device.type == "cpu":
                self._rows.append(flat.float().clone())
                self._labels.append(labels.detach().clone())
                self._count += len(rows)

    @shielded
    def step_ended(self) -> None:
        if self.recorder.step == AT_STEP:
            self._probe()

    def finish(self) -> None:
        if not self._is_done and self.recorder.step >= 2:
            self._probe()
        if self._count >= MOST_SAMPLES // 2:
            self._note_neighbours()

    def _note_neighbours(self) -> None:
        rows, labels = torch.cat(self._rows)[:MOST_SAMPLES], torch.cat(self._labels)[:MOST_SAMPLES]
        known = {row.tobytes(): number for number, row in enumerate(rows.numpy())}
        kept = torch.tensor(sorted(known.values()))  # A sample and its repetitions count once.
        rows, labels = rows[kept], labels[kept]
        if len(rows) < FEWEST_SAMPLES:
            return
        spread = rows.std(0)
        rows = (rows - rows.mean(0)) / torch.where(spread > 0, spread, torch.ones_like(spread))
        distances = torch.cdist(rows, rows)
        distances.fill_diagonal_(float("inf"))
        nearest = distances.topk(5, largest=False).indices
        agreement = float(labels[nearest].eq(labels[:, None]).float().mean())
        shares = torch.bincount(labels.clamp(min=0)).float() / len(labels)
        finite = distances[torch.isfinite(distances)]
        near = float(distances.min(1).values.median())
        self.recorder.event(
            "neighbours",
            *self._loss,
            agreement=agreement,
            chance=float((shares**2).sum()),
            entropy=float(-(shares[shares > 0] * shares[shares > 0].log()).sum()),
            nearness=near / float(finite.median()),
            samples=len(labels),
        )

    # ------------------------------------------------------------ running the module again

    def _probe(self) -> None:
        self._is_done = True
        call = self.modules.last
        if call is None or self.recorder.uses_compiler or not can_probe(call.module):
            return
        self.recorder.is_probing = True
        try:
            with put_back(call.module):
                self._run_probes(call)
        except Exception as error:  # The module is the program's: it may refuse anything.
            self.recorder.event("probe-failed", call.source, type(error).__name__)
        finally:
            self.recorder.is_probing = False
            self.functions.probe = None

    def _run_probes(self, call: RootCall) -> None:
        first = self._run(call, call.args, call.kwargs)
        if first is None:
            return
        for name, source, numbers in first.trace.found:
            self.recorder.event(name, source, type(call.module).__name__, **numbers)
        second = self._run(call, call.args, call.kwargs)
        if second is None or not torch.equal(first.output, second.output):
            return
        self._change_sample(call, first)
        self._change_last_token(call, first)

    def _run(self, call: RootCall, args: Any, kwargs: Any) -> _Run | None:
        given: list[torch.Tensor] = []
        self.functions.probe = given
        seen: list[tuple[nn.Module, list[torch.Tensor], list[torch.Tensor]]] = []

        def note(module: nn.Module, inputs: Any, output: Any) -> None:
            seen.append((module, tensors_in(inputs), tensors_in(output)))

        handle = register_module_forward_hook(note)
        trace = OpTrace()
        try:
            with trace:
                output = call.module(*args, **kwargs)
        finally:
            handle.remove()
        floats = [each for each in tensors_in(output) if each.is_floating_point() and each.dim()]
        found = floats[0] if floats else given[-1] if given else None
        return None if found is None else _Run(found, seen, trace)

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
        rows = (second.output != first.output).flatten(1).any(1)
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

    def _change_last_token(self, call: RootCall, first: _Run) -> None:
        ids = token_ids(call)
        if ids is None or ids.shape[1] < 3:
            return
        length = ids.shape[1]

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            if tensor is not ids:
                return tensor
            copy = tensor.clone()
            copy[:, -1] = ids.flatten()[torch.arange(len(ids)) * 7 % ids.numel()]
            return copy

        second = self._run(call, replaced(call.args, changed), replaced(call.kwargs, changed))
        if second is None or second.output.shape != first.output.shape:
            return
        before, after = first.output, second.output
        if before.dim() == 2 and before.shape[0] == ids.numel():
            before, after = (each.view(*ids.shape, -1) for each in (before, after))
        if before.dim() < 3 or before.shape[1] != length:
            return
        scale = float(before.abs().max()) or 1.0
        moved = float((after[:, :-1] - before[:, :-1]).abs().max()) / scale
        if moved > 1e-4:
            module = leaking_module(first, second, length)
            name = "" if module is None else module_path(call.module, module)
            self.recorder.event("future-seen", call.source, name, moved=moved, positions=length - 1)
        else:
            self.recorder.event("is-causal", call.source)


def leaking_module(first: _Run, second: _Run, length: int) -> nn.Module | None:
    """The first module whose outputs at early positions changed while its inputs there did not."""

    def differs(one: list[torch.Tensor], two: list[torch.Tensor]) -> bool:
        for left, right in zip(one, two, strict=False):
            if left.dim() >= 3 and left.shape == right.shape and left.shape[1] == length:
                scale = float(left.abs().max()) or 1.0
                if float((left[:, :-1] - right[:, :-1]).abs().max()) > 1e-5 * scale:
                    return True
        return False

    for (module, inputs, outputs), (other, new_inputs, new_outputs) in zip(
        first.modules, second.modules, strict=False
    ):
        if module is other and not differs(inputs, new_inputs) and differs(outputs, new_outputs):
            return module
    return None


def module_path(root: nn.Module, module: nn.Module) -> str:
    return next((path for path, each in root.named_modules() if each is module), "")


def token_ids(call: RootCall) -> torch.Tensor | None:
    """The first input that is a matrix of integers."""
    for tensor in tensors_in((call.args, call.kwargs)):
        if tensor.dim() == 2 and tensor.dtype in (torch.int64, torch.int32):
            return tensor
    return None


def replaced(value: Any, change: Any) -> Any:
    """``value`` with its tensors changed; containers are rebuilt, other objects kept."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: replaced(each, change) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(replaced(each, change) for each in value)
    return value


def can_probe(module: nn.Module) -> bool:
    """Whether every hook in ``module`` is torch's own, and it spans no ranks."""
    if isinstance(module, nn.parallel.DistributedDataParallel):
        return False
    for each in module.modules():
        if type(each).__name__ in ("OptimizedModule", "FullyShardedDataParallel"):
            return False
        for hook in (*each._forward_hooks.values(), *each._forward_pre_hooks.values()):
            owner = getattr(hook, "__module__", "") or type(hook).__module__
            if not owner.startswith("torch."):
                return False
    return True


@contextlib.contextmanager
def put_back(root: nn.Module) -> Iterator[None]:
    """Run the block in eval mode, without gradients and output, and restore everything after it."""
    modules = list(root.modules())
    flags = [each.training for each in modules]
    buffers = [(each, each.clone()) for each in root.buffers()]
    plain = [_attributes(each) for each in modules]
    filled = [
        (value, list(value.items()) if isinstance(value, dict) else list(value))
        for each in modules
        for key, value in vars(each).items()
        if not key.startswith("_") and isinstance(value, (list, dict, set, deque))
    ]
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    has_cuda = torch.cuda.is_available()
    cuda = torch.cuda.get_rng_state_all() if has_cuda else None
    silent = io.StringIO()
    for each in modules:
        each.training = False
    try:
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            yield
    finally:
        for each, flag, kept in zip(modules, flags, plain, strict=True):
            vars(each).update(kept)
            each.training = flag
        for buffer, value in buffers:
            buffer.copy_(value)
        for container, items in filled:
            container.clear()
            container.extend(items) if hasattr(container, "extend") else container.update(items)
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Attributes of ``module`` that are plain values, or tensors that are neither parameter nor
    buffer."""
    kept = (*_PLAIN, torch.Tensor)
    return {key: value for key, value in vars(module).items() if isinstance(value, kept)}
