"""The arguments of a call as the manifest describes them: containers and plain values.

Tensors are numbers in the manifest's table. Values of other types are rebuilt from their class and
fields, or taken from the pickle. What could not be kept is ``MissingValue``, with the reason.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

Index: TypeAlias = Annotated[int, Meta(ge=0, le=10_000_000)]
ClassPath: TypeAlias = Annotated[str, Meta(pattern=r"^[^:\s]+:[^:\s]+$", max_length=1000)]
SmallInteger: TypeAlias = Annotated[int, Meta(ge=-(2**53), le=2**53)]


class CapturedValue(msgspec.Struct, frozen=True, tag_field="kind"):
    """A value; the tag is its ``kind`` in the file."""


class TensorValue(CapturedValue, frozen=True, tag="tensor"):
    """The tensor of this index; the same index is the same tensor object."""

    index: Index


class KeptValue(CapturedValue, frozen=True, omit_defaults=True, tag="kept"):
    """A tensor that the step used or made.

    ``key`` names it within the step: what a module returned under a key is what an op or a backward
    pass with that key was given. ``index`` is the tensor with its values; None if they were not
    stored, because the step computes them. ``leaf`` is the tensor that gradients are accumulated
    in. ``is_known``: the values are those that the step used, not later ones. ``earlier`` is the
    key of the same tensor before an op wrote to its memory; ``memory`` is equal for tensors of one
    memory.
    """

    key: Index
    index: Index | None = None
    requires_grad: bool = False
    leaf: Index | None = None
    is_known: bool = True
    earlier: Index | None = None
    memory: Index | None = None


class PlainValue(CapturedValue, frozen=True, tag="plain"):
    """None, a truth value, a text, or a number that JSON holds exactly."""

    value: bool | SmallInteger | float | str | None = None


class NumberValue(CapturedValue, frozen=True, tag="number"):
    """A number that JSON lacks: ``nan``, ``inf``, a complex or a very large one, as Python text."""

    type: Literal["int", "float", "complex"]
    text: Annotated[str, Meta(max_length=10_000)]


class BytesValue(CapturedValue, frozen=True, tag="bytes"):
    value: bytes


class SequenceValue(CapturedValue, frozen=True, tag="sequence"):
    type: Literal["list", "tuple", "set", "frozenset", "size", "slice", "range"]
    items: list[AnyStoredValue]


class MappingValue(CapturedValue, frozen=True, tag="dict"):
    """Keys and values, in order."""

    items: list[tuple[AnyStoredValue, AnyStoredValue]]


class NameValue(CapturedValue, frozen=True, tag="name"):
    """A constant of torch or Python by its name: ``torch.float32``, ``cuda:0``, ``Ellipsis``."""

    type: Literal["dtype", "device", "layout", "memory_format", "ellipsis"]
    name: Annotated[str, Meta(max_length=200)]


class InstanceValue(CapturedValue, frozen=True, tag="instance"):
    """A named tuple, a dataclass or a model output: its class (``module:Class``) and its fields."""

    type: Literal["namedtuple", "dataclass", "mapping", "enum"]
    of: ClassPath
    fields: dict[str, AnyStoredValue]


class ArrayValue(CapturedValue, frozen=True, tag="array"):
    """A numpy array (or, with ``is_scalar``, a numpy number) whose elements are a tensor."""

    index: Index
    is_scalar: bool = False


class SparseValue(CapturedValue, frozen=True, tag="sparse"):
    """A sparse tensor by its parts: indices and values, or compressed and plain indices."""

    layout: Literal["coo", "csr", "csc"]
    shape: list[Index]
    parts: list[Index]
    is_coalesced: bool = True
    requires_grad: bool = False


class ObjectValue(CapturedValue, frozen=True, tag="object"):
    """An object of the pickle."""

    index: Index


class MissingValue(CapturedValue, frozen=True, tag="missing"):
    """A value that could not be kept."""

    type: str
    reason: str


AnyStoredValue: TypeAlias = (
    TensorValue
    | KeptValue
    | PlainValue
    | NumberValue
    | BytesValue
    | SequenceValue
    | MappingValue
    | NameValue
    | InstanceValue
    | ArrayValue
    | SparseValue
    | ObjectValue
    | MissingValue
)


def missing_values(value: Any) -> list[MissingValue]:
    """Every value inside ``value`` that was not kept."""
    if isinstance(value, MissingValue):
        return [value]
    if isinstance(value, SequenceValue):
        return [each for item in value.items for each in missing_values(item)]
    if isinstance(value, MappingValue):
        return [each for pair in value.items for item in pair for each in missing_values(item)]
    if isinstance(value, InstanceValue):
        return [each for item in value.fields.values() for each in missing_values(item)]
    return []
