"""Compares the inputs of an op with those that its record expects."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.op_learning import Learner
from sonde.adapters.torch.eager.op_tree import OpRecord, TensorRef
from sonde.adapters.torch.eager.step_tables import Tables


@dataclass(slots=True, eq=False)
class InputMatcher:
    """``tensors`` are the inputs of the op that is about to run, ``keys`` their storages."""

    _tables: Tables
    _learner: Learner

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
                exact = self._learner.exact(tensor, entry)
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
            if self._learner.bound.get(expected, key) != key:
                return False
            if not self._learner.leaves.may_be(leaf, tensor, key):
                return False
            found[key] = expected
        if len(set(found.values())) != len(found):
            return False
        for tensor, key in zip(tensors, keys, strict=True):
            if key in found:
                self._learner.enter(found[key], key, tensor)
        return True


private.hide_from_compiler(InputMatcher.bind_new, InputMatcher.is_exact)
