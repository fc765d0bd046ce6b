"""The wire format against Google's own implementation, and against damage."""

from __future__ import annotations

import pytest
from google.protobuf.internal import decoder, encoder
from hypothesis import given
from hypothesis import strategies as st

from sonde.core.files.protobuf_wire import (
    MAX_DEPTH,
    Message,
    WireError,
    encode_bytes,
    encode_text,
    encode_uint,
    encode_uints,
    encode_varint,
)


def _message(data: bytes) -> Message:
    return Message(data, 0, len(data))


@given(st.integers(0, 2**64 - 1))
def test_a_number_has_the_bytes_protobuf_gives_it(value: int) -> None:
    data = encode_varint(value)
    assert data == encoder._VarintBytes(value)  # type: ignore[attr-defined]
    assert decoder._DecodeVarint(data, 0) == (value, len(data))  # type: ignore[attr-defined]
    (field,) = _message(encode_uint(7, value)).fields()
    assert (field.number, field.as_uint()) == (7, value)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_signed_number_is_read_back(value: int) -> None:
    (field,) = _message(encode_uint(1, value)).fields()
    assert field.as_int() == value


@given(st.text(alphabet=st.characters()), st.lists(st.integers(0, 2**64 - 1)))
def test_texts_and_packed_numbers_are_read_back(text: str, numbers: list[int]) -> None:
    first, second = _message(encode_text(1, text) + encode_uints(1001, tuple(numbers))).fields()
    assert first.as_text() == text
    assert (second.number, second.as_uints()) == (1001, numbers)


def test_a_length_beyond_the_end_is_refused_before_anything_is_read() -> None:
    data = encode_varint(1 << 3 | 2) + encode_varint(2**62)
    with pytest.raises(
        WireError, match="says it has 4611686018427387904 bytes, 0 are left at byte 0"
    ):
        list(_message(data).fields())


def test_a_number_without_end_is_refused() -> None:
    with pytest.raises(WireError, match="longer than 10 bytes at byte 0"):
        list(_message(b"\xff" * 1000).fields())


def test_a_fault_is_reported_with_its_place() -> None:
    with pytest.raises(WireError) as caught:
        list(_message(encode_text(1, "abc") + b"\x0b").fields())
    assert caught.value.position == 5


def test_nesting_has_a_limit() -> None:
    data = b""
    for _ in range(MAX_DEPTH + 5):
        data = encode_bytes(1, data)
    message = _message(data)
    for _ in range(MAX_DEPTH):
        (field,) = message.fields()
        message = field.as_message()
    (field,) = message.fields()
    with pytest.raises(WireError, match="nested deeper"):
        field.as_message()


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_refused(data: bytes) -> None:
    position = 0
    try:
        for field in _message(data).fields():
            position = field.stop
    except WireError as error:
        position = error.position
    assert 0 <= position <= len(data)
