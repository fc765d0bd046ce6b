"""Observes states: dictionaries that are kept, loaded and saved."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.element_count import element_count
from sonde.adapters.torch.diagnosis.loop.calls import TrainingCalls, parameters_of
from sonde.adapters.torch.diagnosis.modules import ModuleCalls
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded, variables_holding
from sonde.core.files.checkpoint_keys import holds_optimizer, progress_keys
from sonde.core.graph import Source
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable

MOST_TAKEN = 256


@dataclass(slots=True, eq=False)
class LoadedWeights:
    """The parameters that one call has loaded; ``_replaced``: those that were initialised since,
    with their elements."""

    elements: int
    _replaced: dict[int, int] = field(default_factory=dict)

    def replace(self, parameter: torch.Tensor) -> float:
        """Note that one is initialised again; returns the share of elements that are."""
        self._replaced[id(parameter)] = element_count(parameter)
        return sum(self._replaced.values()) / max(self.elements, 1)


@dataclass(slots=True, eq=False)
class States:
    """Follows what becomes of states of modules and optimizers."""

    recorder: EvidenceRecorder
    training: TrainingCalls
    modules: ModuleCalls
    _taken: dict[int, tuple[weakref.ref[Any], int, Source | None]] = field(default_factory=dict)
    _last_taken: dict[int, tuple[int, Source | None]] = field(default_factory=dict)
    """Of each memory of a first tensor: the last state that was taken of it."""
    loaded: WeakTable[torch.Tensor, LoadedWeights] = field(default_factory=WeakTable)
    _file_steps: dict[int, tuple[str, bool, bool, Source | None]] = field(default_factory=dict)
    _saved: set[str] = field(default_factory=set)

    def install(self, undo: ExitStack) -> None:
        wrap(nn.Module, "state_dict", self._around_state_dict, undo)
        wrap(nn.Module, "load_state_dict", self._around_load, undo)
        wrap(torch.optim.Optimizer, "load_state_dict", self._around_optimizer_load, undo)
        wrap(torch, "save", self._around_save, undo)
        wrap(torch, "load", self._around_file_load, undo)

    # ------------------------------------------------------------ kept and loaded states

    def _around_state_dict(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def state_dict(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            result = original(module, *args, **kwargs)
            if not args and "prefix" not in kwargs:
                self._took(result)
            return result

        return state_dict

    @shielded
    def _took(self, state: Any) -> None:
        """Note the dictionary and its first tensor: a program may put the tensors into another."""
        source = caller()
        first = next((each for each in state.values() if isinstance(each, torch.Tensor)), None)
        for each in (state, first):
            if each is not None:
                self._taken[id(each)] = (weakref.ref(each), self.recorder.step, source)
        if first is not None and first.numel():
            self._last_taken[first.data_ptr()] = self.recorder.step, source
            while len(self._last_taken) > MOST_TAKEN:
                del self._last_taken[next(iter(self._last_taken))]
        if len(self._taken) > MOST_TAKEN:
            living = {key: each for key, each in self._taken.items() if each[0]() is not None}
            self._taken = living

    def taken_at(self, state: Any) -> tuple[int, Source | None] | None:
        """When and where a state was taken, or the tensors that it holds."""
        values = list(state.values()) if isinstance(state, dict) else []
        first = [each for each in values if isinstance(each, torch.Tensor)][:1]
        for each in (state, *first):
            known = self._taken.get(id(each))
            if known is not None and known[0]() is each:
                return known[1], known[2]
        return None

    def _around_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load_state_dict(module: nn.Module, state: Any, *args: Any, **kwargs: Any) -> Any:
            self._loads(module, state)
            return original(module, state, *args, **kwargs)

        return load_state_dict

    @shielded
    def _loads(self, module: nn.Module, state: Any) -> None:
        source = caller()
        own = {each.data_ptr() for each in module.parameters() if element_count(each)}
        given = [
            each for each in getattr(state, "values", list)() if isinstance(each, torch.Tensor)
        ]
        shared = sum(element_count(each) > 0 and each.data_ptr() in own for each in given)
        taken = self.taken_at(state)
        if own and shared >= len(own):
            if taken is None and given:  # Views that the program made, as by detach().
                taken = self._last_taken.get(given[0].data_ptr())
            age = None if taken is None else self.recorder.step - taken[0]
            is_old = bool(self.recorder.step) if age is None else age > 0
            name = "old-state-of-itself" if is_old else "state-of-itself"
            line = str(taken[1]) if taken else ""
            subject = type(module).__name__
            names = " ".join(variables_holding(module))
            self.recorder.event(
                name, source, subject, tensors=shared, age=age, taken=line, variables=names
            )
        file = self._file_steps.get(id(state))
        self._note_loaded(module)
        if file is not None:
            path, has_progress, has_optimizer, _ = file
            self.recorder.event(
                "weights-loaded",
                source,
                path,
                progress=has_progress or path in self._saved,
                holds_optimizer=has_optimizer,
                saved_here=path in self._saved,
                is_whole=_holds_all(state, module),
                parameters=" ".join(str(id(each)) for each in module.parameters()),
            )

    def _note_loaded(self, module: nn.Module) -> None:
        parameters = list(module.parameters())
        weights = LoadedWeights(sum(element_count(each) for each in parameters))
        for each in parameters:
            self.loaded[each] = weights

    def _around_optimizer_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load_state_dict(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self._optimizer_loads(optimizer)
            return original(optimizer, *args, **kwargs)

        return load_state_dict

    @shielded
    def _optimizer_loads(self, optimizer: torch.optim.Optimizer) -> None:
        name = self.training.state_of(optimizer).seen.name
        self.recorder.event("optimizer-state-loaded", caller(), name)

    @shielded
    def first_step(self, optimizer: torch.optim.Optimizer, state: Any) -> None:
        """Before the first step of an optimizer: does it train loaded weights without state?"""
        if state.seen.steps:
            return
        held = {str(id(each)) for each in parameters_of(optimizer)}
        for event in self.recorder.evidence.named("weights-loaded"):
            loaded = set(str(event.numbers["parameters"]).split())
            # A new head, or a part of a state, is fine-tuned, not resumed.
            if event.numbers["is_whole"] and held and held <= loaded:
                self.recorder.event(
                    "loaded-weights-trained",
                    event.source,
                    state.seen.name,
                    file=event.subject,
                    progress=event.numbers["progress"],
                    saved_here=event.numbers["saved_here"],
                    holds_optimizer=event.numbers["holds_optimizer"],
                )

    # ------------------------------------------------------------ files

    def _around_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def save(value: Any, file: Any, *args: Any, **kwargs: Any) -> Any:
            self._saves(value, file)
            return original(value, file, *args, **kwargs)

        return save

    @shielded
    def _saves(self, value: Any, file: Any) -> None:
        source = caller()
        if isinstance(file, (str, os.PathLike)):
            self._saved.add(os.path.basename(os.fspath(file)))
        parts = [value, *(value.values() if isinstance(value, dict) else ())]
        for each in parts:
            taken = self.taken_at(each) if isinstance(each, dict) else None
            if taken is not None and taken[0] < self.recorder.step:
                age = self.recorder.step - taken[0]
                self.recorder.event("old-state-saved", source, age=age, taken=str(taken[1] or ""))
        if isinstance(value, dict):
            keys = [str(key) for key in value]
            self.recorder.event(
                "saved",
                source,
                " ".join(sorted(keys))[:200] if len(keys) < 12 else "",
                progress=bool(progress_keys(value)),
                optimizer=holds_optimizer(value),
            )

    def _around_file_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load(file: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(file, *args, **kwargs)
            self._loaded(file, result)
            return result

        return load

    @shielded
    def _loaded(self, file: Any, value: Any) -> None:
        if not isinstance(value, dict):
            return
        is_path = isinstance(file, (str, os.PathLike))
        path = os.path.basename(os.fspath(file)) if is_path else "file"
        has_progress = bool(progress_keys(value))
        entry = (path, has_progress, holds_optimizer(value), caller())
        for each in (value, *value.values()):
            if isinstance(each, dict):
                self._file_steps[id(each)] = entry


def _holds_all(state: Any, module: nn.Module) -> bool:
    """Whether a state has a tensor for each parameter of a module, and of no other network."""
    names = {name for name, _ in module.named_parameters()}
    others = names.union(name for name, _ in module.named_buffers())
    return isinstance(state, dict) and names <= set(state) <= others
