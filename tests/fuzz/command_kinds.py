"""Files that users name on the command line, each read by the command itself."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.dump.made import small_dump, small_graph
from tests.fuzz import kinds as files
from tests.fuzz.kinds import Kind
from tests.profile.made import profile

from sonde.capture.config import load_config
from sonde.cli.main import main
from sonde.core.errors import SondeError
from sonde.dump.graph_files import columns
from sonde.dump.graph_files.encode import encode_graph
from sonde.profile.document import load_profile
from sonde.summary import index
from sonde.tune.config.file import load_config as load_search
from sonde.tune.store import listing

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_command(words: Sequence[str]) -> None:
    """Run a command; anything but a result, or an error of one or more proper lines, fails."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    said = err.getvalue()
    assert code in (0, 1, 2), f"exit code {code}"
    assert "Traceback" not in said, said
    if code == 2:
        lines = said.splitlines()
        assert lines, "exit code 2 without a message"
        assert all(line.startswith("sonde: ") for line in lines), said
        assert lines[-1].endswith("]"), said
        raise SondeError(said, slug="refused")


def _commands(*lines: Sequence[str]) -> Callable[[Path], None]:
    """Run each command with the file in place of ``FILE``; the last refusal is passed on."""

    def read(path: Path) -> None:
        refused: SondeError | None = None
        for words in lines:
            try:
                run_command([str(path) if word == "FILE" else word for word in words])
            except SondeError as error:
                refused = error
        if refused is not None:
            raise refused

    return read


def _weights(make: Callable[[Path], Kind]) -> Callable[[Path], Kind]:
    """A checkpoint, given to the commands that read one."""

    def kind(directory: Path) -> Kind:
        made = make(directory)
        whole = directory / f"whole{made.path.suffix}"
        whole.write_bytes(made.sources[0])
        read = _commands(
            ["ckpt", "check", "FILE"], ["params", "FILE"], ["ckpt", "diff", "FILE", str(whole)]
        )
        return Kind(made.sources, made.path, read)

    return kind


def _losses(directory: Path) -> Kind:
    curve = b"step,loss\n" + b"".join(b"%d,%f\n" % (k, 1 / (k + 1)) for k in range(20))
    whole = directory / "whole.csv"
    whole.write_bytes(curve)
    return Kind([curve], directory / "losses.csv", _commands(["loss", "FILE", str(whole)]))


def _settings(directory: Path) -> Kind:
    common: dict[str, Any] = {
        "dump_mode": 1,
        "path": str(directory / "out"),
        "net_name": "net",
        "iteration": "0|5-8",
        "saved_data": "statistic",
        "input_output": 0,
        "kernels": ["name-regex(.*conv.*)", "relu"],
        "support_device": [0, 1],
        "op_debug_mode": 0,
        "statistic_category": ["max", "l2norm"],
    }
    whole = {
        "common_dump_settings": common,
        "e2e_dump_settings": {"enable": True, "trans_flag": True},
    }
    data = json.dumps(whole, indent=1).encode()
    return Kind([data], directory / "dump.json", lambda path: load_config(path, {}))


def _watchpoints(directory: Path) -> Kind:
    dump = small_dump(directory / "dump").root
    draft = {
        "name": "w",
        "conditions": [
            {"id": "tensor_too_large", "parameters": {"abs_mean_gt": 3.0}},
            {"id": "tensor_overflow", "parameters": {}},
            {"id": "expression", "parameters": {}, "expression": "max > 3 and mean < 1"},
        ],
        "ops": ["name-regex(.*mul.*)", "log"],
        "ranks": [0],
    }
    example = (EXAMPLES / "watch_overflow.json").read_bytes()
    whole = msgspec.json.decode(example)
    whole["watchpoints"].append(draft)
    sources = [example, json.dumps(whole).encode()]
    read = _commands(["view", str(dump), "--check", "--load", "FILE"])
    return Kind(sources, directory / "watch.json", read)


def _search(directory: Path) -> Kind:
    data = (EXAMPLES / "tune_config.yaml").read_bytes()
    return Kind([data], directory / "search.yaml", load_search)


def _shown(make: Callable[[Path], Path], step: str) -> Callable[[Path], Kind]:
    """A dump in which one file at a time is damaged, given to ``show`` and ``view --check``."""

    def kind(directory: Path) -> Kind:
        root = make(directory / "dump")
        read = _commands(
            ["show", str(root)],
            ["show", str(root), "--step", step, "--values"],
            ["view", str(root), "--check", "--recommended"],
        )
        return files.damaged_in(root, directory, lambda: read(root))

    return kind


def _foreign(root: Path) -> Path:
    shutil.copytree(files.DATA / "nan_log" / "dump", root)
    return root


def _columns(directory: Path) -> Kind:
    pb = encode_graph(small_graph())
    smallest, columns.MIN_NODES = columns.MIN_NODES, 1  # type: ignore[misc]
    try:
        data = columns.encode_columns(small_graph(), pb)
    finally:
        columns.MIN_NODES = smallest  # type: ignore[misc]
    assert data is not None

    def read(path: Path) -> None:
        found = columns.decode_columns(path.read_bytes(), pb)
        if found is None:
            raise SondeError(f"{path} is ignored", slug="refused")

    return Kind([data], directory / "graph.columns", read)


def _profile(directory: Path) -> Kind:
    data = msgspec.json.encode(profile(findings=2))
    return Kind([data], directory / "profile.json", load_profile)


def _summary(directory: Path) -> Kind:
    course = {"count": 3, "first_step": 0, "last_step": 2}
    whole = {
        "format": index.FORMAT,
        "version": index.VERSION,
        "started": "t",
        "updated": "t",
        "status": "done",
        "step": 3,
        "graph": None,
        "lineage": None,
        "scalars": {"loss": {**course, "last": 1.0, "minimum": 0.5, "maximum": "inf"}},
        **{kind: {"tag": course} for kind in index.KINDS},
    }
    place = directory / "summary"
    place.mkdir()
    read = _commands(["show", str(place)])
    data = json.dumps(whole).encode()
    return Kind([data], place / index.INDEX_FILE, read, names_file=False)


def _study(directory: Path) -> Kind:
    whole = {"format": listing.FORMAT, "version": listing.VERSION, "storage": "s", "study": "x"}
    data = json.dumps(whole).encode()
    return Kind(
        [data], directory / listing.POINTER_FILE, lambda path: listing._pointer(path.parent)
    )


def _index(directory: Path) -> Kind:
    """The index of a checkpoint in several files."""
    place = directory / "model"
    place.mkdir()
    shard = files.KINDS["safetensors"](directory).sources[0]
    (place / "a.safetensors").write_bytes(shard)
    names = {"weight_map": {"conv.weight": "a.safetensors", "fc.bias": "a.safetensors"}}
    read = _commands(["ckpt", "check", str(place)])
    path = place / "model.safetensors.index.json"
    return Kind([json.dumps(names).encode()], path, lambda _: read(place), names_file=False)


def _name_map(directory: Path) -> Kind:
    made = files.KINDS["npz"](directory)
    whole = directory / "whole.npz"
    whole.write_bytes(made.sources[0])
    out = directory / "out.safetensors"
    words = ["ckpt", "convert", str(whole), str(out), "--to", "safetensors", "--force"]
    data = json.dumps({"fc.bias": "head.bias", "steps": None}).encode()
    read = _commands([*words, "--map", "FILE"])
    return Kind([data], directory / "map.json", read, names_file=False)


KINDS: dict[str, Callable[[Path], Kind]] = {
    **{f"{name} command": _weights(files.KINDS[name]) for name in ("ckpt", "npz", "torch")},
    "safetensors command": _weights(files.KINDS["safetensors"]),
    "loss command": _losses,
    "settings": _settings,
    "watchpoints": _watchpoints,
    "search": _search,
    "show command": _shown(lambda root: files.made_dump(root).root, "0"),
    "show foreign command": _shown(_foreign, "2"),
    "columns": _columns,
    "profile": _profile,
    "summary": _summary,
    "study": _study,
    "index": _index,
    "name map": _name_map,
}
