"""Describes the values of a record: kept tensors, random states, and all that contains them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from msgspec import to_builtins

from sonde.adapters.torch.replay.kept_tensor import KeptTensor
from sonde.adapters.torch.replay.step_record import (
    Event,
    ModuleCall,
    OutsideOp,
    RandomStates,
)
from sonde.adapters.torch.replay.storage.tensor_files import TensorWriter, is_storable
from sonde.adapters.torch.replay.storage.value_writer import ValueWriter
from sonde.replay.layout import TensorFile
from sonde.replay.manifest import StoredRandom
from sonde.replay.stored_values import AnyStoredValue, KeptValue, MissingValue


@dataclass(slots=True)
class KeptValueWriter:
    """Describes values, and collects the tensors in them.

    ``keep_object`` keeps an object by pickling. ``parameters``: the indices of parameters that are
    known, by their ids. ``computed``: the ids of the kept tensors that the step computes anew.
    """

    tensors: TensorWriter
    keep_object: Callable[[Any], int | str]
    parameters: dict[int, int] = field(default_factory=dict)
    computed: set[int] = field(default_factory=set)
    _keys: dict[int, int] = field(default_factory=dict)
    _memories: dict[int, int] = field(default_factory=dict)

    def parameter(self, parameter: torch.Tensor) -> int:
        """The index of a parameter."""
        known = self.parameters.get(id(parameter))
        return self.tensors.add(parameter, "weights", "parameter") if known is None else known

    def describe(self, value: Any, name: str, file: TensorFile = "inputs") -> AnyStoredValue:
        values = _RecordValues(self.tensors, self.keep_object, file, keep=self.describe_kept)
        return values.describe(value, name)

    def describe_kept(self, kept: KeptTensor, file: TensorFile, name: str) -> AnyStoredValue:
        """A kept tensor; its values are stored unless the step computes them anew."""
        index = leaf = None
        if kept.leaf is not None and is_storable(kept.leaf):
            leaf = self._leaf(kept.leaf, file, name)
        if id(kept) not in self.computed:
            if not is_storable(kept.values):
                return MissingValue(_kind(kept.values), "it is not a dense tensor")
            index = self.tensors.add(kept.values, file, name) if leaf is None else leaf
            if kept.copy is not None:
                index = self.tensors.add(kept.copy, file, name)
        earlier = None if kept.earlier is None else self._key(kept.earlier)
        memory = None
        if kept.memory is not None:
            memory = self._memories.setdefault(kept.memory, len(self._memories))
        return KeptValue(
            self._key(kept), index, kept.requires_grad, leaf, kept.is_known, earlier, memory
        )

    def kept_in_object(self, kept: KeptTensor) -> Any:
        """The description of a kept tensor in a pickled object, as plain values."""
        return to_builtins(self.describe_kept(kept, "inputs", "object"))

    def _leaf(self, leaf: torch.Tensor, file: TensorFile, name: str) -> int:
        known = self.parameters.get(id(leaf))
        return self.tensors.add(leaf, file, name) if known is None else known

    def tensor(self, tensor: torch.Tensor | None, file: TensorFile, name: str) -> int | None:
        if tensor is None or not is_storable(tensor):
            return None
        return self.tensors.add(tensor, file, name)

    def _key(self, kept: KeptTensor) -> int:
        return self._keys.setdefault(id(kept), len(self._keys))

    def random(self, states: RandomStates) -> StoredRandom:
        python = states.python
        if _is_python_state(python):
            python = (python[0], np.array(python[1], np.int64), python[2])
        return StoredRandom(
            cpu=self.tensors.add(states.cpu, "random", "cpu"),
            python=None if python is None else self.describe(python, "python", "random"),
            numpy=None if states.numpy is None else self.describe(states.numpy, "numpy", "random"),
            devices={
                str(number): self.tensors.add(state, "random", f"device_{number}")
                for number, state in states.devices.items()
            },
        )


@dataclass(slots=True)
class _RecordValues(ValueWriter):
    """Describes values in which tensors are kept ones, which ``keep`` describes."""

    keep: Callable[[KeptTensor, TensorFile, str], AnyStoredValue] = field(kw_only=True)

    def describe(self, value: Any, name: str, depth: int = 0) -> AnyStoredValue:
        if isinstance(value, KeptTensor):
            return self.keep(value, self.file, name)
        return ValueWriter.describe(self, value, name, depth)


def computed_tensors(events: list[Event]) -> set[int]:
    """Ids of the kept tensors whose values need not be stored, because executing the step gives
    them: results of ops, and results of modules that are too large to compare with."""
    found: set[int] = set()
    roots: set[int] = set()
    for event in events:
        if isinstance(event, OutsideOp):
            found |= {id(each) for each in event.outputs}
            found |= {id(after) for _, after in event.written}
        elif isinstance(event, ModuleCall):
            found |= {
                id(each.tensor)
                for each in event.outputs
                if not each.is_small or not each.tensor.is_unchanged
            }
        else:
            roots |= {id(each) for each in event.roots if each.is_unchanged}
    return found - roots


def _kind(tensor: torch.Tensor) -> str:
    return f"{type(tensor).__module__}:{type(tensor).__qualname__} ({tensor.layout})"


def _is_python_state(state: Any) -> bool:
    return (
        isinstance(state, tuple) and len(state) == 3 and len(state[1]) == len(random.getstate()[1])
    )
