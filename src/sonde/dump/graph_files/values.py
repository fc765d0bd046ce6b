"""Types and values in graph files: ``TypeProto`` to and from specs, ``ValueProto`` as text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sonde.core.dtypes import BY_NAME
from sonde.core.files.protobuf_wire import Message
from sonde.core.graph import TensorSpec
from sonde.dump.graph_files.schema import DATA_TYPES, declared_fields, encode, read

NOT_A_TENSOR = TensorSpec("none", ())
"""The spec of values between MindSpore's ops that are not tensors (a monad, a none)."""

# Of several dtypes with one number the first in the table has it.
_NAME_OF: dict[int, str] = {dtype.proto: dtype.name for dtype in reversed(BY_NAME.values())}
_NAME_OF[43] = "complex64"
_LAST_NUMBER_TYPE = DATA_TYPES["float64"]
_BRACKETS = {DATA_TYPES["dict"]: "{}", DATA_TYPES["list"]: "[]", DATA_TYPES["tuple"]: "()"}


@lru_cache(maxsize=4096)
def encode_specs(specs: tuple[TensorSpec, ...]) -> bytes:
    """The ``TypeProto`` of a node's outputs: one tensor, or a tuple of any other number."""
    if len(specs) == 1:
        return _encode_spec(specs[0])
    elements = encode("SequenceTypeProto", elem_types=[_encode_spec(spec) for spec in specs])
    return encode("TypeProto", data_type=DATA_TYPES["tuple"], sequence_type=elements)


def _encode_spec(spec: TensorSpec) -> bytes:
    number = BY_NAME[spec.dtype].proto if spec.dtype in BY_NAME else 0
    sizes = [encode("DimensionProto", size=size) for size in spec.shape]
    tensor = encode(
        "TensorTypeProto",
        elem_type=number,
        shape=encode("TensorShapeProto", dim=sizes),
        dtype_name=spec.dtype if _NAME_OF.get(number) != spec.dtype else None,
    )
    return encode("TypeProto", data_type=DATA_TYPES["tensor"], tensor_type=tensor)


def decode_specs(message: Message) -> tuple[TensorSpec, ...]:
    """The tensors of a ``TypeProto``, nested tuples flattened; () if it has no tensor."""
    fields = read(message, "TypeProto")
    tensor, sequence = fields.get("tensor_type"), fields.get("sequence_type")
    if tensor is None and sequence is None:
        # MindSpore passes a plain number as a tensor without dimensions.
        return _number_spec(fields.get("data_type", 0))
    found = [] if tensor is None else [_decode_tensor_type(tensor.as_message())]
    if sequence is not None:
        for element in read(sequence.as_message(), "SequenceTypeProto").get("elem_types", ()):
            found.extend(decode_specs(element.as_message()))
    return tuple(found)


def _number_spec(data_type: int) -> tuple[TensorSpec, ...]:
    """The spec of a number of this type; () if it is not a type of numbers."""
    is_number = data_type <= _LAST_NUMBER_TYPE and data_type in _NAME_OF
    return (TensorSpec(_NAME_OF[data_type], ()),) if is_number else ()


def _decode_tensor_type(message: Message) -> TensorSpec:
    fields = read(message, "TensorTypeProto")
    dtype = fields.get("dtype_name") or _NAME_OF.get(fields.get("elem_type", 0), "unknown")
    shape = fields.get("shape")
    dims = [] if shape is None else read(shape.as_message(), "TensorShapeProto").get("dim", [])
    sizes = (read(dim.as_message(), "DimensionProto").get("size", 0) for dim in dims)
    return TensorSpec(dtype, tuple(sizes))


def encode_text_value(text: str) -> bytes:
    """The ``ValueProto`` of a text."""
    return encode("ValueProto", dtype=DATA_TYPES["string"], str_val=text)


def value_text(message: Message) -> str:
    """A ``ValueProto`` as Python code: ``True``, ``(1, 1)``, ``[x, w]``, ``valid``."""
    dtype, parts, is_many = 0, [], False
    for declared, field in declared_fields(message, "ValueProto"):
        if declared.name == "dtype":
            dtype = field.as_uint()
            continue
        parts += [_part_text(declared.type, value) for value in declared.values(field)]
        is_many |= declared.is_repeated and declared.name != "dict_val"
    text = ", ".join(parts)
    brackets = _BRACKETS.get(dtype, "()" if is_many else "")
    if brackets:
        return f"{brackets[0]}{text}{brackets[1]}"
    return "None" if dtype == DATA_TYPES["none"] else text


def _part_text(type_: str, value: Any) -> str:
    """A value of a ``ValueProto``'s field of this type."""
    match type_:
        case "float":
            return str(np.float32(value))
        case "ValueProto":
            return value_text(value.as_message())
        case "TensorProto":
            return f"Tensor[{_tensor_spec(value.as_message())}]"
        case "TypeProto":
            return ", ".join(spec.dtype for spec in decode_specs(value.as_message())) or "Type"
        case "NamedValueProto":
            entry = read(value.as_message(), "NamedValueProto")
            inner = entry.get("value")
            return (
                f"{entry.get('key', '')}: {'' if inner is None else value_text(inner.as_message())}"
            )
        case "GraphProto":
            return "<graph>"
    return str(value)


def _tensor_spec(message: Message) -> TensorSpec:
    """Dtype and shape of a ``TensorProto``; its elements are not decoded."""
    dtype, dims = "unknown", []
    for declared, field in declared_fields(message, "TensorProto"):
        if declared.name == "dims":
            dims += field.as_ints()
        elif declared.name == "data_type":
            dtype = _NAME_OF.get(field.as_uint(), "unknown")
    return TensorSpec(dtype, tuple(dims))


def value_spec(message: Message) -> tuple[TensorSpec, ...]:
    """The spec of a constant: a number has no dimension, a tuple of numbers has one."""
    fields = read(message, "ValueProto")
    if "tensor_val" in fields:
        return (_tensor_spec(fields["tensor_val"].as_message()),)
    dtype = fields.get("dtype", 0)
    if dtype not in (DATA_TYPES["tuple"], DATA_TYPES["list"]):
        return _number_spec(dtype)
    elements = [value_spec(each.as_message()) for each in fields.get("values", ())]
    kinds = set(elements)
    if len(kinds) == 1 and len(only := kinds.pop()) == 1 and not only[0].shape:
        return (TensorSpec(only[0].dtype, (len(elements),)),)
    return ()


def value_index(message: Message) -> int | None:
    """The value of an integer constant, or None."""
    fields = read(message, "ValueProto")
    index: int | None = fields.get("int_val", fields.get("uint_val"))
    return index
