"""Recognises the inputs of an op: step inputs, and outputs of earlier ops."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from functools import partial

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.op_tree import WRITTEN, OpRecord, StepInput, TensorRef
from sonde.adapters.torch.eager.step_inputs import StepInputRegistry, geometry
from sonde.adapters.torch.eager.step_tables import Tables
from sonde.adapters.torch.eager.tensor_places import LooseTensor


@dataclass(slots=True, eq=False)
class InputMatcher:
    """Finds which step inputs and outputs of earlier ops the inputs of an op are.

    ``tensors`` are the inputs of the op that is about to run, ``keys`` their storages. ``_foreign``
    are the storages that may change without an op. ``_bound`` maps each step input of the running
    step to the storage that is that input; ``_lasting`` are the step inputs of all steps;
    ``_storageless`` are the inputs of the running step that have no storage.
    """

    _tables: Tables
    leaves: StepInputRegistry
    _foreign: set[int]
    _bound: dict[TensorRef, int] = field(default_factory=dict)
    _lasting: dict[int, tuple[TensorRef, weakref.ref[torch.UntypedStorage]]] = field(
        default_factory=dict
    )
    _storageless: dict[int, LooseTensor] = field(default_factory=dict)

    def begin_step(self) -> None:
        """Enter the lasting inputs of earlier steps into the tables."""
        for key, (ref, storage) in list(self._lasting.items()):
            if storage() is None:
                del self._lasting[key]
            elif key not in self.leaves.unfilled:
                self._tables.put(WRITTEN, ref, key, 0)

    def allocated_again(self, storage: torch.UntypedStorage, key: int) -> None:
        """Note that the memory of ``storage`` is about to be replaced by memory with arbitrary
        values: from here on it is a step input of its own, which no op has filled."""
        unfilled = self.leaves.unfilled
        # Both are functions of C, in which no signal handler runs; the reference is the default.
        unfilled[key] = weakref.ref(storage, partial(unfilled.pop, key))
        self._tables.drop(key)

    def note_filled(self) -> None:
        """Before a step ends: memory that was allocated again and that an op wrote to is filled."""
        unfilled = self.leaves.unfilled
        for key in list(unfilled):
            entry = self._tables.entry(key)
            if entry is not None and not entry[0].is_unfilled and not entry[0].has_gaps:
                unfilled.pop(key, None)

    def end_step(self) -> None:
        self._bound.clear()
        self._storageless.clear()
        self.leaves.forget_names()

    def close(self) -> None:
        self._lasting.clear()

    def enter(self, ref: TensorRef, key: int, tensor: torch.Tensor) -> None:
        """Note that ``tensor``, met for the first time in this step, is the step input ``ref``."""
        self._tables.put(WRITTEN, ref, key, private.tensor_id(tensor))
        self._bound[ref] = key
        shape = self.geometry(tensor)
        if shape != ref.geometry:
            self._tables.is_reshaped |= ref.geometry is not None
            ref.geometry = shape
        if key < 0:
            self._watch_storageless(key, tensor)
            return
        storage = tensor.untyped_storage()
        if ref.leaf is not None and ref.leaf.is_lasting:
            self._lasting[key] = (ref, weakref.ref(storage))
            self._tables.watch_always(key, storage)
            return
        self._tables.watch(key, storage)
        if not storage.resizable():
            # Memory that torch did not allocate: its owner, numpy for example, may write to it.
            self._foreign.add(key)

    def _watch_storageless(self, key: int, tensor: torch.Tensor) -> None:
        """Keep ``key`` in the tables until ``tensor``, which has no storage, dies.

        It may be a parameter, which must not be referenced weakly: see ``tensor_places``.
        """
        for other, known in list(self._storageless.items()):
            if known.tensor is None:
                del self._storageless[other]
                self._tables.drop(other)
        self._storageless[key] = LooseTensor(tensor)

    def is_bound(self, leaf: StepInput) -> bool:
        """Whether a tensor of this step is the step input ``leaf``."""
        return leaf.ref in self._bound

    def geometry(self, tensor: torch.Tensor) -> object:
        """What distinguishes tensors over one storage: with equal geometry they have equal
        values."""
        return self._tables.geometry(tensor) or geometry(tensor)

    def matches(self, record: OpRecord, tensors: list[torch.Tensor], keys: list[int]) -> bool:
        """Whether the memory of ``tensors`` has the references that ``record`` expects."""
        entries = [self._tables.entry(key) for key in keys]
        if any(
            entry is not None and entry[0] is not expected
            for entry, expected in zip(entries, record.in_refs, strict=True)
        ):
            return False
        if self._is_doubtful(record, tensors, entries) and not self.is_exact(record, tensors, keys):
            return False
        return None not in entries or self.bind_new(record, tensors, keys)

    def _is_doubtful(
        self, record: OpRecord, tensors: list[torch.Tensor], entries: list[list[TensorRef] | None]
    ) -> bool:
        """Whether an input may be another view of its memory than ``record`` expects."""
        for tensor, entry, source in zip(tensors, entries, record.sources, strict=True):
            if entry is not None and len(entry) > 1 and source is not None:
                known = self._tables.tensor(private.tensor_id(tensor))
                if known is not None and known is not source:
                    return True
        return False

    def is_exact(self, record: OpRecord, tensors: list[torch.Tensor], keys: list[int]) -> bool:
        """Whether each input is the exact tensor that ``record`` expects, as far as known."""
        for tensor, key, source in zip(tensors, keys, record.sources, strict=True):
            entry = self._tables.entry(key)
            if entry is not None and source is not None:
                exact = self.exact(tensor, entry)
                if exact is not None and exact is not source:
                    return False
        return True

    def bind_new(self, record: OpRecord, tensors: list[torch.Tensor], keys: list[int]) -> bool:
        """Accept tensors met for the first time in this step as the step inputs that ``record``
        expects; False, and nothing is bound, if one of them cannot be."""
        found: dict[int, TensorRef] = {}
        for tensor, key, expected in zip(tensors, keys, record.in_refs, strict=True):
            if self._tables.entry(key) is not None:
                continue
            leaf = expected.leaf
            if leaf is None or found.get(key, expected) is not expected:
                return False
            if self._bound.get(expected, key) != key:
                return False
            if not self.leaves.may_be(leaf, tensor, key):
                return False
            found[key] = expected
        if len(set(found.values())) != len(found):
            return False
        for tensor, key in zip(tensors, keys, strict=True):
            if key in found:
                self.enter(found[key], key, tensor)
        return True

    def exact(self, tensor: torch.Tensor, entry: list[TensorRef]) -> TensorRef | None:
        """The reference in ``entry``, those of its memory, that is exactly ``tensor``; else None.

        First by identity, then by geometry: autograd returns saved tensors as new objects. In a
        step whose shapes differ from the learned ones, only identity counts.
        """
        shape = self.geometry(tensor)
        known = self._tables.tensor(private.tensor_id(tensor))
        is_known = known is not None and any(ref is known for ref in entry)
        if known is not None and is_known and (known.geometry == shape or self._tables.is_reshaped):
            return known
        for ref in reversed(entry):
            if ref.geometry == shape:
                return ref
        return None


private.hide_from_compiler(InputMatcher.bind_new, InputMatcher.is_exact)
