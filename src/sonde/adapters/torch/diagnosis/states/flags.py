"""Observes flags and buffers of modules: modes, spectral norms, counters, running statistics."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.calling_line import caller, source_of
from sonde.adapters.torch.diagnosis.loop.calls import TrainingCalls, parameters_of
from sonde.adapters.torch.diagnosis.modules import DROPPING, NORMALISING, ModuleCalls
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.adapters.torch.diagnosis.states.freezing import (
    frozen_by_name,
    frozen_by_train,
    own_train,
)
from sonde.adapters.torch.diagnosis.states.spectral_norms import spectral_norms
from sonde.core.patching import wrap

EVERY = 8


@dataclass(slots=True, eq=False)
class ModuleFlags:
    """Judges nothing: notes flags and buffers that rules ask for."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    training: TrainingCalls
    _buffers: dict[int, tuple[float, int, int]] = field(default_factory=dict)
    _low: list[tuple[str, nn.Module, str]] = field(default_factory=list)
    _is_listed: bool = False

    def install(self, undo: ExitStack) -> None:
        wrap(torch.Tensor, "detach", self._around_detach, undo)

    @shielded
    def first_call(self, module: nn.Module) -> None:
        """The first call of a module: a spectral norm must have been trained before eval."""
        if module.training:
            return
        for vector, used, largest in spectral_norms(module):
            outer = self.modules.current[0] if self.modules.current else module
            name = next((path for path, one in outer.named_modules() if one is module), "")
            self.recorder.event(
                "spectral-norm-eval-first",
                caller(),
                name or type(module).__name__,
                vector=vector,
                used=used,
                largest=largest,
            )

    def _around_detach(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def detach(tensor: torch.Tensor) -> Any:
            if self.recorder.step < 10 and tensor.grad_fn is not None and self.modules.current:
                self._detached()
            return original(tensor)

        return detach

    @shielded
    def _detached(self) -> None:
        self.recorder.event("detach", caller(), type(self.modules.current[-1]).__name__)

    @shielded
    def step_ended(self) -> None:
        step = self.recorder.step
        if step == 3:
            self._list()
        if step >= 3 and step % EVERY == 0:
            for name, module, key in self._low:
                self._note_counter(name, module._buffers.get(key))
        if step in (5, 20):
            for root in list(self.modules.roots):
                self._note_modes(root)
        if step % 10 == 0:
            self.note_roots()

    def _list(self) -> None:
        for root in list(self.modules.roots):
            for path, module in root.named_modules():
                for key, buffer in module._buffers.items():
                    if buffer is None or buffer.numel() != 1:
                        continue
                    if buffer.dtype in (torch.float16, torch.bfloat16):
                        self._low.append((f"{path}.{key}" if path else key, module, key))
                self._note_freezing(path, module)

    def _note_freezing(self, path: str, module: nn.Module) -> None:
        code = own_train(module)
        names: list[str] = []
        if code is not None:
            self.recorder.is_probing = True
            try:
                names = frozen_by_train(module)
            finally:
                self.recorder.is_probing = False
        if code is not None and names:
            self.recorder.event(
                "freeze-in-train",
                source_of(code.co_filename, code.co_firstlineno, code.co_name),
                path or type(module).__name__,
                names=" ".join(f"{path}.{name}" if path else name for name in names[:4]),
                parameters=len(names),
            )
        declared = frozen_by_name(module)
        if declared is not None and all(each.requires_grad for each in module.parameters()):
            key, value = declared
            self.recorder.event(
                "freeze-declared",
                None,
                f"{path}.{key}" if path else key,
                value=value,
                parameters=sum(1 for _ in module.parameters()),
            )

    def _note_counter(self, name: str, buffer: torch.Tensor | None) -> None:
        if buffer is None:
            return
        value, version = float(buffer), buffer._version
        known = self._buffers.get(id(buffer))
        self._buffers[id(buffer)] = (value, version, self.recorder.step)
        if known is None:
            return
        old, old_version, _ = known
        if value > old:
            self.recorder.event("counter-rose", None, name, value=value)
        elif version > old_version and value == old and float(buffer + 1) == value and value > 0:
            self.recorder.event("counter-stuck", None, name, value=value, dtype=str(buffer.dtype))

    def _note_modes(self, root: nn.Module) -> None:
        frozen = training = moved = 0
        for module in root.modules():
            if isinstance(module, NORMALISING) and module.track_running_stats:
                own = list(module.parameters(recurse=False))
                if own and not any(each.requires_grad for each in own):
                    frozen += 1
                    if module.training and self.modules.count(module):
                        training += 1
                        counted = module.num_batches_tracked
                        moved += bool(counted is not None and int(counted) > 0)
        if training:
            everything = sum(1 for _ in root.parameters())
            still = sum(not each.requires_grad for each in root.parameters())
            counts = self.modules.roots.get(root)
            source = None if counts is None else counts.train_source or counts.first_source
            self.recorder.event(
                "frozen-norm-trains",
                source,
                next(
                    name
                    for name, each in root.named_modules()
                    if isinstance(each, NORMALISING) and each.training
                ),
                norms=training,
                moved=moved,
                frozen_parameters=still,
                parameters=everything,
            )

    def note_roots(self) -> None:
        """Note how root modules were called while they were trained."""
        held = {id(each) for optimizer in self.training.states for each in parameters_of(optimizer)}
        for root in list(self.modules.roots):
            counts = self.modules.roots.get(root)
            if counts is None or not counts.trained:
                continue
            # An optimizer may be gone when the training has ended.
            counts.is_optimized = counts.is_optimized or any(
                each.requires_grad and id(each) in held for each in root.parameters()
            )
            sensitive = [
                (name, type(each).__name__)
                for name, each in root.named_modules()
                if (isinstance(each, DROPPING) and each.p > 0) or isinstance(each, NORMALISING)
            ]
            self.recorder.measure(
                "root-trained",
                counts.first_source,
                counts.name,
                calls=counts.trained,
                in_eval=counts.trained_in_eval,
                sensitive=" ".join(dict.fromkeys(name for name, _ in sensitive)),
                kinds=" ".join(dict.fromkeys(kind for _, kind in sensitive)),
                eval_step=counts.eval_step,
                eval_file="" if counts.eval_source is None else counts.eval_source.file,
                eval_line=0 if counts.eval_source is None else counts.eval_source.line,
                eval_code="" if counts.eval_source is None else counts.eval_source.code,
                trains=counts.is_optimized,
            )
