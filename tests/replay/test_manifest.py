"""Manifests: what is written is read, and what is damaged is one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sonde.replay.errors import ReplayError
from sonde.replay.layout import MANIFEST
from sonde.replay.manifest import (
    FORMAT,
    Manifest,
    StoredBackward,
    StoredModule,
    StoredParameter,
    StoredProgram,
    StoredTrigger,
    encode_manifest,
    read_manifest,
)
from sonde.replay.stored_values import (
    BytesValue,
    MissingValue,
    NumberValue,
    PlainValue,
    SequenceValue,
)
from sonde.replay.tensor_table import CapturedTensor


def small_manifest() -> Manifest:
    values = [PlainValue(each) for each in (None, True, 1, 1.0, -0.0, 1e300, "text", 2**53)]
    items = [*values, NumberValue("float", "nan"), BytesValue(b"\x00\xff")]
    return Manifest(
        format=FORMAT,
        step=412,
        rank=0,
        versions={"torch": "2.13.0"},
        program=StoredProgram(file="train.py"),
        flags={"threads": 2},
        accumulation=1,
        trigger=StoredTrigger(kind="non-finite", step=412, quantity="loss", value="NaN"),
        signals={"loss": "NaN", "grad_norm": 1.5},
        tensors=[CapturedTensor(file="weights", key="fc.weight", dtype="bfloat16", shape=[2, 3])],
        modules=[
            StoredModule(
                name="Net",
                of="__main__:Net",
                parameters=[StoredParameter(name="fc.weight", index=0)],
                buffers={},
            )
        ],
        events=[
            StoredBackward(
                is_connected=True,
                roots=SequenceValue("tuple", items),  # type: ignore[arg-type]
                gradients=MissingValue("a:B", "why"),
            )
        ],
    )


def written(directory: Path, content: Any) -> Path:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (directory / MANIFEST).write_bytes(data)
    return directory


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    manifest = small_manifest()
    found = read_manifest(written(tmp_path, encode_manifest(manifest)))
    assert found == manifest
    (event,) = found.events
    assert isinstance(event, StoredBackward)
    assert isinstance(event.roots, SequenceValue)
    kinds = [type(each.value) for each in event.roots.items if isinstance(each, PlainValue)]
    assert kinds == [type(None), bool, int, float, float, float, str, int]


def test_keys_of_later_versions_are_ignored(tmp_path: Path) -> None:
    content = json.loads(encode_manifest(small_manifest()))
    content["program"]["new"] = content["new"] = 1
    assert read_manifest(written(tmp_path, content)) == small_manifest()


def test_another_format_is_refused_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(
        ReplayError, match="has the format 2, this version of Sonde reads 1"
    ) as error:
        read_manifest(written(tmp_path, {"format": 2, "anything": "else"}))
    assert error.value.slug == "step-format"


def changed(path: tuple[Any, ...], value: Any) -> Any:
    content = json.loads(encode_manifest(small_manifest()))
    place = content
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe{}",
        b"[" * 100_000,
        [],
        {"format": "1"},
        {"format": 1},
        changed(("step",), -1),
        changed(("tensors", 0, "shape"), [2**62, 4]),
        changed(("tensors", 0, "file"), "../../etc/passwd"),
        changed(("modules", 0, "parameters", 0, "index"), 7),
        changed(("events", 0, "roots"), {"kind": "surprise"}),
        changed(("events", 0, "event"), "surprise"),
    ],
)
def test_a_damaged_manifest_is_one_error(tmp_path: Path, content: Any) -> None:
    with pytest.raises(ReplayError) as error:
        read_manifest(written(tmp_path, content))
    assert error.value.slug == "step-damaged"
    assert str(tmp_path) in error.value.message
    assert len(error.value.message) < 1000


def test_a_missing_manifest_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="No such file"):
        read_manifest(tmp_path)
