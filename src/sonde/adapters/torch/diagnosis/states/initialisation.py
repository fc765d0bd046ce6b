"""Observes how weights are initialised, and when: again after training or loading is a bug."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.loop.calls import (
    OptimizerState,
    TrainingCalls,
    parameters_of,
)
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.adapters.torch.diagnosis.states.kept_states import States
from sonde.core.patching import wrap
from sonde.diagnosis.evidence import EvidenceEvent

INITIALISERS = tuple(name for name in dir(nn.init) if name.endswith("_") and name[0] != "_")
FILLING = ("fill_", "zero_")
"""Methods of a tensor; only calls on a parameter before the first step count as initialisation."""


@dataclass(slots=True, eq=False)
class Initialisation:
    """Follows the functions of ``torch.nn.init``, and parameters that are filled."""

    recorder: EvidenceRecorder
    training: TrainingCalls
    states: States
    _again: list[tuple[EvidenceEvent, int]] = field(default_factory=list)

    def install(self, undo: ExitStack) -> None:
        for name in INITIALISERS:
            wrap(nn.init, name, self._around_init(name), undo)
        for name in FILLING:
            wrap(torch.Tensor, name, self._around_filling(name), undo)

    def _around_init(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def init(*args: Any, **kwargs: Any) -> Any:
                tensor = args[0] if args else kwargs.get("tensor")
                if isinstance(tensor, torch.Tensor):
                    self._initialised(name, tensor)
                return original(*args, **kwargs)

            return init

        return make

    def _around_filling(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def fill(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
                if not self.recorder.step and isinstance(tensor, nn.Parameter):
                    self._note(name, tensor)
                return original(tensor, *args, **kwargs)

            return fill

        return make

    @shielded
    def _initialised(self, name: str, tensor: torch.Tensor) -> None:
        is_held = any(
            state.seen.steps and any(each is tensor for each in parameters_of(optimizer))
            for optimizer in list(self.training.states)
            for state in (self.training.state_of(optimizer),)
        )
        loaded = self.states.loaded.get(tensor)
        if is_held:
            self._note(name, tensor, "init-after-step")
        elif loaded is not None:
            noted = self._note(name, tensor, "init-after-load")
            if noted is not None:
                noted.numbers["share"] = loaded.replace(tensor)
        elif not self.recorder.step:
            self._note(name, tensor)

    @shielded
    def before_step(self, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
        """The first step of an optimizer: weights that were initialised before it begin another
        training, such as that of the next fold."""
        if state.seen.steps or not self._again:
            return
        held = {id(each) for each in parameters_of(optimizer)}
        for event, key in self._again:
            if key in held:
                event.numbers["restarts"] = True
        self._again.clear()

    @shielded
    def _note(self, name: str, tensor: torch.Tensor, event: str = "init") -> EvidenceEvent | None:
        shape = "" if is_lazy(tensor) else str(tuple(tensor.shape))
        noted = self.recorder.event(event, caller(), f"{name} {shape}".strip())
        if noted is not None and event == "init-after-step":
            self._again.append((noted, id(tensor)))
        return noted
