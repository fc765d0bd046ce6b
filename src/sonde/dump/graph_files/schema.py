"""The messages of ``.pb`` graph files, read from ``anf_ir.proto`` beside this module.

``encode`` and ``read`` convert between the bytes of one message and its fields by name. Fields that
the schema does not declare are skipped, as MindSpore's tools skip Sonde's own (from 1001 on).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from sonde.core.files.protobuf_wire import (
    BYTES,
    VARINT,
    Field,
    Message,
    WireError,
    encode_bytes,
    encode_text,
    encode_uint,
    encode_uints,
)
from sonde.core.graph import Kind, Phase

PHASES: tuple[Phase, ...] = ("forward", "backward", "optimizer")
KINDS: tuple[Kind, ...] = ("op", "parameter", "input", "constant")
MAX_REPEATED: Final = 1_000_000
"""Elements of one repeated field, or bytes of packed ones; bounds the memory of hostile files."""

_MESSAGE = re.compile(r"message (\w+) \{\n(.*?)\n\}", re.DOTALL)
_FIELD = re.compile(r"(optional|repeated) (\w+) (\w+) = (\d+)")
_DATA_TYPE = re.compile(r"DT_(\w+) = (\d+)")


class FieldType(NamedTuple):
    """A declared field; ``type`` is a type of protobuf or the name of a message."""

    name: str
    number: int
    type: str
    is_repeated: bool

    def values(self, field: Field) -> list[Any]:
        """The values in ``field``: several if it is packed. Messages stay undecoded Fields."""
        decode = _VALUES.get(self.type)
        if decode is None:
            field.expect(BYTES)
            return [field]
        if self.type in _VARINTS and not self.is_repeated:
            field.expect(VARINT)
        is_packed = field.wire == BYTES and self.type != "string"
        if is_packed and field.stop - field.value > MAX_REPEATED:
            raise WireError(f"{self.name} has over {MAX_REPEATED} bytes", field.stop)
        return decode(field)

    def encode(self, value: Any) -> bytes:
        """``value`` as this field; a message is given as its bytes, repeated numbers as a tuple."""
        if isinstance(value, bytes):
            return encode_bytes(self.number, value)
        if isinstance(value, tuple):
            return encode_uints(self.number, value)
        encode_one: Callable[[int, Any], bytes] = (
            encode_text if self.type == "string" else encode_uint
        )
        return encode_one(self.number, value)


_VARINTS: Final = ("int64", "uint64", "bool")
_VALUES: Final[dict[str, Callable[[Field], list[Any]]]] = {
    "string": lambda field: [field.as_text()],
    "int64": Field.as_ints,
    "uint64": Field.as_uints,
    "bool": lambda field: [bool(value) for value in field.as_uints()],
    "float": lambda field: field.as_floats("f"),
    "double": lambda field: field.as_floats("d"),
}

_PROTO: Final = Path(__file__).with_name("anf_ir.proto").read_text("utf-8")
FIELDS: Final[dict[str, dict[str, FieldType]]] = {
    message: {
        name: FieldType(name, int(number), type_, label == "repeated")
        for label, type_, name, number in _FIELD.findall(body)
    }
    for message, body in _MESSAGE.findall(_PROTO)
}
"""Message -> field name -> field."""
_BY_NUMBER: Final = {
    message: {field.number: field for field in fields.values()}
    for message, fields in FIELDS.items()
}
DATA_TYPES: Final[dict[str, int]] = {
    name.lower(): int(number) for name, number in _DATA_TYPE.findall(_PROTO)
}
"""The numbers of ``enum DataType``, by names without ``DT_``, in lower case."""


def encode(message_type: str, **fields: Any) -> bytes:
    """The bytes of a message, its fields in the order given.

    A field that is None is left out; a list has one value for each element of a repeated field.
    """
    declared = FIELDS[message_type]
    parts: list[bytes] = []
    for name, value in fields.items():
        if isinstance(value, list):
            parts += [declared[name].encode(each) for each in value if each is not None]
        elif value is not None:
            parts.append(declared[name].encode(value))
    return b"".join(parts)


def declared_fields(message: Message, message_type: str) -> Iterator[tuple[FieldType, Field]]:
    """The declared fields of a message, undecoded, in file order."""
    by_number = _BY_NUMBER[message_type]
    for field in message.fields():
        declared = by_number.get(field.number)
        if declared is not None:
            yield declared, field


def read(message: Message, message_type: str) -> dict[str, Any]:
    """The declared fields by name: a list where repeated, else the last value in the file.

    Messages stay undecoded Fields. WireError for a field that has another type than declared.
    """
    found: dict[str, Any] = {}
    for declared, field in declared_fields(message, message_type):
        values = declared.values(field)
        if declared.is_repeated:
            several = found.setdefault(declared.name, [])
            several += values
            if len(several) > MAX_REPEATED:
                raise WireError(f"{declared.name} has over {MAX_REPEATED} elements", field.stop)
        elif values:
            found[declared.name] = values[-1]
    return found
