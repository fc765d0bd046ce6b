"""MindSpore checkpoints: the bytes of real files, the schema, and hostile input."""

from __future__ import annotations

import io
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.core.checkpoint_bytes import decode_bytes, encode_bytes

from sonde.core.files.mindspore_ckpt import (
    BFloat16Array,
    CheckpointError,
    CheckpointValue,
    decode,
    encode,
)

DATA = Path(__file__).parents[1] / "train" / "data"
REAL_FILES = sorted(DATA.glob("*.ckpt"))
TYPES = ["?", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8"]


def checkpoint_message() -> Any:
    """MindSpore's own schema, given to Google's protobuf: the independent reader."""
    file = descriptor_pb2.FileDescriptorProto(name="ckpt.proto", package="ms", syntax="proto2")
    field = descriptor_pb2.FieldDescriptorProto

    def message(name: str, *fields: tuple[str, int, int, int, str]) -> None:
        made = file.message_type.add(name=name)
        for label, number, kind, repeated, type_name in fields:
            added = made.field.add(name=label, number=number, type=kind, label=repeated)
            if type_name:
                added.type_name = type_name

    message(
        "Tensor",
        ("dims", 1, field.TYPE_INT64, field.LABEL_REPEATED, ""),
        ("tensor_type", 2, field.TYPE_STRING, field.LABEL_REQUIRED, ""),
        ("tensor_content", 3, field.TYPE_BYTES, field.LABEL_REQUIRED, ""),
    )
    message(
        "Value",
        ("tag", 1, field.TYPE_STRING, field.LABEL_REQUIRED, ""),
        ("tensor", 2, field.TYPE_MESSAGE, field.LABEL_OPTIONAL, ".ms.Tensor"),
    )
    message("Checkpoint", ("value", 1, field.TYPE_MESSAGE, field.LABEL_REPEATED, ".ms.Value"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ms.Checkpoint"))


CHECKPOINT = checkpoint_message()


def same(left: CheckpointValue, right: CheckpointValue) -> bool:
    if isinstance(left, BFloat16Array) and isinstance(right, BFloat16Array):
        left, right = left.bits, right.bits
    if isinstance(left, str) or isinstance(right, str):
        return left == right
    assert isinstance(left, np.ndarray)
    assert isinstance(right, np.ndarray)
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


def test_there_are_real_files_to_compare_with() -> None:
    assert len(REAL_FILES) == 4


@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.stem)
def test_a_real_checkpoint_decodes_and_encodes_to_the_same_bytes(path: Path) -> None:
    data = path.read_bytes()
    assert encode_bytes(decode_bytes(data)) == data


def test_the_weights_of_a_real_checkpoint_are_the_ones_mindspore_saved() -> None:
    values = decode_bytes((DATA / "nan_log_final.ckpt").read_bytes())
    first = values["fc1.weight"]
    assert isinstance(first, np.ndarray)
    assert first.shape == (8, 6)
    assert int(np.isnan(first).sum()) == 24
    rate = values["learning_rate"]
    assert isinstance(rate, np.ndarray)
    assert rate.shape == ()
    assert rate == np.float32(0.1)


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1),
        st.one_of(
            st.sampled_from(TYPES).flatmap(
                lambda code: arrays.arrays(code, arrays.array_shapes(min_dims=0, min_side=0))
            ),
            st.text(st.characters(codec="utf-8", exclude_characters="\0")),
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_whatever_is_encoded_decodes_to_itself(
    values: dict[str, CheckpointValue], crc: bool
) -> None:
    back = decode_bytes(encode_bytes(values, crc=crc))
    assert list(back) == list(values)
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.dtype == bool:
            assert np.array_equal(back[name], value)
        else:
            assert same(back[name], value), name


def test_google_protobuf_reads_and_writes_the_very_same_bytes() -> None:
    values: dict[str, CheckpointValue] = {
        "weight": np.arange(300, dtype=np.float32).reshape(3, 100),
        "step": np.array(7, dtype=np.int32),
        "half": BFloat16Array(np.array([0x3F80, 0xC000], dtype=np.uint16)),
        "note": "naïve",
    }
    data = encode_bytes(values)
    message = CHECKPOINT.FromString(data)
    assert message.SerializeToString() == data
    assert [(v.tag, v.tensor.tensor_type, list(v.tensor.dims)) for v in message.value] == [
        ("weight", "Float32", [3, 100]),
        ("step", "Int32", []),
        ("half", "BFloat16", [2]),
        ("note", "str", [0]),
    ]
    # How MindSpore itself reads text: numpy's unicode type over the content.
    text = message.value[3].tensor.tensor_content
    assert str(np.frombuffer(text, f"U{len(text) // 4}")[0]) == "naïve"


def test_bfloat16_keeps_its_bits() -> None:
    bits = np.array([0x3F80, 0xC000, 0x7F80, 0x0001], dtype=np.uint16)
    back = decode_bytes(encode_bytes({"w": BFloat16Array(bits)}))["w"]
    assert isinstance(back, BFloat16Array)
    assert back.bits.tolist() == bits.tolist()


def test_a_large_tensor_is_split_over_values_with_one_tag_and_joined_again() -> None:
    array = np.arange(100, dtype=np.int64)
    stream = io.BytesIO()
    encode({"a": array, "b": np.zeros(3, np.float32)}, stream, slice_bytes=96)
    message = CHECKPOINT.FromString(stream.getvalue())
    assert [value.tag for value in message.value] == ["a"] * 9 + ["b"]
    assert {tuple(value.tensor.dims) for value in message.value[:9]} == {(100,)}
    assert np.array_equal(decode(stream)["a"], array)  # type: ignore[arg-type]


def test_non_contiguous_and_big_endian_arrays_are_stored_by_value() -> None:
    array = np.arange(12, dtype=">f4").reshape(3, 4).T[::2]
    back = decode_bytes(encode_bytes({"w": array}))["w"]
    assert np.array_equal(back, array)  # type: ignore[arg-type]


def test_a_scalar_written_the_old_way_with_dims_zero_is_a_scalar() -> None:
    message = CHECKPOINT()
    value = message.value.add(tag="step")
    value.tensor.dims.append(0)
    value.tensor.tensor_type = "Int32"
    value.tensor.tensor_content = struct.pack("<i", 5)
    step = decode_bytes(message.SerializeToString())["step"]
    assert isinstance(step, np.ndarray)
    assert step.shape == ()
    assert step == 5


def test_decoded_arrays_are_writable_and_aligned() -> None:
    back = decode_bytes(encode_bytes({"w": np.zeros(5)}))["w"]
    assert isinstance(back, np.ndarray)
    assert back.flags.writeable
    assert back.flags.aligned


def test_a_checksum_is_verified_and_a_flipped_bit_is_found() -> None:
    data = bytearray(encode_bytes({"w": np.ones(4, np.float32)}, crc=True))
    assert data[-17:-10] == b"crc_num"
    assert list(decode_bytes(bytes(data))) == ["w"]
    data[-20] ^= 1
    with pytest.raises(CheckpointError, match="checksum"):
        decode_bytes(bytes(data))


@pytest.mark.parametrize("start", [b"\xd8\x5e\x3a\x7f", b"\xd9\x5e\x3a\x7f"])
def test_an_encrypted_file_is_refused_by_name(start: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"net\.ckpt is encrypted") as caught:
        decode_bytes(start + bytes(64), name="net.ckpt")
    assert caught.value.slug == "checkpoint-encrypted"


@pytest.mark.parametrize("dtype", ["complex64", "S3", "datetime64[s]", "O"])
def test_types_the_format_lacks_are_refused_with_the_way_out(dtype: str) -> None:
    with pytest.raises(CheckpointError, match=r"w: .*safetensors or \.pt"):
        encode_bytes({"w": np.zeros(2, dtype)})


def test_every_truncation_is_an_error_or_a_whole_prefix() -> None:
    values: dict[str, CheckpointValue] = {
        "a": np.ones(3, np.float32),
        "b": np.zeros((2, 2), np.int8),
    }
    data = encode_bytes(values)
    first = len(encode_bytes({"a": values["a"]}))
    assert list(decode_bytes(data[:first])) == ["a"]
    for end in set(range(1, len(data))) - {first}:
        with pytest.raises(CheckpointError):
            decode_bytes(data[:end])


@given(st.binary(max_size=200))
def test_random_bytes_never_do_more_than_raise_a_checkpoint_error(data: bytes) -> None:
    with suppress(CheckpointError):
        decode_bytes(data)


@given(st.data())
def test_a_damaged_byte_never_does_more_than_raise_a_checkpoint_error(data: st.DataObject) -> None:
    whole = bytearray((DATA / "nan_log_init.ckpt").read_bytes())
    position = data.draw(st.integers(0, len(whole) - 1))
    whole[position] = data.draw(st.integers(0, 255))
    with suppress(CheckpointError):
        decode_bytes(bytes(whole))


def test_a_claimed_length_beyond_the_file_allocates_nothing() -> None:
    with pytest.raises(CheckpointError, match="ends inside the value at byte 0"):
        decode_bytes(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f")


def test_a_shape_that_does_not_fit_the_bytes_is_damage() -> None:
    message = CHECKPOINT()
    value = message.value.add(tag="w")
    value.tensor.dims.extend([1 << 40, 1 << 40])
    value.tensor.tensor_type = "Float32"
    value.tensor.tensor_content = bytes(8)
    with pytest.raises(CheckpointError, match="'w' has 8 bytes"):
        decode_bytes(message.SerializeToString())


def test_a_name_that_occurs_again_later_is_damage() -> None:
    one = encode_bytes({"a": np.zeros(1)})
    with pytest.raises(CheckpointError, match="occurs twice"):
        decode_bytes(one + encode_bytes({"b": np.zeros(1)}) + one)
