"""Rebuilds arguments and results of calls from the values of a manifest."""

from __future__ import annotations

import dataclasses
import enum
import importlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sonde.adapters.torch.replay.storage.value_writer import NAMED
from sonde.replay.errors import ReplayError
from sonde.replay.stored_values import (
    AnyStoredValue,
    ArrayValue,
    BytesValue,
    InstanceValue,
    MappingValue,
    MissingValue,
    NameValue,
    NumberValue,
    ObjectValue,
    PlainValue,
    SequenceValue,
    SparseValue,
    TensorValue,
)

_BUILT: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "size": torch.Size,
    "slice": lambda items: slice(*items),
    "range": lambda items: range(*items),
}


@dataclass(slots=True)
class ValueReader:
    """Rebuilds values. ``may_import``: classes named in the manifest may be imported."""

    tensors: Sequence[torch.Tensor]
    objects: Callable[[], Sequence[Any]]
    where: str
    may_import: bool

    def build(self, value: AnyStoredValue) -> Any:
        if isinstance(value, PlainValue):
            return value.value
        if isinstance(value, TensorValue):
            return self._at(self.tensors, value.index)
        if isinstance(value, SequenceValue):
            return self._checked(_BUILT[value.type], [self.build(each) for each in value.items])
        if isinstance(value, MappingValue):
            return self._checked(dict, [(self.build(k), self.build(v)) for k, v in value.items])
        if isinstance(value, InstanceValue):
            return self._instance(value)
        if isinstance(value, ObjectValue):
            return self._at(self.objects(), value.index)
        if isinstance(value, MissingValue):
            raise ReplayError(
                f"{self.where} cannot be executed again: an argument of type {value.type} was not "
                f"kept: {value.reason}",
                slug="step-incomplete",
            )
        return self._leaf(value)

    def _leaf(self, value: AnyStoredValue) -> Any:
        if isinstance(value, NumberValue):
            types: dict[str, type] = {"int": int, "float": float, "complex": complex}
            return self._checked(types[value.type], value.text)
        if isinstance(value, BytesValue):
            return value.value
        if isinstance(value, NameValue):
            return self._named(value)
        if isinstance(value, ArrayValue):
            array = self._at(self.tensors, value.index).detach().numpy()
            return array[()] if value.is_scalar else array
        assert isinstance(value, SparseValue)
        parts = [self._at(self.tensors, index).detach() for index in value.parts]
        return self._checked(_sparse, (value, parts))

    def _instance(self, value: InstanceValue) -> Any:
        kind = self._class(value.of)
        fields = {name: self.build(each) for name, each in value.fields.items()}
        if not isinstance(kind, type) or not _is_fit(value.type, kind):
            raise self._damaged(f"{value.of} is not a {value.type}")
        if value.type == "enum":
            return self._checked(lambda name: getattr(kind, name), fields.get("name"))
        return self._checked(lambda named: _build_instance(value.type, kind, named), fields)

    def _class(self, path: str) -> Any:
        if not self.may_import:
            raise ReplayError(
                f"{self.where} names the class {path}, and importing it executes code; if you "
                "trust whoever wrote the step, add --trust",
                slug="step-untrusted",
            )
        return find_class(path, self.where)

    def _named(self, value: NameValue) -> Any:
        if value.type == "ellipsis":
            return Ellipsis
        if value.type == "device":
            return self._checked(torch.device, value.name)
        found = getattr(torch, value.name, None)
        if type(found) not in NAMED:
            raise self._damaged(f"torch has no {value.type} {value.name!r}")
        return found

    def _at(self, sequence: Sequence[Any], index: int) -> Any:
        if index >= len(sequence):
            raise self._damaged(f"there is no entry {index}")
        return sequence[index]

    def _checked(self, build: Callable[[Any], Any], argument: Any) -> Any:
        try:
            return build(argument)
        except ReplayError:
            raise
        except Exception as error:  # a constructor of the user, or damaged values
            raise self._damaged(f"a value cannot be built: {error}") from None

    def _damaged(self, reason: str) -> ReplayError:
        return ReplayError(f"{self.where} is damaged: {reason}", slug="step-damaged")


def find_class(path: str, where: str) -> Any:
    """The class ``module:Class``; ReplayError if its code is missing."""
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # code of the user runs at an import
        raise ReplayError(
            f"{where} needs the class {name} of {module}, which is not found: "
            f"{type(error).__name__}: {error}",
            slug="code-missing",
        ) from None
    return found


def _is_fit(how: str, kind: type) -> bool:
    """Whether a class named in a manifest is of the kind that it claims to be."""
    if how == "namedtuple":
        return issubclass(kind, tuple) and hasattr(kind, "_fields")
    if how == "enum":
        return issubclass(kind, enum.Enum)
    return issubclass(kind, Mapping) if how == "mapping" else dataclasses.is_dataclass(kind)


def _build_instance(how: str, kind: Any, fields: dict[str, Any]) -> Any:
    """An object with these fields; its constructor is not called where it could do other things."""
    if how == "namedtuple":
        return kind._make(fields.values())
    if how == "mapping":
        return kind(fields)
    made = kind.__new__(kind)
    if isinstance(made, OrderedDict):  # a ModelOutput of transformers: fields are items, too
        for key, value in fields.items():
            OrderedDict.__setitem__(made, key, value)
    for field in dataclasses.fields(kind):
        object.__setattr__(made, field.name, fields.get(field.name))
    return made


def _sparse(described: tuple[SparseValue, list[torch.Tensor]]) -> torch.Tensor:
    value, parts = described
    shape = tuple(value.shape)
    made: Any = torch
    if value.layout == "coo":
        found = made.sparse_coo_tensor(*parts, shape, check_invariants=True)
        found = found._coalesced_(value.is_coalesced)
    else:
        make = made.sparse_csr_tensor if value.layout == "csr" else made.sparse_csc_tensor
        found = make(*parts, shape, check_invariants=True)
    result: torch.Tensor = found.requires_grad_(value.requires_grad)
    return result
