"""Turns arguments and results of calls into the values of a manifest: see ``value_reader``.

Exact are: None, numbers, texts, bytes, lists, tuples, named tuples, dicts, sets, slices,
dataclasses and model outputs (rebuilt from class and fields), torch's dtypes, devices and sizes,
dense and sparse tensors, numpy arrays. Any other object goes to the pickle of the step, if it can
be pickled.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sonde.adapters.torch.replay.storage.tensor_files import TensorWriter, is_storable
from sonde.core.interruption import pass_on
from sonde.replay.layout import TensorFile
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

_EXACT_INTEGER = 2**53
_MAX_DEPTH = 64
_SEQUENCES: dict[type, Any] = {
    list: "list",
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
    torch.Size: "size",
}
NAMED: dict[type, Any] = {
    torch.dtype: "dtype",
    torch.device: "device",
    torch.layout: "layout",
    torch.memory_format: "memory_format",
}


@dataclass(slots=True)
class ValueWriter:
    """Describes values; tensors go to ``tensors`` as part of ``file``.

    ``keep_object`` puts an object into the pickle and returns its index, or says why it cannot.
    """

    tensors: TensorWriter
    keep_object: Callable[[Any], int | str]
    file: TensorFile = "inputs"

    def describe(self, value: Any, name: str, depth: int = 0) -> AnyStoredValue:
        """A description of ``value``; ``name`` names its tensors in the file."""
        kind = type(value)
        if value is None or kind in (bool, str, int, float, complex):
            return _describe_plain(value)
        if depth > _MAX_DEPTH:
            return MissingValue(_path(kind), f"it is nested deeper than {_MAX_DEPTH}")
        if isinstance(value, torch.Tensor):
            return self._describe_tensor(value, name)
        if kind in _SEQUENCES:
            items = [self.describe(v, f"{name}.{n}", depth + 1) for n, v in enumerate(value)]
            return SequenceValue(_SEQUENCES[kind], items)
        if kind is dict:
            pairs = [
                (
                    self.describe(key, f"{name}.key", depth + 1),
                    self.describe(each, f"{name}.{key}", depth + 1),
                )
                for key, each in value.items()
            ]
            return MappingValue(pairs)
        return self._describe_other(value, name, depth)

    def _describe_other(self, value: Any, name: str, depth: int) -> AnyStoredValue:
        kind = type(value)
        if kind is bytes:
            return BytesValue(value)
        if kind is slice or kind is range:
            parts = [self.describe(each, name) for each in (value.start, value.stop, value.step)]
            return SequenceValue("slice" if kind is slice else "range", parts)
        if value is Ellipsis:
            return NameValue("ellipsis", "Ellipsis")
        if kind in NAMED:
            return NameValue(NAMED[kind], str(value).removeprefix("torch."))
        if isinstance(value, np.ndarray | np.generic) and type(value) is not np.memmap:
            return self._describe_array(value, name)
        if isinstance(value, enum.Enum) and _is_importable(kind):
            return InstanceValue("enum", _path(kind), {"name": PlainValue(value.name)})
        how = _how_to_build(value)
        if how is not None:
            fields = {
                key: self.describe(each, f"{name}.{key}", depth + 1)
                for key, each in _fields(value, how).items()
            }
            return InstanceValue(how, _path(kind), fields)
        return self._describe_object(value)

    def _describe_object(self, value: Any) -> AnyStoredValue:
        kept = self.keep_object(value)
        return (
            MissingValue(_path(type(value)), kept) if isinstance(kept, str) else ObjectValue(kept)
        )

    def _describe_tensor(self, tensor: torch.Tensor, name: str) -> AnyStoredValue:
        if is_storable(tensor):
            return TensorValue(self.tensors.add(tensor, self.file, name))
        layouts: dict[Any, Any] = {
            torch.sparse_coo: ("coo", lambda each: (each._indices(), each._values())),
            torch.sparse_csr: (
                "csr",
                lambda each: (each.crow_indices(), each.col_indices(), each.values()),
            ),
            torch.sparse_csc: (
                "csc",
                lambda each: (each.ccol_indices(), each.row_indices(), each.values()),
            ),
        }
        if tensor.layout not in layouts or type(tensor) is not torch.Tensor:
            return self._describe_object(tensor)
        layout, split = layouts[tensor.layout]
        parts = [
            self.tensors.add(part, self.file, f"{name}.part_{number}")
            for number, part in enumerate(split(tensor.detach()))
        ]
        is_coalesced = layout != "coo" or tensor.is_coalesced()
        return SparseValue(layout, list(tensor.shape), parts, is_coalesced, tensor.requires_grad)

    def _describe_array(self, value: Any, name: str) -> AnyStoredValue:
        is_scalar = isinstance(value, np.generic)
        if not is_scalar and (type(value) is not np.ndarray or not value.dtype.isnative):
            return self._describe_object(value)
        try:
            # A copy of the values: arrays of read-only memory are no tensors.
            tensor = torch.from_numpy(np.array(value, order="C", copy=True))
        except (TypeError, ValueError) as error:
            pass_on(error)
            return self._describe_object(value)
        return ArrayValue(self.tensors.add(tensor, self.file, name), is_scalar)


def _is_importable(kind: type) -> bool:
    """Whether a class is found under its own name, as pickle looks for it."""
    return "<" not in kind.__qualname__ and bool(kind.__module__)


def _describe_plain(value: Any) -> AnyStoredValue:
    if isinstance(value, complex):
        return NumberValue("complex", repr(value))
    if isinstance(value, float) and not math.isfinite(value):
        return NumberValue("float", repr(value))
    if type(value) is int and abs(value) > _EXACT_INTEGER:
        return NumberValue("int", str(value))
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            pass_on(error)
            return MissingValue("builtins:str", "it has characters that UTF-8 lacks")
    return PlainValue(value)


def _how_to_build(value: Any) -> Any:
    """The way in which an object is rebuilt from its fields; None if it is left to the pickle."""
    kind = type(value)
    if not _is_importable(kind):
        return None
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return "namedtuple"
    if dataclasses.is_dataclass(value):
        names = {field.name for field in dataclasses.fields(value)}
        own = set(getattr(value, "__dict__", names))
        is_known_mapping = not isinstance(value, Mapping) or set(value) <= names
        return "dataclass" if own <= names and is_known_mapping else None
    if kind is OrderedDict and all(isinstance(key, str) for key in value):
        return "mapping"
    return None


def _fields(value: Any, how: str) -> dict[str, Any]:
    if how == "namedtuple":
        return dict(zip(type(value)._fields, value, strict=True))
    if how == "mapping" or isinstance(value, OrderedDict):
        return dict(value)
    return {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if hasattr(value, field.name)
    }


def _path(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
