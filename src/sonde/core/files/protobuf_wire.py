"""The wire format of protocol buffers, within bounds.

Written by hand because files may be damaged or hostile: every error has the byte it is at, nothing
is copied before its length is checked, and nesting is limited. Why not the protobuf package:
``docs/decisions/0002-protobuf-wire-format-by-hand.md``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_DEPTH = 32
_MASK = (1 << 64) - 1


class WireError(ValueError):
    """Bytes that are not the expected message; ``position`` is the byte in the file."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} at byte {position}")
        self.reason = message
        self.position = position


class Message(NamedTuple):
    """A message inside ``data``, not copied; ``depth`` counts the messages around it."""

    data: bytes | memoryview
    start: int
    stop: int
    depth: int = 0

    def fields(self) -> Iterator[Field]:
        """The fields in file order; WireError at the first damaged one."""
        data, position, stop = self.data, self.start, self.stop
        while position < stop:
            begin = position
            key = data[position]
            if key < 0x80:  # The usual case, without a call.
                position += 1
            else:
                key, position = read_varint(data, position, stop)
            number, wire = key >> 3, key & 7
            if not number:
                raise WireError("a field has the number 0", begin)
            if wire == VARINT:
                value, position = read_varint(data, position, stop)
                yield Field(self, number, wire, value, position)
                continue
            if wire == BYTES:
                if position < stop and data[position] < 0x80:
                    length = data[position]
                    position += 1
                else:
                    length, position = read_varint(data, position, stop)
            elif wire in (FIXED64, FIXED32):
                length = 8 if wire == FIXED64 else 4
            else:
                raise WireError(f"field {number} has the unknown wire type {wire}", begin)
            if length > stop - position:
                raise WireError(
                    f"field {number} says it has {length} bytes, {stop - position} are left", begin
                )
            yield Field(self, number, wire, position, position + length)
            position += length


class Field(NamedTuple):
    """One field: a number (``value``), or the bytes from ``value`` to ``stop``."""

    parent: Message
    number: int
    wire: int
    value: int
    stop: int

    def expect(self, wire: int) -> None:
        if self.wire != wire:
            raise WireError(
                f"field {self.number} has wire type {self.wire} instead of {wire}", self.stop
            )

    def as_uint(self) -> int:
        self.expect(VARINT)
        return self.value

    def as_int(self) -> int:
        """A signed number of 64 bits."""
        self.expect(VARINT)
        return self.value - (1 << 64) if self.value >> 63 else self.value

    def as_bytes(self) -> bytes:
        self.expect(BYTES)
        return bytes(self.parent.data[self.value : self.stop])

    def as_text(self) -> str:
        """Text; bytes that are not UTF-8 become U+FFFD rather than an error."""
        raw = self.as_bytes()
        try:
            return raw.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace")

    def as_message(self) -> Message:
        self.expect(BYTES)
        depth = self.parent.depth + 1
        if depth > MAX_DEPTH:
            raise WireError(f"messages are nested deeper than {MAX_DEPTH}", self.value)
        return Message(self.parent.data, self.value, self.stop, depth)

    def as_uints(self) -> list[int]:
        """The numbers of a repeated field, packed or not (then this is one of them)."""
        if self.wire == VARINT:
            return [self.value]
        self.expect(BYTES)
        found, position = [], self.value
        while position < self.stop:
            value, position = read_varint(self.parent.data, position, self.stop)
            found.append(value)
        return found

    def as_ints(self) -> list[int]:
        return [value - (1 << 64) if value >> 63 else value for value in self.as_uints()]

    def as_floats(self, letter: Literal["f", "d"]) -> list[float]:
        """The float ("f") or double ("d") numbers of a repeated field, packed or not."""
        size = struct.calcsize(letter)
        if self.wire not in (FIXED32, FIXED64, BYTES) or (self.stop - self.value) % size:
            raise WireError(f"field {self.number} is not made of {size}-byte numbers", self.stop)
        raw = self.parent.data[self.value : self.stop]
        return [value for (value,) in struct.iter_unpack(f"<{letter}", raw)]


def read_varint(data: bytes | memoryview, position: int, stop: int) -> tuple[int, int]:
    """The number that begins at ``position``, and where it ends; WireError beyond ``stop``."""
    if position < stop and data[position] < 0x80:
        return data[position], position + 1
    value = shift = 0
    begin = position
    while position < stop:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, position
        shift += 7
        if shift >= 70:
            raise WireError("a number is longer than 10 bytes", begin)
    raise WireError("the message ends inside a number", begin)


def encode_varint(value: int) -> bytes:
    """A number from -2**63 to 2**64 - 1; a negative one takes ten bytes, as the format says."""
    if 0 <= value < 0x80:  # The usual case.
        return bytes((value,))
    if 0 <= value < 0x4000:  # Most others.
        return bytes((value & 0x7F | 0x80, value >> 7))
    value &= _MASK
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_uint(number: int, value: int) -> bytes:
    return encode_varint(number << 3 | VARINT) + encode_varint(value)


def encode_bytes(number: int, value: bytes) -> bytes:
    """A field of bytes, or of an encoded message."""
    return encode_bytes_head(number, len(value)) + value


def encode_bytes_head(number: int, length: int) -> bytes:
    """What comes before the ``length`` bytes of a field of bytes."""
    return encode_varint(number << 3 | BYTES) + encode_varint(length)


def encode_text(number: int, value: str) -> bytes:
    return encode_bytes(number, value.encode("utf-8", "surrogatepass"))


def encode_uints(number: int, values: tuple[int, ...]) -> bytes:
    """A packed repeated field."""
    return encode_bytes(number, b"".join(map(encode_varint, values)))
