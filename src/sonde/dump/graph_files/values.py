"""Types and values in graph files: ``TypeProto`` to and from specs, ``ValueProto`` as text."""

from __future__ import annotations

import numpy as np

from sonde.core.dtypes import BY_NAME
from sonde.core.graph import TensorSpec
from sonde.core.protobuf_wire import Field, Message, encode_bytes, encode_text, encode_uint
from sonde.dump.graph_files import schema
from sonde.dump.graph_files.schema import DataType, ValueProto

NOT_A_TENSOR = TensorSpec("none", ())
"""The spec of values between MindSpore's ops that are not tensors (a monad, a none)."""

# Of several names with one number the first is its name.
_NAME_OF: dict[int, str] = {dtype.proto: dtype.name for dtype in reversed(BY_NAME.values())}
_NAME_OF[43] = "complex64"


def encode_specs(specs: tuple[TensorSpec, ...]) -> bytes:
    """The ``TypeProto`` of a node's outputs: one tensor, or a tuple of any other number."""
    if len(specs) == 1:
        return _encode_spec(specs[0])
    elements = b"".join(
        encode_bytes(schema.SEQUENCE_ELEM_TYPE, _encode_spec(spec)) for spec in specs
    )
    return encode_uint(schema.TypeProto.DATA_TYPE, DataType.TUPLE) + encode_bytes(
        schema.TypeProto.SEQUENCE, elements
    )


def _encode_spec(spec: TensorSpec) -> bytes:
    number = BY_NAME[spec.dtype].proto if spec.dtype in BY_NAME else 0
    tensor = encode_uint(schema.TensorTypeProto.ELEM_TYPE, number)
    dims = b"".join(
        encode_bytes(schema.SHAPE_DIM, encode_uint(schema.DIM_SIZE, size)) for size in spec.shape
    )
    tensor += encode_bytes(schema.TensorTypeProto.SHAPE, dims)
    if _NAME_OF.get(number) != spec.dtype:
        tensor += encode_text(schema.TensorTypeProto.DTYPE_NAME, spec.dtype)
    return encode_uint(schema.TypeProto.DATA_TYPE, DataType.TENSOR) + encode_bytes(
        schema.TypeProto.TENSOR, tensor
    )


def decode_specs(message: Message) -> tuple[TensorSpec, ...]:
    """The tensors of a ``TypeProto``, nested tuples flattened; () if it has no tensor."""
    data_type, found, is_compound = 0, [], False
    for field in message.fields():
        if field.number == schema.TypeProto.DATA_TYPE:
            data_type = field.as_uint()
        elif field.number == schema.TypeProto.TENSOR:
            found.append(_decode_tensor_type(field.as_message()))
            is_compound = True
        elif field.number == schema.TypeProto.SEQUENCE:
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
        if field.number == schema.TensorTypeProto.ELEM_TYPE and not dtype:
            dtype = _NAME_OF.get(field.as_uint(), "")
        elif field.number == schema.TensorTypeProto.DTYPE_NAME:
            dtype = field.as_text()
        elif field.number == schema.TensorTypeProto.SHAPE:
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
    return encode_uint(ValueProto.DTYPE, DataType.STRING) + encode_text(ValueProto.STR, text)


def value_text(message: Message) -> str:
    """A ``ValueProto`` as Python code: ``True``, ``(1, 1)``, ``[x, w]``, ``valid``."""
    dtype, parts, is_many = 0, [], False
    for field in message.fields():
        if field.number == ValueProto.DTYPE:
            dtype = field.as_uint()
        elif field.number == ValueProto.DICT:
            parts.append(_dict_entry_text(field.as_message()))
        else:
            is_many |= ValueProto.BOOLS <= field.number <= ValueProto.VALUES
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
    if number in (ValueProto.BOOL, ValueProto.BOOLS):
        return [str(bool(value)) for value in field.as_uints()]
    if number in (ValueProto.INT, ValueProto.INTS):
        return [str(value) for value in field.as_ints()]
    if number in (ValueProto.UINT, ValueProto.UINTS):
        return [str(value) for value in field.as_uints()]
    if number in (ValueProto.FLOAT, ValueProto.FLOATS):
        return [str(np.float32(value)) for value in field.as_floats("f")]
    if number in (ValueProto.DOUBLE, ValueProto.DOUBLES):
        return [str(value) for value in field.as_floats("d")]
    if number in (ValueProto.STR, ValueProto.STRS):
        return [field.as_text()]
    if number == ValueProto.VALUES:
        return [value_text(field.as_message())]
    if number in (ValueProto.TENSOR, ValueProto.TENSORS):
        return [f"Tensor[{tensor_value_spec(field.as_message())}]"]
    if number == ValueProto.TYPE:
        return [_type_text(field.as_message())]
    return ["<graph>"] if number in (ValueProto.GRAPH, ValueProto.GRAPHS) else []


def _dict_entry_text(message: Message) -> str:
    key = value = ""
    for field in message.fields():
        if field.number == schema.NamedValueProto.KEY:
            key = field.as_text()
        elif field.number == schema.NamedValueProto.VALUE:
            value = value_text(field.as_message())
    return f"{key}: {value}"


def tensor_value_spec(message: Message) -> TensorSpec:
    """Dtype and shape of a ``TensorProto``."""
    dtype, dims = "unknown", []
    for field in message.fields():
        if field.number == schema.TensorProto.DIMS:
            dims.extend(field.as_ints())
        elif field.number == schema.TensorProto.DATA_TYPE:
            dtype = _NAME_OF.get(field.as_uint(), "unknown")
    return TensorSpec(dtype, tuple(dims))


def _type_text(message: Message) -> str:
    specs = decode_specs(message)
    return ", ".join(spec.dtype for spec in specs) if specs else "Type"


def value_spec(message: Message) -> tuple[TensorSpec, ...]:
    """The spec of a constant: a number has no dimension, a tuple of numbers has one."""
    dtype, elements = 0, []
    for field in message.fields():
        if field.number == ValueProto.DTYPE:
            dtype = field.as_uint()
        elif field.number == ValueProto.TENSOR:
            return (tensor_value_spec(field.as_message()),)
        elif field.number == ValueProto.VALUES:
            elements.append(value_spec(field.as_message()))
    if dtype in (DataType.TUPLE, DataType.LIST):
        kinds = set(elements)
        if len(kinds) == 1 and len(only := kinds.pop()) == 1 and not only[0].shape:
            return (TensorSpec(only[0].dtype, (len(elements),)),)
        return ()
    return (TensorSpec(_NAME_OF[dtype], ()),) if 0 < dtype <= 12 else ()


def value_index(message: Message) -> int | None:
    """The value of an integer constant, or None."""
    for field in message.fields():
        if field.number == ValueProto.INT:
            return field.as_int()
        if field.number == ValueProto.UINT:
            return field.as_uint()
    return None
