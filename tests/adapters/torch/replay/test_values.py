"""Arguments of every kind are rebuilt exactly, or named as not kept."""

from __future__ import annotations

import enum
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
import torch
from tests.adapters.torch.replay.written_files import write_objects, written_tensors
from transformers.modeling_outputs import CausalLMOutput

from sonde.adapters.torch.replay.storage.object_pickle import ObjectWriter, read_objects
from sonde.adapters.torch.replay.storage.tensor_files import TensorWriter, read_tensors
from sonde.adapters.torch.replay.storage.value_reader import ValueReader
from sonde.adapters.torch.replay.storage.value_writer import ValueWriter
from sonde.replay.errors import ReplayError
from sonde.replay.layout import OBJECTS
from sonde.replay.stored_values import AnyStoredValue, missing_values

Pair = namedtuple("Pair", "left right")


class Colour(enum.Enum):
    RED = 1


class Typed(NamedTuple):
    x: torch.Tensor
    flag: bool = True


@dataclass
class Batch:
    ids: torch.Tensor
    lengths: list[int]
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Frozen:
    x: torch.Tensor
    name: str


class Unusual:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def rebuilt(directory: Path, value: Any, *, may_import: bool = True) -> Any:
    tensors = TensorWriter()
    objects = ObjectWriter(OBJECTS, tensors, lambda kept: None)
    described = ValueWriter(tensors, objects.keep).describe(value, "v")
    described = msgspec.json.decode(msgspec.json.encode(described), type=AnyStoredValue)
    write_objects(objects, directory)
    read = read_tensors(directory, written_tensors(tensors, directory))
    kept = read_objects(directory / OBJECTS, read, lambda plain: plain, trust=False)
    return ValueReader(read, lambda: kept, str(directory), may_import).build(described)


def is_equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.layout == other.layout and bool(torch.equal(one.to_dense(), other.to_dense()))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and bool(np.array_equal(one, other))
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(is_equal, one.values(), other.values()))
    if isinstance(one, Batch | Unusual):
        return is_equal(vars(one), vars(other))
    if isinstance(one, Frozen):
        return is_equal((one.x, one.name), (other.x, other.name))
    return repr(one) == repr(other)


T = torch.arange(6.0).reshape(2, 3)
VALUES: dict[str, Any] = {
    "plain": [None, True, 3, 2.5, -0.0, "text", "ünïcode", b"\x00\xff", 2**80, 1 + 2j],
    "not finite": (float("nan"), float("inf"), -float("inf")),
    "nested": ([T, {"a": (T, None)}], {1: T, (2, "b"): [()]}),
    "named tuple": Pair(T, {"x": Typed(T)}),
    "dataclass": Batch(T, [1, 2], {"mask": T > 1}),
    "frozen dataclass": Frozen(T, "x"),
    "ordered": OrderedDict(b=T, a=1),
    "defaultdict": defaultdict(list, {"a": [T]}),
    "model output": CausalLMOutput(logits=T, hidden_states=(T, T)),
    "torch": [torch.float32, torch.device("cpu"), torch.Size([1, 2]), torch.channels_last],
    "python": [slice(1, None, 2), range(3), ..., {1, 2}, frozenset({"a"}), Colour.RED],
    "numpy": [np.arange(4, dtype=np.int32), np.float32(1.5), np.array("text")],
    "sparse": [T.to_sparse(), T.to_sparse_csr(), T.to_sparse_csc()],
    "object": Unusual(T),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_rebuilt_exactly(tmp_path: Path, name: str) -> None:
    value = VALUES[name]
    assert is_equal(rebuilt(tmp_path, value), value)


def test_a_model_output_keeps_attributes_and_items(tmp_path: Path) -> None:
    found = rebuilt(tmp_path, VALUES["model output"])
    assert list(found) == ["logits", "hidden_states"]
    assert found["logits"] is found.logits
    assert found.loss is None


def test_one_tensor_in_two_places_is_one_again(tmp_path: Path) -> None:
    one, two, unusual = rebuilt(tmp_path, (T, {"again": T}, Unusual(T)))
    assert one is two["again"]
    assert one is unusual.x


@pytest.mark.parametrize(
    "value", [memoryview(b"a"), (each for each in [T])], ids=["memory", "generator"]
)
def test_what_cannot_be_pickled_is_named(tmp_path: Path, value: Any) -> None:
    nested = {"deep": [value]}
    tensors = TensorWriter()
    objects = ObjectWriter(OBJECTS, tensors, lambda kept: None)
    described = ValueWriter(tensors, objects.keep).describe(nested, "v")
    (missing,) = missing_values(described)
    assert missing.reason
    with pytest.raises(ReplayError, match="was not kept") as error:
        ValueReader([], list, "step_1", True).build(described)
    assert error.value.slug == "step-incomplete"


def test_a_value_that_contains_itself_ends(tmp_path: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    described = ValueWriter(TensorWriter(), lambda value: "no").describe(endless, "v")
    assert len(missing_values(described)) == 1


def test_a_class_is_not_imported_from_a_step_of_another_user(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="--trust") as error:
        rebuilt(tmp_path, Batch(T, []), may_import=False)
    assert error.value.slug == "step-untrusted"


@pytest.mark.parametrize(
    "hostile",
    [
        {"kind": "instance", "type": "dataclass", "of": "os:system", "fields": {}},
        {"kind": "instance", "type": "namedtuple", "of": "os:system", "fields": {}},
        {"kind": "instance", "type": "mapping", "of": "subprocess:Popen", "fields": {}},
        {"kind": "tensor", "index": 5},
        {"kind": "object", "index": 0},
        {"kind": "name", "type": "dtype", "name": "hub"},
        {"kind": "number", "type": "int", "text": "__import__('os')"},
        {"kind": "sequence", "type": "range", "items": []},
        {"kind": "dict", "items": [[{"kind": "sequence", "type": "list", "items": []}] * 2]},
        {"kind": "sparse", "layout": "coo", "shape": [2], "parts": [9, 9]},
    ],
)
def test_a_hostile_value_is_one_error(hostile: dict[str, Any]) -> None:
    value = msgspec.convert(hostile, type=AnyStoredValue)
    with pytest.raises(ReplayError) as error:
        ValueReader([], list, "step_1", True).build(value)
    assert error.value.slug in ("step-damaged", "code-missing")
