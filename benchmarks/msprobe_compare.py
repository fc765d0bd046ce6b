"""For ``compare.py``: one step dumped by msprobe, and the same tensors as a dump of Sonde's.

Run with a Python that has mindstudio-probe, it dumps. ``convert`` turns such a dump, file by
file, into one that Sonde reads, with the same tensors and the same bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def dump(settings: dict[str, Any]) -> None:
    from msprobe.pytorch import PrecisionDebugger

    place = Path(settings["place"])
    place.mkdir(parents=True)
    config = place / "config.json"
    content = {
        "task": "tensor",
        "dump_path": str(place / "dump"),
        "rank": [],
        "step": [],
        "level": "L1",
        "tensor": {"scope": [], "list": [], "data_mode": ["all"]},
    }
    config.write_text(json.dumps(content))
    debugger = PrecisionDebugger(config_path=str(config))
    head, _, tail = settings["train"].partition("loss_function(")
    names: dict[str, Any] = {}
    exec(head, names)
    debugger.start(model=names["module"])
    exec("loss_function(" + tail, names)
    debugger.stop()
    debugger.step()


def convert(step: Path, target: Path) -> tuple[int, int]:
    """Convert a dump; returns the number of tensors and their bytes.

    An input comes from the op whose output has the same values.
    """
    import numpy as np
    import torch
    import xxhash

    from sonde.core.graph import Edge, Graph, OpNode, TensorSpec
    from sonde.dump import layout
    from sonde.dump.graph_files import execution_order
    from sonde.dump.graph_files import ir as graph_ir
    from sonde.dump.graph_files import pb as graph_pb

    (source,) = step.glob("*/dump.json")
    rank = layout.rank_layout(target, 0)
    directory = rank.step_dir("net", 0, 0)
    for each in (directory, rank.graphs, rank.execution_order, rank.metadata):
        each.mkdir(parents=True)
    rank.metadata_config.write_text(json.dumps({"sonde_version": "0.1.0", "framework": "torch"}))
    nodes: list[OpNode] = []
    producers: dict[bytes, tuple[str, int]] = {}
    tensors = nbytes = 0
    for order, (key, entry) in enumerate(json.loads(source.read_text())["data"].items()):
        op_type, name, phase = _op(key)
        made: dict[str, list[tuple[TensorSpec, bytes]]] = {"input": [], "output": []}
        for io, slot, file in _files(entry):
            values = torch.load(source.parent / "dump_tensor_data" / file, weights_only=True)
            array = values.detach().numpy()
            spec = TensorSpec(array.dtype.name, array.shape)
            made[io].append((spec, xxhash.xxh3_128_digest(np.ascontiguousarray(array))))
            parts = layout.name_parts(op_type, name, io, slot, "DefaultFormat", array.dtype.name)  # type: ignore[arg-type]
            np.save(directory / f"{parts[0]}{1_700_000_000_000_000 + order}{parts[1]}", array)
            tensors, nbytes = tensors + 1, nbytes + array.nbytes
        edges = [
            Edge(*producers.get(digest, (None, 0)), spec)  # type: ignore[arg-type]
            for spec, digest in made["input"]
        ]
        outputs = tuple(spec for spec, _ in made["output"])
        scope = name.rpartition("/")[0]
        nodes.append(OpNode(name, op_type, scope, phase, "op", tuple(edges), outputs))  # type: ignore[arg-type]
        for slot, (_, digest) in enumerate(made["output"]):
            producers[digest] = (name, slot)
    graph = Graph(0, "net", tuple(nodes))
    rank.graph_pb(0).write_bytes(graph_pb.encode_graph(graph))
    rank.graph_ir(0).write_text(graph_ir.write_ir(graph))
    rank.order_csv(0).write_text(execution_order.write_node_order(node.name for node in nodes))
    rank.global_order_csv(0).write_text(execution_order.write_steps([0]))
    return tensors, nbytes


def _op(key: str) -> tuple[str, str, str]:
    """``Functional.embedding.0.forward`` as type, full name and phase."""
    kind, *middle, number, phase = key.split(".")
    op_type = ".".join(middle) or kind
    root = "Gradients/Default" if phase == "backward" else "Default"
    return op_type, f"{root}/{kind}/{op_type}-op{number}", phase


def _files(entry: dict[str, Any]) -> list[tuple[str, int, str]]:
    """Io, slot and file of each tensor of an op."""
    found: list[tuple[str, int, str]] = []
    for part, value in entry.items():
        io = "output" if part.startswith("output") else "input"
        names: list[str] = []
        _collect(value, names)
        first = sum(each[0] == io for each in found)
        found += [(io, first + slot, file) for slot, file in enumerate(names)]
    return found


def _collect(value: Any, names: list[str]) -> None:
    if isinstance(value, dict):
        if isinstance(value.get("data_name"), str):
            names.append(value["data_name"])
        else:
            for each in value.values():
                _collect(each, names)
    elif isinstance(value, list):
        for each in value:
            _collect(each, names)


if __name__ == "__main__":
    dump(json.loads(sys.argv[1]))
