"""Small dumps, written file by file."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.core.dtypes import dtype_named
from sonde.core.graph import Edge, Graph, OpNode, Source, TensorSpec
from sonde.dump import layout
from sonde.dump.graph_files import pb as graph_pb

NET = "Default/network-Net"
ROWS = TensorSpec("float32", (2, 3))
SOURCE = Source("/home/me/train.py", 7, "forward", "x = log(x)")


def make_op(name: str, *inputs: str, phase: str = "forward") -> OpNode:
    type_ = name.rpartition("/")[2].partition("-")[0]
    edges = tuple(Edge(each, 0, ROWS) for each in inputs)
    scope = name.rpartition("/")[0]
    return OpNode(name, type_, scope, phase, "op", edges, (ROWS,), (), (SOURCE,))  # type: ignore[arg-type]


X, WEIGHT = "x", "fc.weight"
MUL, LOG, SUM = f"{NET}/fc-Linear/mul-op0", f"{NET}/log-op0", f"{NET}/sum-op0"
BACK, STEP = f"Gradients/{NET}/mul-op0", "Default/optimizer-SGD/sub_-op0"
GRAPH = Graph(
    0,
    "Net",
    (
        OpNode(X, "Input", "Default", "forward", "input", (), (ROWS,)),
        OpNode(WEIGHT, "Parameter", f"{NET}/fc-Linear", "forward", "parameter", (), (ROWS,)),
        make_op(MUL, X, WEIGHT),
        make_op(LOG, MUL),
        make_op(SUM, LOG),
        make_op(BACK, SUM, phase="backward"),
        make_op(STEP, WEIGHT, BACK, phase="optimizer"),
    ),
)

Tensors = Mapping[tuple[str, str, int], NDArray[Any]]


def outputs(values: Mapping[str, NDArray[Any]]) -> Tensors:
    return {(op, "output", 0): array for op, array in values.items()}


def finite(step: int) -> dict[str, NDArray[Any]]:
    """Values of every op in a step, all finite."""
    return {
        node.name: np.full((2, 3), 1.0 + place + step, np.float32)
        for place, node in enumerate(GRAPH)
    }


def write_dump(
    path: Path,
    steps: Mapping[int, Tensors],
    *,
    rank: int = 0,
    files: bool = True,
    rows: Sequence[str] = (),
    graph: Graph | None = GRAPH,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """A dump as Sonde writes it: values if ``files``, and these statistics as rows."""
    place = layout.rank_layout(path, rank)
    place.metadata.mkdir(parents=True, exist_ok=True)
    facts = {"sonde_version": "0.1.0", "framework": "torch"} if metadata is None else metadata
    place.metadata_config.write_text(json.dumps(dict(facts)))
    if graph is not None:
        place.graphs.mkdir(parents=True, exist_ok=True)
        place.graph_pb(graph.id).write_bytes(graph_pb.encode_graph(graph))
    for step, tensors in steps.items():
        directory = place.step_dir("Net", 0, step)
        directory.mkdir(parents=True)
        _write_step(directory, tensors, files, rows)
    return path


def _write_step(directory: Path, tensors: Tensors, files: bool, rows: Sequence[str]) -> None:
    types = {node.name: node.type for node in GRAPH}
    order = {node.name: place for place, node in enumerate(GRAPH)}
    lines: list[list[object]] = []
    for (op, io, slot), array in tensors.items():
        type_ = types.get(op, op.rpartition("/")[2].partition("-")[0])
        time = 1_700_000_000_000_000 + order.get(op, 99)
        label = dtype_named(array.dtype.name).label
        if files:
            head, tail = layout.name_parts(type_, op, io, slot, "DefaultFormat", label)  # type: ignore[arg-type]
            np.save(directory / f"{head}{time}{tail}".removesuffix(".npy"), array)
        if rows:
            shape = f"({','.join(map(str, array.shape))})"
            values = [_statistic(array, name) for name in rows]
            lines.append([type_, op, 0, 0, time, io, slot, array.nbytes, label, shape, *values])
    if rows:
        titles = [layout.STATISTIC_TITLES[name] for name in rows]
        with (directory / layout.STATISTIC).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(
                [[*layout.STATISTIC_COLUMNS, *titles], *lines]
            )


def _statistic(array: NDArray[Any], name: str) -> object:
    wide = array.astype(np.float64)
    found = {
        "max": lambda: wide.max(),
        "min": lambda: wide.min(),
        "avg": lambda: wide.mean(),
        "l2norm": lambda: np.sqrt((wide**2).sum()),
        "nan count": lambda: int(np.isnan(wide).sum()),
        "positive inf count": lambda: int((wide == np.inf).sum()),
        "negative inf count": lambda: int((wide == -np.inf).sum()),
    }[name]()
    return found if isinstance(found, int) else repr(float(found))
