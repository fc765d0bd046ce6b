"""``anf_ir.proto`` as message classes of the protobuf package: the independent truth."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import sonde.dump.graph_files

PROTO = Path(sonde.dump.graph_files.__file__).with_name("anf_ir.proto")
_FIELD = re.compile(r"(optional|repeated) (\w+) (\w+) = (\d+)( \[packed = true\])?;")


def schema() -> dict[str, dict[str, tuple[str, str, int, bool]]]:
    """Message -> field -> (label, type, number, packed), read from the text of the schema."""
    messages: dict[str, dict[str, tuple[str, str, int, bool]]] = {}
    for name, body in re.findall(r"message (\w+) \{\n(.*?)\n\}", PROTO.read_text(), re.DOTALL):
        messages[name] = {
            field[3]: (field[1], field[2], int(field[4]), field[5] is not None)
            for field in _FIELD.finditer(body)
        }
    return messages


def message_class(name: str) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="anf_ir.proto", package="sonde.irpb")
    messages = schema()
    for message, fields in messages.items():
        described = file.message_type.add(name=message)
        for field, (label, kind, number, packed) in fields.items():
            item = described.field.add(name=field, number=number)
            item.label = 3 if label == "repeated" else 1
            if kind in messages:
                item.type, item.type_name = 11, f".sonde.irpb.{kind}"
            else:
                item.type = getattr(item, f"TYPE_{kind.upper()}")
            if packed:
                item.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"sonde.irpb.{name}"))
