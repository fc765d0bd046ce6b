"""Types and values in graph files: ``TypeProto`` to and from specs, ``ValueProto`` as text."""

from __future__ import annotations

import numpy as np

from sonde.core.dtypes import BY_NAME
from sonde.core.graph import TensorSpec
from sonde.dump import anf_schema as schema
from sonde.dump.anf_schema import DataType, Value
from sonde.dump.protowire import Field, Message, encode_bytes, encode_text, encode_uint

NOT_A_TENSOR = TensorSpec("none", ())
"""Stands for what is passed between MindSpore's ops and is no tensor (a monad, a none)."""

# The first name with a number is the number's own; later ones borrow it.
_NAME_OF: dict[int, str] = {dtype.proto: dtype.name for dtype in reversed(BY_NAME.values())}
_NAME_OF[43] = "complex64"


def encode_specs(specs: tuple[TensorSpec, ...]) -> bytes:
    """The ``TypeProto`` of a node's outputs: one tensor, or a tuple of any other number."""
    if len(specs) == 1:
        return _encode_spec(specs[0])
    elements = b"".join(
        encode_bytes(schema.SEQUENCE_ELEM_TYPE, _encode_spec(spec)) for spec in specs
    )
    return encode_uint(schema.Type.DATA_TYPE, DataType.TUPLE) + encode_bytes(
        schema.Type.SEQUENCE, elements
    )


def _encode_spec(spec: TensorSpec) -> bytes:
    number = BY_NAME[spec.dtype].proto if spec.dtype in BY_NAME else 0
    tensor = encode_uint(schema.TensorType.ELEM_TYPE, number)
    dims = b"".join(
        encode_bytes(schema.SHAPE_DIM, encode_uint(schema.DIM_SIZE, size)) for size in spec.shape
    )
    tensor += encode_bytes(schema.TensorType.SHAPE, dims)
    if _NAME_OF.get(number) != spec.dtype:
        tensor += encode_text(schema.TensorType.DTYPE_NAME, spec.dtype)
    return encode_uint(schema.Type.DATA_TYPE, DataType.TENSOR) + encode_bytes(
        schema.Type.TENSOR, tensor
    )


def decode_specs(message: Message) -> tuple[TensorSpec, ...]:
    """The tensors of a ``TypeProto``, tuples within tuples taken in order; () where none is."""
    data_type, found, is_compound = 0, [], False
    for field in message.fields():
        if field.number == schema.Type.DATA_TYPE:
            data_type = field.as_uint()
        elif field.number == schema.Type.TENSOR:
            found.append(_decode_tensor_type(field.as_message()))
            is_compound = True
        elif field.number == schema.Type.SEQUENCE:
            is_compound = True
            for element in field.as_message().fields():
                if element.number == schema.SEQUENCE_ELEM_TYPE:
                    found.extend(decode_specs(element.as_message()))
    # A plain number is passed as a tensor without dimensions.
    if not is_compound and data_type <= 12 and data_type in _NAME_OF:
        return (TensorSpec(_NAME_OF[data_type], ()),)
    return tuple(found)


def _decode_tensor_type(message: Message) -> TensorSpec:
    dtype, shape = "", []
    for field in message.fields():
        if field.number == schema.TensorType.ELEM_TYPE and not dtype:
            dtype = _NAME_OF.get(field.as_uint(), "")
        elif field.number == schema.TensorType.DTYPE_NAME:
            dtype = field.as_text()
        elif field.number == schema.TensorType.SHAPE:
            for dim in field.as_message().fields():
                if dim.number == schema.SHAPE_DIM:
                    shape.append(_dim_size(dim.as_message()))
    return TensorSpec(dtype or "unknown", tuple(shape))


def _dim_size(message: Message) -> int:
    size = 0
    for field in message.fields():
        if field.number == schema.DIM_SIZE:
            size = field.as_int()
    return size


def encode_string_value(text: str) -> bytes:
    return encode_uint(Value.DTYPE, DataType.STRING) + encode_text(Value.STR, text)


def value_text(message: Message) -> str:
    """A ``ValueProto`` as a person would write it: ``True``, ``(1, 1)``, ``[x, w]``, ``valid``."""
    dtype, parts, is_many = 0, [], False
    for field in message.fields():
        if field.number == Value.DTYPE:
            dtype = field.as_uint()
        elif field.number == Value.DICT:
            parts.append(_dict_entry_text(field.as_message()))
        else:
            is_many |= Value.BOOLS <= field.number <= Value.VALUES
            parts.extend(_part_texts(field))
    if dtype == DataType.DICT:
        return f"{{{', '.join(parts)}}}"
    if dtype == DataType.LIST:
        return f"[{', '.join(parts)}]"
    if dtype == DataType.TUPLE or is_many:
        return f"({', '.join(parts)})"
    return "None" if dtype == DataType.NONE else ", ".join(parts)


def _part_texts(field: Field) -> list[str]:
    number = field.number
    if number in (Value.BOOL, Value.BOOLS):
        return [str(bool(value)) for value in field.as_uints()]
    if number in (Value.INT, Value.INTS):
        return [str(value) for value in field.as_ints()]
    if number in (Value.UINT, Value.UINTS):
        return [str(value) for value in field.as_uints()]
    if number in (Value.FLOAT, Value.FLOATS):
        return [str(np.float32(value)) for value in field.as_floats("f")]
    if number in (Value.DOUBLE, Value.DOUBLES):
        return [str(value) for value in field.as_floats("d")]
    if number in (Value.STR, Value.STRS):
        return [field.as_text()]
    if number == Value.VALUES:
        return [value_text(field.as_message())]
    if number in (Value.TENSOR, Value.TENSORS):
        return [f"Tensor[{tensor_value_spec(field.as_message())}]"]
    if number == Value.TYPE:
        return [_type_text(field.as_message())]
    return ["<graph>"] if number in (Value.GRAPH, Value.GRAPHS) else []


def _dict_entry_text(message: Message) -> str:
    key = value = ""
    for field in message.fields():
        if field.number == schema.NamedValue.KEY:
            key = field.as_text()
        elif field.number == schema.NamedValue.VALUE:
            value = value_text(field.as_message())
    return f"{key}: {value}"


def tensor_value_spec(message: Message) -> TensorSpec:
    """Dtype and shape of a ``TensorProto``."""
    dtype, dims = "unknown", []
    for field in message.fields():
        if field.number == schema.Tensor.DIMS:
            dims.extend(field.as_ints())
        elif field.number == schema.Tensor.DATA_TYPE:
            dtype = _NAME_OF.get(field.as_uint(), "unknown")
    return TensorSpec(dtype, tuple(dims))


def _type_text(message: Message) -> str:
    specs = decode_specs(message)
    return ", ".join(spec.dtype for spec in specs) if specs else "Type"


def value_spec(message: Message) -> tuple[TensorSpec, ...]:
    """What a constant is as a tensor: a number has no dimension, numbers in a tuple have one."""
    dtype, elements = 0, []
    for field in message.fields():
        if field.number == Value.DTYPE:
            dtype = field.as_uint()
        elif field.number == Value.TENSOR:
            return (tensor_value_spec(field.as_message()),)
        elif field.number == Value.VALUES:
            elements.append(value_spec(field.as_message()))
    if dtype in (DataType.TUPLE, DataType.LIST):
        kinds = set(elements)
        if len(kinds) == 1 and len(only := kinds.pop()) == 1 and not only[0].shape:
            return (TensorSpec(only[0].dtype, (len(elements),)),)
        return ()
    return (TensorSpec(_NAME_OF[dtype], ()),) if 0 < dtype <= 12 else ()


def value_index(message: Message) -> int | None:
    """The whole number a constant is, or None."""
    for field in message.fields():
        if field.number == Value.INT:
            return field.as_int()
        if field.number == Value.UINT:
            return field.as_uint()
    return None
