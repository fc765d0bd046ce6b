"""Observes flags and buffers of modules: modes, spectral norms, counters, running statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.calling_line import caller, source_of
from sonde.adapters.torch.diagnosis.element_count import element_count
from sonde.adapters.torch.diagnosis.loop.calls import TrainingCalls, parameters_of
from sonde.adapters.torch.diagnosis.modules import DROPPING, NORMALISING, ModuleCalls
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.adapters.torch.diagnosis.states.freezing import (
    FLAG,
    flags_without_effect,
    frozen_by_name,
    frozen_by_train,
    line_that_sets,
    own_train,
)
from sonde.adapters.torch.diagnosis.states.spectral_norms import spectral_norms
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable

EVERY = 8
MODES_EVERY = 20
FIRST_MODES = 5
COMPARED = 4096
MOST_STATES = 8
"""Parameters of an optimizer whose state is searched for counters."""


@dataclass(slots=True, eq=False)
class ModuleFlags:
    """Judges nothing: notes flags and buffers that rules ask for."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    training: TrainingCalls
    _buffers: dict[int, tuple[float, int, int]] = field(default_factory=dict)
    _low: list[tuple[str, Mapping[str, Any], str]] = field(default_factory=list)
    _counting: WeakTable[nn.Module, str] = field(default_factory=WeakTable)
    """Modules that have a buffer of one number, also those that never run."""
    _frozen: WeakTable[nn.Module, tuple[float, ...]] = field(default_factory=WeakTable)
    _listed: WeakTable[nn.Module, bool] = field(default_factory=WeakTable)
    _searched: WeakTable[torch.optim.Optimizer, bool] = field(default_factory=WeakTable)
    """Optimizers whose state was searched for counters."""

    def install(self, undo: ExitStack) -> None:
        wrap(nn.Module, "register_buffer", self._around_register, undo)

    def _around_register(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def register_buffer(module: nn.Module, name: str, *args: Any, **kwargs: Any) -> None:
            original(module, name, *args, **kwargs)
            self._registered(module, name)

        return register_buffer

    @shielded
    def _registered(self, module: nn.Module, name: str) -> None:
        buffer = module._buffers.get(name)
        if buffer is not None and element_count(buffer) == 1 and buffer.is_floating_point():
            self._counting[module] = name

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

    @shielded
    def step_ended(self) -> None:
        step = self.recorder.step
        if step == 3 or (step and step % EVERY == 0):
            self._list()
        if step >= 3 and step % EVERY == 0:
            for name, holder, key in self._low:
                self._note_counter(name, holder.get(key))
        if step == FIRST_MODES or (step and step % MODES_EVERY == 0):
            for root in list(self.modules.roots):
                self._note_modes(root)
        if step % 10 == 0:
            self.note_roots()

    def _list(self) -> None:
        """Look at the modules and optimizers that are new since the last look: a program may train
        several networks one after the other."""
        for root in list(self.modules.roots):
            if root in self._listed:
                continue
            for path, module in root.named_modules():
                if module not in self._listed:
                    self._list_counters(f"{path}." if path else "", module._buffers)
                self._listed[module] = True
                self._note_freezing(path, module)
        for module in list(self._counting):
            if module not in self._listed:
                self._list_counters("", module._buffers)
                self._listed[module] = True
        for optimizer in list(self.training.states):
            if optimizer in self._searched:
                continue
            for state in islice(optimizer.state.values(), MOST_STATES):
                self._searched[optimizer] = True
                if isinstance(state, Mapping):
                    self._list_counters("", state)

    def _list_counters(self, prefix: str, holder: Mapping[str, Any]) -> None:
        """List what may be a counter in low precision."""
        for key, value in holder.items():
            is_number = isinstance(value, torch.Tensor) and element_count(value) == 1
            if is_number and value.dtype in (torch.float16, torch.bfloat16):
                self._low.append((f"{prefix}{key}", holder, key))

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
        for key, kept in flags_without_effect(module):
            self.recorder.event(
                "freeze-without-effect",
                line_that_sets(key),
                f"{path} {key}".strip(),
                names=" ".join(f"{path}.{name}" if path else name for name in kept),
                attribute=key,
                is_module=key == FLAG,
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
        norms = [
            (name, module)
            for name, module in root.named_modules()
            if isinstance(module, NORMALISING)
            and module.track_running_stats
            and module.training
            and self.modules.count(module)
            and is_frozen(module)
        ]
        counts = self.modules.roots.get(root)
        if not norms or counts is None:
            return
        everything = sum(1 for _ in root.parameters())
        still = sum(not each.requires_grad for each in root.parameters())
        source = counts.train_source or counts.first_source
        if still == everything:
            if not self._is_left_alone(root):
                return
            source = counts.last_source
        moved = [each.num_batches_tracked for _, each in norms]
        self.recorder.event(
            "frozen-norm-trains",
            source,
            norms[0][0],
            norms=len(norms),
            moved=sum(each is not None and int(each) > 0 for each in moved),
            frozen_parameters=still,
            parameters=everything,
        )

    def _is_left_alone(self, root: nn.Module) -> bool:
        """Whether the weights of a network that is frozen whole are those of the last look: it is
        neither averaged from another one nor trained in turns."""
        first = list(root.parameters())[:4]
        sums = tuple(float(each.detach().flatten()[:COMPARED].double().sum()) for each in first)
        known = self._frozen.get(root)
        self._frozen[root] = sums
        return known == sums

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
                if not _is_in_frozen(root, name)
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


def is_frozen(module: nn.Module) -> bool:
    """Whether the module has parameters of its own, and trains none of them."""
    own = list(module.parameters(recurse=False))
    return bool(own) and not any(each.requires_grad for each in own)


def _is_in_frozen(root: nn.Module, name: str) -> bool:
    """Whether the part of ``root`` around a module is frozen: it may be in eval mode then."""
    module = root.get_submodule(name)
    if next(module.parameters(), None) is None:
        module = root.get_submodule(name.rpartition(".")[0])
    return not any(each.requires_grad for each in module.parameters())
