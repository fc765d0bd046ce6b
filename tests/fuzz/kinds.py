"""The kinds of files Sonde reads from others, each with whole samples and what reads it."""

from __future__ import annotations

import io
import json
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.core.checkpoint_bytes import encode_bytes
from tests.dump.made import LOG, MadeDump, small_dump, small_graph
from tests.dump.msprobe_dumps import unpack
from tests.dump.old_formats.made_old_dumps import raw_bytes, tensor_message
from tests.golden.sample import sample_signals

from sonde.compare.losses.events import read_events
from sonde.compare.losses.sources import read_losses
from sonde.compare.weights.check import check_checkpoint
from sonde.compare.weights.checkpoint import Weight
from sonde.compare.weights.files import open_checkpoint
from sonde.compare.weights.formats.mindspore import write_mindspore
from sonde.compare.weights.formats.safetensors import write_safetensors
from sonde.compare.weights.table import list_parameters
from sonde.core.files.event_records import masked_crc32c
from sonde.core.files.mindspore_ckpt import decode
from sonde.dump.file_names import read_mapping
from sonde.dump.graph_files.execution_order import read_node_order
from sonde.dump.graph_files.ir import read_ir_file, write_ir
from sonde.dump.graph_files.pb import encode_graph, read_graph_file
from sonde.dump.old_formats.ascend_raw import read_raw_file
from sonde.dump.reader import Dump
from sonde.dump.reading.npy import read_header
from sonde.dump.reading.pt_file import read_pt_header
from sonde.dump.reading.side_files import read_json, read_overflow
from sonde.dump.reading.statistic_rows import read_rows
from sonde.monitor.reading import read_ring

DATA = Path(__file__).parents[1] / "dump" / "data"
CHECKPOINTS = Path(__file__).parents[1] / "train" / "data"


@dataclass(frozen=True)
class Kind:
    """Whole samples, where a damaged copy is put, and what reads it.

    ``reads_all``: each call of ``read`` reads all samples, so one call shows that they can be read.
    """

    sources: list[bytes]
    path: Path
    read: Callable[[Path], Any]
    names_file: bool = True
    reads_all: bool = False


def _pb(directory: Path) -> Kind:
    sources = [encode_graph(small_graph()), _real("*.pb")]
    path = directory / "graph_0.pb"
    return Kind(sources, path, lambda path: list(read_graph_file(path, 0).graph))


def _real(pattern: str) -> bytes:
    """The smallest file MindSpore wrote."""
    return min((path.read_bytes() for path in DATA.rglob(pattern)), key=len)


def _ir(directory: Path) -> Kind:
    sources = [write_ir(small_graph()).encode(), _real("*.ir")]
    return Kind(sources, directory / "graph_0.ir", read_ir_file)


def _arrays() -> dict[str, np.ndarray[Any, Any]]:
    chance = np.random.default_rng(0)
    return {
        "conv.weight": chance.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "bn.running_var": np.ones(4, np.float32),
        "fc.weight": chance.normal(size=(5, 7)).astype(np.float16),
        "fc.bias": np.zeros(5),
        "steps": np.array(7, np.int64),
        "empty": np.zeros((0, 3), np.float32),
    }


def _weights() -> list[Weight]:
    return [
        Weight(name, array.dtype.name, array.shape, lambda array=array: array)
        for name, array in _arrays().items()
    ]


def _read_checkpoint(path: Path) -> None:
    from sonde.adapters.torch.checkpoints.files import read_torch

    found = open_checkpoint(path, read_torch)
    list_parameters(found)
    check_checkpoint(found)
    for weight in found.weights.values():
        weight.numbers()


def _ckpt(directory: Path) -> Kind:
    stream = io.BytesIO()
    write_mindspore(stream, _weights(), {"note": "a text"})
    with_crc = encode_bytes({**_arrays(), "note": "text"}, crc=True)
    real = [path.read_bytes() for path in sorted(CHECKPOINTS.glob("*.ckpt"))]

    def read(path: Path) -> None:
        _read_checkpoint(path)
        with path.open("rb") as file:
            decode(file, name=str(path))

    return Kind([stream.getvalue(), with_crc, *real], directory / "model.ckpt", read)


def _safetensors(directory: Path) -> Kind:
    stream = io.BytesIO()
    write_safetensors(stream, _weights(), {"note": "a text"})
    return Kind([stream.getvalue()], directory / "model.safetensors", _read_checkpoint)


def _npz(directory: Path) -> Kind:
    plain, packed = io.BytesIO(), io.BytesIO()
    np.savez(plain, **_arrays())
    np.savez_compressed(packed, **_arrays())
    return Kind([plain.getvalue(), packed.getvalue()], directory / "model.npz", _read_checkpoint)


def _torch(directory: Path) -> Kind:
    import torch

    tensors = {name: torch.from_numpy(array) for name, array in _arrays().items()}
    tensors["bf16"] = torch.ones(6).bfloat16()
    plain, nested, legacy = io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save(tensors, plain)
    torch.save({"model": tensors, "epoch": 3}, nested)
    torch.save(tensors, legacy, _use_new_zipfile_serialization=False)
    sources = [stream.getvalue() for stream in (plain, nested, legacy)]
    return Kind(sources, directory / "model.pt", _read_checkpoint)


def _npy(directory: Path) -> Kind:
    sources = []
    for array in _arrays().values():
        stream = io.BytesIO()
        np.save(stream, array)
        sources.append(stream.getvalue())
    return Kind(sources, directory / "tensor.npy", lambda path: read_header(path).array().sum())


def _pt(directory: Path) -> Kind:
    """Files of one tensor, as msprobe saves them."""
    import torch

    sources = []
    for tensor in (
        torch.arange(12.0).reshape(3, 4),
        torch.ones(6).bfloat16(),
        torch.arange(12).reshape(3, 4).t(),
        torch.nn.Parameter(torch.ones(2, 2)),
    ):
        stream = io.BytesIO()
        torch.save(tensor, stream)
        sources.append(stream.getvalue())
    return Kind(sources, directory / "tensor.pt", lambda path: read_pt_header(path).array().sum())


def _raw(directory: Path) -> Kind:
    """Raw files of Ascend, both with the values inside and after the message."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    sources = [
        raw_bytes(
            [(values, tensor_message("input", values, inline=inline))],
            [(values, tensor_message("output", values, inline=inline))],
            op_name="Default/Add-op1",
            inline=inline,
        )
        for inline in (False, True)
    ]

    def read(path: Path) -> None:
        for tensor in read_raw_file(path).tensors:
            tensor.array().sum()

    return Kind(sources, directory / "Add.Default_Add-op1.2.161243956333802", read)


def _csv(directory: Path) -> Kind:
    made = made_dump(directory / "made")
    rows = [path.read_bytes() for path in sorted(made.root.rglob("*.csv"))]
    rows += [path.read_bytes() for path in sorted(DATA.rglob("*.csv"))[:4]]
    losses = b"step,loss\n" + b"".join(b"%d,%f\n" % (k, 1 / (k + 1)) for k in range(20))

    def read(path: Path) -> None:
        text = path.read_bytes().decode("utf-8", "replace")
        read_rows(text)
        read_mapping(text)
        read_node_order(text)
        read_losses(path)

    return Kind([*rows, losses], directory / "rows.csv", _shielded(read))


def _json(directory: Path) -> Kind:
    overflow = [
        {
            "op": "log",
            "role": "producer",
            "phase": "forward",
            "source": {"file": "a.py", "line": 3, "function": "f", "code": "x"},
            "inputs": [{"slot": 0, "dtype": "float32", "shape": [2]}],
            "outputs": [],
        }
    ]
    sources = [
        json.dumps(overflow).encode(),
        json.dumps({"losses": [1.0, 0.5, "nan"], "steps": 3}).encode(),
        b"".join(json.dumps({"step": k, "train": {"loss": k}}).encode() + b"\n" for k in range(9)),
    ]

    def read(path: Path) -> None:
        for each in (read_json, read_overflow, read_losses):
            _shielded(each)(path)

    return Kind(sources, directory / "file.json", read)


def _events(directory: Path) -> Kind:
    data = b""
    for step in range(20):
        value = b"\x0a\x04loss\x15" + struct.pack("<f", 1 / (step + 1))
        event = b"\x10" + bytes([step]) + b"\x2a" + bytes([len(value) + 2])
        event += b"\x0a" + bytes([len(value)]) + value
        head = struct.pack("<Q", len(event))
        data += head + struct.pack("<I", masked_crc32c(head))
        data += event + struct.pack("<I", masked_crc32c(event))
    path = directory / "events.out.tfevents.1.host"
    return Kind([data], path, lambda path: read_events(path, [path], None))


def _log(directory: Path) -> Kind:
    lines = b"".join(b"epoch: 1 step: %d, loss is %f\n" % (k, 1 / (k + 1)) for k in range(20))
    return Kind([lines], directory / "train.log", read_losses)


def made_dump(root: Path) -> MadeDump:
    """A dump with every kind of file in it: statistics, a mapping, overflows."""
    made = small_dump(root)
    graph = small_graph()
    step = made.step(0)
    numbers = ["1.0", "0.5", "nan", "3"]
    made.add_rows(
        step,
        ["max", "min", "l2norm", "nan count"],
        [(graph.node(LOG), place, numbers) for place in ("input.0", "output.0")],
    )
    made.add_overflow(step, [{"op": LOG, "role": "producer", "phase": "forward"}])
    long_name = f"Default/{'deep/' * 60}mul-op9"
    node = replace(graph.node(LOG), name=long_name)
    made.add_tensor(step, node, "output.0", np.ones(4, np.float32))
    return made


def _dump(directory: Path) -> Kind:
    """A whole dump in which one file at a time is damaged: it opens, and lists its problems."""
    return _dump_of(made_dump(directory / "dump").root, directory)


def _foreign_dump(directory: Path) -> Kind:
    """The same with a dump by MindSpore."""
    root = directory / "dump"
    shutil.copytree(DATA / "nan_log" / "dump", root)
    return _dump_of(root, directory)


def _msprobe_dump(directory: Path) -> Kind:
    """The same with the JSON files of a dump by msprobe."""
    root = unpack(directory / "msprobe") / "L0_statistics"
    shutil.rmtree(root / "step1")
    return _dump_of(root, directory)


def _dump_of(root: Path, directory: Path) -> Kind:
    def read() -> None:
        dump = Dump(root)
        dump.check()
        for record in dump.tensors():
            _shielded(lambda _, record=record: record.statistics())(root)
        list(dump.overflow())
        dump.metadata()
        for graph_id in dump.graph_ids():
            _shielded(lambda _, graph_id=graph_id: dump.execution_order(graph_id))(root)

    return damaged_in(root, directory, read)


def damaged_in(root: Path, directory: Path, read: Callable[[], None]) -> Kind:
    """The files of a dump, of which one after the other is damaged while ``read`` reads all."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    contents = [path.read_bytes() for path in files]
    count = 0

    def read_damaged(path: Path) -> None:
        nonlocal count
        target = count % len(files)
        count += 1
        files[target].write_bytes(path.read_bytes())
        try:
            read()
        finally:
            files[target].write_bytes(contents[target])

    damaged = directory / "damaged"
    return Kind(contents, damaged, read_damaged, names_file=False, reads_all=True)


def _shielded(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """A file that is refused by one reader is still given to the next."""
    from sonde.core.errors import SondeError

    def call(path: Path) -> None:
        with suppress(SondeError):
            read(path)

    return call


def _ring(directory: Path) -> Kind:
    path = directory / "signals.rank_2.ring"
    return Kind([sample_signals()], path, lambda path: read_ring(path).gradients.sum())


KINDS: dict[str, Callable[[Path], Kind]] = {
    "pb": _pb,
    "ir": _ir,
    "ckpt": _ckpt,
    "safetensors": _safetensors,
    "npz": _npz,
    "torch": _torch,
    "npy": _npy,
    "pt": _pt,
    "raw": _raw,
    "csv": _csv,
    "json": _json,
    "events": _events,
    "log": _log,
    "dump": _dump,
    "foreign_dump": _foreign_dump,
    "msprobe_dump": _msprobe_dump,
    "ring": _ring,
}
