"""Checkpoints of four formats are read without their frameworks; invalid ones are refused."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import warnings
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.compare.weights.weights import CHECKPOINTS, DUMPS, awkward, eighths
from tests.core.checkpoint_bytes import encode_bytes
from tests.dump.made import small_dump

from sonde.adapters.torch.checkpoints.files import read_torch, write_torch
from sonde.compare.weights.checkpoint import Checkpoint, same_bits
from sonde.compare.weights.files import open_checkpoint
from sonde.compare.weights.formats.mindspore import read_mindspore, write_mindspore
from sonde.compare.weights.formats.safetensors import read_safetensors, write_safetensors
from sonde.core.errors import DumpError
from sonde.core.files.mindspore_ckpt import CheckpointError, encode

SRC = Path(__file__).parents[3] / "src"


def load(path: Path, step: int | None = None) -> Checkpoint:
    return open_checkpoint(path, read_torch, step=step)


def test_every_format_gives_back_every_bit_of_every_type_it_has(tmp_path: Path) -> None:
    for name, write, weights in (
        ("a.ckpt", write_mindspore, awkward()),
        ("a.safetensors", write_safetensors, awkward() | eighths()),
        ("a.pt", write_torch, awkward() | eighths()),
    ):
        with (tmp_path / name).open("wb") as stream:
            write(stream, weights.values(), {"note": "käse"})
        found = load(tmp_path / name)
        assert found.weights.keys() == weights.keys(), name
        for key, weight in weights.items():
            twin = found.weights[key]
            assert (twin.dtype, twin.shape) == (weight.dtype, weight.shape)
            assert same_bits(weight, twin), f"{name}: {key}"
        assert found.texts == {"note": "käse"}


def test_safetensors_are_what_the_library_writes_and_reads(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3, 4),
        "b": torch.randn(5).bfloat16(),
        "c": torch.arange(6, dtype=torch.uint8).view(torch.float8_e5m2),
        "d": torch.tensor([True, False]),
        "e": torch.zeros(0, 2),
    }
    save_file(tensors, tmp_path / "theirs.safetensors", metadata={"format": "pt", "who": "me"})
    found = read_safetensors(tmp_path / "theirs.safetensors")
    assert found.texts == {"who": "me"}
    assert np.array_equal(found.weights["b"].numbers(), tensors["b"].float().numpy())
    with (tmp_path / "ours.safetensors").open("wb") as stream:
        write_safetensors(stream, found.weights.values(), found.texts)
    again = load_file(tmp_path / "ours.safetensors")
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert again[name].dtype == tensor.dtype
        assert torch.equal(again[name].view(torch.uint8), tensor.view(torch.uint8))


@pytest.mark.document(
    70,
    says="load_checkpoint of a file that MindSpore saved",
    how="`sonde.train.load_checkpoint`, `sonde params`, `sonde ckpt`: without MindSpore",
)
def test_real_mindspore_checkpoints_open_with_their_names_and_shapes() -> None:
    found = read_mindspore(CHECKPOINTS / "bn_compare_init.ckpt")
    assert {name: weight.shape for name, weight in found.weights.items()} == {
        "conv1.weight": (4, 2, 3, 3),
        "conv1.bias": (4,),
        "bn1.moving_mean": (4,),
        "bn1.moving_variance": (4,),
        "bn1.gamma": (4,),
        "bn1.beta": (4,),
        "conv2.weight": (6, 4, 3, 3),
        "conv2.bias": (6,),
        "bn2.moving_mean": (6,),
        "bn2.moving_variance": (6,),
        "bn2.gamma": (6,),
        "bn2.beta": (6,),
        "fc.weight": (5, 96),
        "fc.bias": (5,),
    }
    assert np.array_equal(found.weights["bn1.moving_variance"].numbers(), np.ones(4))


def test_a_checksum_is_verified_and_an_encrypted_file_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    path.write_bytes(encode_bytes({"w": np.arange(4.0)}, crc=True))
    assert load(path).weights["w"].numbers().tolist() == [0, 1, 2, 3]
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"a\.ckpt is damaged.*checksum"):
        load(path)
    path.write_bytes(b"\xd8\x5e\x3a\x7f" + bytes(100))
    with pytest.raises(CheckpointError, match="is encrypted"):
        load(path)


def test_a_tensor_split_over_several_values_is_joined(tmp_path: Path) -> None:
    weights = {"a": np.arange(1000.0), "b": np.arange(7, dtype=np.float32)}
    with (tmp_path / "a.ckpt").open("wb") as stream:
        encode(weights, stream, slice_bytes=256, crc=True)
    found = read_mindspore(tmp_path / "a.ckpt")
    for name, array in weights.items():
        assert np.array_equal(found.weights[name].numbers(), array)


def test_empty_tensors_with_shapes_too_large_to_count_are_refused(tmp_path: Path) -> None:
    dims = b"".join(b"\x08" + b"\xff\xff\xff\x7f" for _ in range(5)) + b"\x08\x00"
    tensor = dims + b"\x12\x07Float32\x1a\x00"
    value = b"\x0a\x01w\x12" + bytes([len(tensor)]) + tensor
    (tmp_path / "a.ckpt").write_bytes(b"\x0a" + bytes([len(value)]) + value)
    with pytest.raises(CheckpointError, match="'w' has 0 bytes"):
        load(tmp_path / "a.ckpt")
    shape = [2**40, 2**40, 0]
    (tmp_path / "a.safetensors").write_bytes(_safetensors(_one(shape, 0, 0), b""))
    with pytest.raises(CheckpointError, match="'w' has no shape"):
        load(tmp_path / "a.safetensors")


def test_state_dicts_are_found_inside_the_files_of_trainers(tmp_path: Path) -> None:
    state = OrderedDict(torch.nn.Linear(2, 3).state_dict())
    for name, content in (
        ("plain.pt", state),
        ("lightning.ckpt", {"state_dict": state, "epoch": 3, "lr": [0.1]}),
        ("nested.pth", {"model": {"state_dict": state}, "optimizer": {"state": {}}}),
        ("old.bin", {"model_state_dict": state, "loss": 0.5}),
    ):
        torch.save(content, tmp_path / name)
        found = load(tmp_path / name)
        assert found.format == "torch"
        assert list(found.weights) == ["weight", "bias"], name
    torch.save(state, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    assert same_bits(
        load(tmp_path / "legacy.pt").weights["weight"],
        load(tmp_path / "plain.pt").weights["weight"],
    )
    torch.save({"w": torch.nn.Parameter(torch.ones(2))}, tmp_path / "parameter.pt")
    assert load(tmp_path / "parameter.pt").weights["w"].trainable is True
    assert load(tmp_path / "plain.pt").weights["weight"].trainable is None


class _Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("executed"),))


def test_a_file_that_needs_code_is_refused_by_name_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"w": _Evil()}, "zip.pt")
    Path("pickle.bin").write_bytes(pickle.dumps({"w": _Evil()}, 2))
    torch.save(torch.nn.Linear(2, 2), "module.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(torch.nn.Linear(2, 2)).save("script.pt")
    for name, asks in (
        ("zip.pt", "getattr"),
        ("pickle.bin", "getattr"),
        ("module.pt", r"torch\.nn\.modules\.linear\.Linear"),
        ("script.pt", "TorchScript"),
    ):
        with pytest.raises(CheckpointError, match=asks) as caught:
            load(Path(name))
        assert caught.value.slug == "checkpoint-code"
        assert name in str(caught.value)
    assert not Path("executed").exists()


def test_files_that_are_no_checkpoints_are_refused_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "junk.pt").write_bytes(bytes(200))
    (tmp_path / "empty.pt").write_bytes(b"")
    (tmp_path / "empty.ckpt").write_bytes(b"")
    torch.save({"weight": torch.ones(99)}, tmp_path / "whole.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "whole.pt").read_bytes()[:700])
    torch.save([1, 2, 3], tmp_path / "list.pt")
    (tmp_path / "junk.ckpt").write_bytes(b"\x0a\x05abc")
    (tmp_path / "junk.npz").write_bytes(b"PK\x03\x04" + bytes(50))
    (tmp_path / "short.safetensors").write_bytes(b"\x10\0\0")
    for name, said in (
        ("a.txt", "neither its name"),
        ("junk.pt", "junk.pt is damaged"),
        ("empty.pt", "empty.pt is damaged"),
        ("empty.ckpt", "empty.ckpt is damaged or not a MindSpore checkpoint: it is empty"),
        ("cut.pt", "it is cut off: no zip directory before byte 700"),
        ("list.pt", "has no weights: it is a list"),
        ("junk.ckpt", "the value at byte 0"),
        ("junk.npz", "is damaged or not a .npz"),
        ("short.safetensors", "byte 0: a header"),
        ("missing.pt", "does not exist"),
    ):
        with pytest.raises(CheckpointError, match=said):
            load(tmp_path / name)


def test_npz_files_of_any_order_open_and_objects_are_refused(tmp_path: Path) -> None:
    arrays = {
        "a/b.weight": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big": np.arange(4, dtype=">f4"),
        "flag": np.array([True]),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        found = load(tmp_path / "a.npz")
        assert found.format == "numpy"
        for name, array in arrays.items():
            assert np.array_equal(found.weights[name].numbers(), array), name
    np.savez(tmp_path / "o.npz", w=np.array([_Evil()], object))
    with pytest.raises(CheckpointError, match=r"'w\.npy' has object, not plain numbers"):
        load(tmp_path / "o.npz")
    assert not Path("executed").exists()


def test_a_zip_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path: Path) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "|u1", "fortran_order": False, "shape": (300 << 20,)}
    )
    with (
        zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("w.npy", "w", force_zip64=True) as member,
    ):
        member.write(head.getvalue())
        for _ in range(300):
            member.write(bytes(1 << 20))
    assert (tmp_path / "b.npz").stat().st_size < 3 << 20
    with pytest.raises(CheckpointError, match="claims to decompress"):
        load(tmp_path / "b.npz")


def _one(shape: list[int], start: int, stop: int, dtype: str = "F32") -> dict[str, Any]:
    return {"w": {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}}


def _safetensors(header: object, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ((2**63).to_bytes(8, "little") + b"{}", "a header of"),
        (_safetensors([], b""), "not a JSON object"),
        (b"\x02\0\0\0\0\0\0\0{]", "not JSON"),
        (b"\x10\0\0\0\0\0\0\0" + b"[" * 16, "not JSON"),
        (
            _safetensors(_one([2**40], 0, 4), bytes(4)),
            r"claims bytes 0 to 4 of 4",
        ),
        (
            _safetensors(_one([1], 4, 8), bytes(8)),
            "begins at 4",
        ),
        (
            _safetensors(_one([1], 0, 4), bytes(8)),
            "the file's data at 8",
        ),
        (
            _safetensors(_one([1], 0, 4, "F99"), bytes(4)),
            "element type 'F99'",
        ),
        (
            _safetensors(_one([-1], 0, 4), bytes(4)),
            "no shape",
        ),
        (_safetensors({"w": 3}, b""), "no shape"),
        (
            b'\x0f\0\0\0\0\0\0\0{"w":{},"w":{}}',
            "occurs twice",
        ),
    ],
)
def test_hostile_safetensors_headers_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=said):
        read_safetensors(path)


def test_a_torch_storage_larger_than_its_file_is_refused(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(3)}, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as source:
        members = {name: source.read(name) for name in source.namelist()}
    (name,) = (name for name in members if name.endswith("data.pkl"))
    bigger = members[name].replace(b"K\x03t", b"J\xff\xff\xff\x7ft")
    assert bigger != members[name]
    members[name] = bigger
    with zipfile.ZipFile(tmp_path / "b.pt", "w") as target:
        for member, data in members.items():
            target.writestr(member, data)
    with pytest.raises(CheckpointError, match="a storage of 2147483647 elements"):
        load(tmp_path / "b.pt")


def test_the_parameters_of_dumps_are_read_like_a_checkpoint(tmp_path: Path) -> None:
    found = load(DUMPS / "nan_log" / "dump", step=2)
    saved = load(CHECKPOINTS / "nan_log_final.ckpt")
    assert list(found.weights)[:4] == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    for name in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "accum.fc1.weight"):
        assert same_bits(found.weights[name], saved.weights[name])
    assert found.weights["fc1.weight"].trainable is True
    assert found.weights["accum.fc1.weight"].trainable is False
    assert "inputs0" not in found.weights
    ours = load(small_dump(tmp_path / "dump").root, step=5)
    assert {name: weight.shape for name, weight in ours.weights.items()} == {"scale.weight": (4,)}
    with pytest.raises(DumpError, match="step 3 is not in the dump"):
        load(tmp_path / "dump", step=3)


def test_checkpoints_other_than_torchs_need_no_torch(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", w=np.ones(3))
    with (tmp_path / "a.safetensors").open("wb") as stream:
        write_safetensors(stream, awkward().values())
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from sonde.cli.main import main\n"
        f"assert main(['ckpt', 'check', {str(tmp_path / 'a.npz')!r}]) == 0\n"
        f"main(['params', {str(tmp_path / 'a.safetensors')!r}])\n"
        f"assert main(['params', {str(tmp_path / 'b.pt')!r}]) == 2\n"
    )
    torch.save({"w": torch.ones(2)}, tmp_path / "b.pt")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SRC), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "bfloat16" in done.stdout
    assert "and PyTorch is not installed; pip install torch [torch-missing]" in done.stderr


def test_a_models_directory_gives_its_file_or_its_shards(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "one.safetensors")
    assert list(load(tmp_path).weights) == ["a"]
    save_file({"b": torch.ones(3)}, tmp_path / "two.safetensors")
    with pytest.raises(CheckpointError, match=r"contains 2 checkpoints: one\.safetensors, two"):
        load(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    shards = {"a": "one.safetensors", "b": "two.safetensors"}
    index.write_text(json.dumps({"weight_map": shards}))
    assert sorted(load(tmp_path).weights) == ["a", "b"]
    for wrong, said in (
        ({"a": "../one.safetensors"}, "which is not in"),
        ({"a": "three.safetensors"}, "which is not in"),
        (3, "is not the index"),
    ):
        index.write_text(json.dumps({"weight_map": wrong}))
        with pytest.raises(CheckpointError, match=said):
            load(tmp_path)
