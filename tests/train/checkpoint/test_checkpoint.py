"""Checkpoint files: three formats, one meaning; atomic; nothing in them is trusted."""

from __future__ import annotations

import os
import pickle
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.checkpoint_bytes import decode_bytes
from tests.train.nets import classifier
from torch import Tensor, nn

from sonde.core.files.atomic_file import remove_stale_partials, replace_file
from sonde.core.files.mindspore_ckpt import CheckpointError
from sonde.train import (
    load_checkpoint,
    load_param_into_net,
    newest_checkpoint,
    save_checkpoint,
    save_checkpoint_async,
)
from sonde.train.checkpoint.checkpoint import load_training_state
from sonde.train.checkpoint.state_json import flatten, unflatten

DATA = Path(__file__).parents[1] / "data"
FORMATS = ["ckpt", "safetensors", "pt"]
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]


def awkward() -> dict[str, Tensor]:
    """Every element type, and every shape that is easy to get wrong."""
    base = torch.arange(24).reshape(4, 6)
    tensors = {str(dtype).removeprefix("torch."): base.to(dtype) for dtype in DTYPES}
    tied = torch.ones(3)
    return tensors | {
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5),
        "specials": torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0]),
        "transposed": torch.arange(6.0).reshape(2, 3).t(),
        "expanded": torch.ones(1).expand(4),
        "view of much": torch.zeros(10_000)[5:8],
        "tied.1": tied,
        "tied.2": tied,
    }


@pytest.mark.parametrize("format", FORMATS)
def test_every_type_and_shape_is_read_back_unchanged(format: str, tmp_path: Path) -> None:
    before = awkward()
    path = save_checkpoint(before, tmp_path / f"all.{format}")
    after = load_checkpoint(path)
    assert after.keys() == before.keys()
    for name, value in before.items():
        assert after[name].dtype == value.dtype, name
        assert after[name].shape == value.shape, name
        assert bits(after[name]) == bits(value), name


def bits(tensor: Tensor) -> bytes:
    """The bytes of the values: NaN and -0.0 compare too."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def test_a_view_is_saved_without_the_memory_around_it(tmp_path: Path) -> None:
    path = save_checkpoint({"w": torch.zeros(1_000_000)[:3]}, tmp_path / "small.pt")
    assert path.stat().st_size < 10_000


def test_the_names_of_a_network_are_its_own_and_others_can_read_them(tmp_path: Path) -> None:
    network = classifier()
    path = save_checkpoint(network, tmp_path / "net.ckpt")
    values = decode_bytes(path.read_bytes())
    assert list(values) == ["0.weight", "0.bias", "3.weight", "3.bias"]
    assert np.array_equal(values["0.bias"], network[0].bias.detach().numpy())  # type: ignore[arg-type]
    plain = torch.load(save_checkpoint(network, tmp_path / "net.pt"), weights_only=True)
    network.load_state_dict(plain)


def test_a_file_from_real_mindspore_loads_into_a_torch_network() -> None:
    class GateNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(6, 8)
            self.fc2 = nn.Linear(8, 3)

    network = GateNet()
    loaded = load_checkpoint(DATA / "nan_log_init.ckpt", network, strict_load=True)
    assert list(loaded) == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    assert torch.equal(network.fc1.weight.detach(), loaded["fc1.weight"])
    assert float(network.fc1.weight.detach()[0, 0]) == -0.09790242463350296


def test_the_document_s_way_to_print_weights_works(tmp_path: Path) -> None:
    ckpt_path = save_checkpoint(classifier(), tmp_path / "net.ckpt")
    ckpt = load_checkpoint(ckpt_path)
    shapes = []
    for param in ckpt:
        value = ckpt[param].data.numpy()
        shapes.append(value.shape)
    assert shapes == [(8, 4), (8,), (2, 8), (2,)]


@pytest.mark.parametrize(
    ("given", "format", "made"),
    [
        ("net.ckpt", None, "net.ckpt"),
        ("net", None, "net.ckpt"),
        ("0.9375", None, "0.9375.ckpt"),
        ("net.pth", None, "net.pth"),
        ("net", "safetensors", "net.safetensors"),
        ("net.ckpt", "pt", "net.ckpt.pt"),
    ],
)
def test_the_suffix_says_the_format(
    given: str, format: str | None, made: str, tmp_path: Path
) -> None:
    path = save_checkpoint({"w": torch.ones(2)}, tmp_path / given, format=format)
    assert path.name == made
    assert torch.equal(load_checkpoint(path)["w"], torch.ones(2))


@pytest.mark.parametrize("format", FORMATS)
def test_appended_numbers_and_texts_come_back(format: str, tmp_path: Path) -> None:
    path = save_checkpoint(
        [{"name": "w", "data": torch.ones(2)}],
        tmp_path / f"a.{format}",
        append_dict={"epoch": 3, "note": "drei", "rate": 0.5},
        choice_func=lambda name: name == "w",
    )
    loaded = load_checkpoint(path)
    assert int(loaded["epoch"]) == 3
    assert loaded["note"] == "drei"
    assert float(loaded["rate"]) == 0.5


def test_mindspore_s_checksum_can_be_requested(tmp_path: Path) -> None:
    path = save_checkpoint({"w": torch.ones(2)}, tmp_path / "a.ckpt", crc_check=True)
    assert path.read_bytes()[-17:-10] == b"crc_num"
    assert torch.equal(load_checkpoint(path)["w"], torch.ones(2))


def test_types_that_mindspore_s_format_lacks_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    for tensor in (torch.zeros(2, dtype=torch.complex64), torch.zeros(2).to(torch.float8_e5m2)):
        with pytest.raises(CheckpointError, match=r"w: .*save as \.safetensors or \.pt"):
            save_checkpoint({"w": tensor}, tmp_path / "a.ckpt")
    assert list(tmp_path.iterdir()) == []
    path = save_checkpoint({"w": torch.ones(2).to(torch.float8_e5m2)}, tmp_path / "a.safetensors")
    assert load_checkpoint(path)["w"].dtype == torch.float8_e5m2


def test_python_objects_in_a_network_s_state_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="extra is a dict"):
        save_checkpoint({"w": torch.ones(1), "extra": {}}, tmp_path / "a.ckpt")


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_loading_never_runs_code_from_the_file(tmp_path: Path) -> None:
    crater = tmp_path / "crater"
    path = tmp_path / "bomb.pt"
    torch.save({"w": Bomb(crater)}, path)
    with pytest.raises(CheckpointError, match=r"bomb\.pt is damaged or not a file of tensors only"):
        load_checkpoint(path)
    path.write_bytes(pickle.dumps(Bomb(crater), protocol=2))
    with pytest.raises(CheckpointError):
        load_checkpoint(path)
    assert not crater.exists()
    pickle.loads(path.read_bytes())  # the bomb is real
    assert crater.exists()


@pytest.mark.parametrize("format", FORMATS)
def test_every_cut_of_a_file_is_an_error(format: str, tmp_path: Path) -> None:
    state = {"position": {"step": 3}}
    path = save_checkpoint(
        {"w": torch.ones(5), "b": torch.ones(2)}, tmp_path / f"a.{format}", training_state=state
    )
    whole = path.read_bytes()
    assert load_training_state(path) == state
    for end in range(0, len(whole), max(len(whole) // 60, 1)):
        path.write_bytes(whole[:end])
        with pytest.raises(CheckpointError):
            load_training_state(path)


def test_a_missing_file_and_an_unknown_suffix_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"gone\.ckpt does not exist"):
        load_checkpoint(tmp_path / "gone.ckpt")
    with pytest.raises(CheckpointError, match=r"ends in \.ckpt, \.safetensors"):
        load_checkpoint(tmp_path / "gone.bin")
    with pytest.raises(CheckpointError, match="'onnx' is not a checkpoint format"):
        save_checkpoint({"w": torch.ones(1)}, tmp_path / "a", format="onnx")


def test_weights_inside_another_trainer_s_file_are_found(tmp_path: Path) -> None:
    path = tmp_path / "lightning.pt"
    torch.save({"epoch": 3, "state_dict": OrderedDict(w=torch.ones(2))}, path)
    assert torch.equal(load_checkpoint(path)["w"], torch.ones(2))


class TestLoadingIntoANetwork:
    def test_unused_entries_and_parameters_without_a_value_are_returned(self) -> None:
        network = classifier()
        given = {"0.weight": torch.zeros(8, 4), "other": torch.ones(1)}
        missing, unused = load_param_into_net(network, given)
        assert missing == ["0.bias", "3.weight", "3.bias"]
        assert unused == ["other"]
        assert int(torch.count_nonzero(network[0].weight)) == 0

    def test_float_types_are_converted_unless_loading_is_strict(self) -> None:
        network = classifier()
        half = {name: value.half() for name, value in network.state_dict().items()}
        load_param_into_net(network, half)
        assert network[0].weight.dtype == torch.float32
        with pytest.raises(CheckpointError, match=r"0\.weight is torch\.float16 in the checkpoint"):
            load_param_into_net(network, half, strict_load=True)

    def test_another_shape_leaves_the_network_as_it_was(self) -> None:
        network = classifier()
        before = network[0].bias.detach().clone()
        given = {"0.bias": torch.zeros(8), "3.bias": torch.zeros(5)}
        with pytest.raises(
            CheckpointError, match=r"3\.bias is \(5,\) in the checkpoint and \(2,\)"
        ):
            load_param_into_net(network, given)
        assert torch.equal(network[0].bias.detach(), before)

    def test_nothing_in_common_is_an_error(self) -> None:
        with pytest.raises(CheckpointError, match="no name of the checkpoint"):
            load_param_into_net(classifier(), {"other": torch.ones(1)})


class TestAtomicity:
    def test_a_failing_write_leaves_the_old_file_and_no_remains(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_text("old")

        def fail(stream: BinaryIO) -> None:
            stream.write(b"half of the n")
            raise OSError("disk full")

        with pytest.raises(OSError, match="disk full"):
            replace_file(path, fail)
        assert [p.name for p in tmp_path.iterdir()] == ["file"]
        assert path.read_text() == "old"

    def test_partial_files_of_dead_processes_are_removed_and_others_kept(
        self, tmp_path: Path
    ) -> None:
        living: list[str] = []

        def look(stream: BinaryIO) -> None:
            stream.write(b"x")
            partial = Path(stream.name)
            dead = partial.name.replace(f".{partial.name.split('.')[-2]}", ".999999999-1@elsewhere")
            living.append(partial.name)
            (tmp_path / dead).write_text("of another machine: cannot know, leave it")
            own = partial.name.split("@")
            (tmp_path / f".CKP-1_1.ckpt.4194999-7@{own[1]}").write_text("dead")
            (tmp_path / f".other-1_1.ckpt.4194999-7@{own[1]}").write_text("not ours")
            remove_stale_partials(tmp_path, "CKP")

        replace_file(tmp_path / "CKP-1_1.ckpt", look)
        names = sorted(path.name for path in tmp_path.iterdir())
        assert "CKP-1_1.ckpt" in names
        assert not any(".4194999-7@" in name and "CKP" in name for name in names)
        assert any(name.startswith(".other-1_1.ckpt.4194999-7@") for name in names)

    def test_an_asynchronous_save_has_the_values_at_the_time_of_the_call(
        self, tmp_path: Path
    ) -> None:
        weight = torch.ones(1000)
        future = save_checkpoint_async({"w": weight}, tmp_path / "a.ckpt")
        weight.zero_()
        path = future.result(timeout=100)
        assert torch.equal(load_checkpoint(path)["w"], torch.ones(1000))

    def test_an_asynchronous_failure_is_raised_by_the_future(self, tmp_path: Path) -> None:
        (tmp_path / "in the way").write_text("")
        future = save_checkpoint_async({"w": torch.ones(1)}, tmp_path / "in the way" / "a.ckpt")
        with pytest.raises(OSError, match="in the way"):
            future.result(timeout=100)

    def test_two_threads_saving_one_name_leave_one_whole_file(self, tmp_path: Path) -> None:
        def save(value: float) -> None:
            for _ in range(20):
                save_checkpoint({"w": torch.full((2000,), value)}, tmp_path / "a.ckpt")

        threads = [threading.Thread(target=save, args=(value,)) for value in (1.0, 2.0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [p.name for p in tmp_path.iterdir()] == ["a.ckpt"]
        assert len(set(load_checkpoint(tmp_path / "a.ckpt")["w"].tolist())) == 1


class TestNewest:
    def test_the_newest_whole_file_with_a_state_is_chosen(self, tmp_path: Path) -> None:
        state = {"position": {}}
        weights = {"w": torch.ones(3)}
        good = save_checkpoint(weights, tmp_path / "run-1_2.ckpt", training_state=state)
        save_checkpoint(weights, tmp_path / "run-1_3.ckpt")
        (tmp_path / "run-1_4.ckpt").write_bytes(good.read_bytes()[:-5])
        (tmp_path / "notes.txt").write_text("")
        assert newest_checkpoint(tmp_path) == good
        assert newest_checkpoint(tmp_path, "other") is None

    def test_without_a_directory_there_is_no_newest_checkpoint(self, tmp_path: Path) -> None:
        assert newest_checkpoint(tmp_path / "nowhere") is None


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=200)
@given(st.dictionaries(st.text(), plain, max_size=4))
def test_any_nested_state_survives_as_text(state: dict[str, Any]) -> None:
    text, tensors = flatten({"state": state})
    assert repr(unflatten(text, tensors)["state"]) == repr(state)


def test_tensors_in_a_nested_state_are_kept_apart_and_put_back() -> None:
    state = {"a": [torch.ones(2), (torch.zeros(1, dtype=torch.int64),)], 5: np.float32(0.1)}
    text, tensors = flatten({"state": state})
    assert len(tensors) == 2
    back = unflatten(text, tensors)["state"]
    assert back["a"][0] is tensors[0]
    assert back["a"][1][0].dtype == torch.int64
    assert back[5] == float(np.float32(0.1))


def test_an_object_in_a_state_is_refused_by_its_path() -> None:
    with pytest.raises(CheckpointError, match=r"state\['a'\]\[1\] is a object"):
        flatten({"a": [1, object()]})
