"""Observes weights that the program copies back from a list that shares their memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from sonde.adapters.torch.calling_line import caller, is_program
from sonde.adapters.torch.diagnosis.loop.calls import TrainingCalls, parameters_of
from sonde.adapters.torch.diagnosis.recorder import (
    EvidenceRecorder,
    shielded,
    variables_in_own_frame,
)
from sonde.core.graph import Source
from sonde.core.interruption import pass_on
from sonde.core.patching import wrap

MOST_NAMES = 4


@dataclass(slots=True, eq=False)
class SelfCopies:
    """Notes a line that copies every parameter of an optimizer to itself: what it means to put back
    was never copied."""

    recorder: EvidenceRecorder
    training: TrainingCalls
    _copied: dict[Source | None, set[int]] = field(default_factory=dict)

    def install(self, undo: ExitStack) -> None:
        # Not of torch.Tensor: subclasses with __torch_function__ know its methods by identity.
        wrap(torch.nn.Parameter, "copy_", self._around_copy, undo)

    def _around_copy(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def copy_(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(tensor, *args, **kwargs)
            is_same = not torch.compiler.is_compiling() and args and _share_memory(tensor, args[0])
            # The frame between is that of `wrap`. What load_state_dict() copies is noted there.
            if is_same and is_program(sys._getframe(2).f_code.co_filename):
                self._copied_to_itself(tensor, args[0])
            return result

        return copy_

    @shielded
    def _copied_to_itself(self, tensor: torch.Tensor, given: torch.Tensor) -> None:
        source = caller()
        copied = self._copied.setdefault(source, set())
        copied.add(tensor.data_ptr())
        for optimizer in list(self.training.states):
            seen = self.training.state_of(optimizer).seen
            held = {each.data_ptr() for each in parameters_of(optimizer) if each.numel()}
            if seen.steps and held and held <= copied:
                names = list(_holders(given))[:MOST_NAMES]
                self.recorder.event(
                    "weights-copied-to-themselves", source, " ".join(names), tensors=len(held)
                )
                copied.clear()
                return


def _share_memory(tensor: Any, given: Any) -> bool:
    if type(tensor) not in _TENSORS or type(given) not in _TENSORS:
        return False
    if tensor is given:
        return True
    try:
        return bool(
            tensor.shape == given.shape and tensor.data_ptr() == given.data_ptr() and tensor.numel()
        )
    except RuntimeError as error:  # It has no memory, as within vmap.
        pass_on(error)
        return False


_TENSORS = (torch.Tensor, torch.nn.Parameter)


def _holders(tensor: torch.Tensor) -> Iterator[str]:
    """The names of variables, and attributes of objects in them, that hold the tensor."""
    for name, value in variables_in_own_frame():
        if _holds(value, tensor):
            yield name
        elif not isinstance(value, (type, ModuleType, torch.nn.Module)):
            for key, each in list(getattr(value, "__dict__", {}).items()):
                if _holds(each, tensor):
                    yield key


def _holds(value: object, tensor: torch.Tensor) -> bool:
    """Whether a list or dictionary holds this very tensor."""
    listed: Iterable[object] = ()
    if isinstance(value, dict):
        listed = value.values()
    elif isinstance(value, (list, tuple)):
        listed = value
    return any(each is tensor for each in listed)
