"""A dump by Sonde made by hand: its names and files spelled out, without the sinks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sonde.core.dtypes import dtype_named
from sonde.core.graph import Edge, Graph, OpNode, Source, TensorSpec
from sonde.dump import layout
from sonde.dump.file_names import FileNamer
from sonde.dump.graph_files.execution_order import write_node_order, write_steps
from sonde.dump.graph_files.ir import write_ir
from sonde.dump.graph_files.pb import encode_graph

EPOCH = 1_794_764_846_000_000
_LINE = Source("/home/ada/net.py", 12, "forward", "        return self.scale(x.log())")
_VECTOR = TensorSpec("float32", (4,))

SCOPE = "Default/network-Net"
LOG = f"{SCOPE}/log-op1"
SCALE = f"{SCOPE}/scale-Scale/mul-op2"
GRADIENT = f"Gradients/{SCOPE}/scale-Scale/mul-op3"


def small_graph(graph_id: int = 0) -> Graph:
    """input0 -> log -> mul(scale.weight) -> mul backward."""
    return Graph(
        graph_id,
        "Net",
        (
            OpNode("input0", "Input", "", "forward", "input", (), (_VECTOR,)),
            OpNode(
                LOG,
                "log",
                SCOPE,
                "forward",
                "op",
                (Edge("input0", 0, _VECTOR),),
                (_VECTOR,),
                (),
                (_LINE,),
            ),
            OpNode("scale.weight", "Parameter", "", "forward", "parameter", (), (_VECTOR,)),
            OpNode(
                SCALE,
                "mul",
                f"{SCOPE}/scale-Scale",
                "forward",
                "op",
                (Edge(LOG, 0, _VECTOR), Edge("scale.weight", 0, _VECTOR)),
                (_VECTOR,),
                (),
                (_LINE,),
            ),
            OpNode(
                GRADIENT,
                "mul",
                f"Gradients/{SCOPE}/scale-Scale",
                "backward",
                "op",
                (Edge(SCALE, 0, _VECTOR),),
                (_VECTOR,),
                (),
                (_LINE,),
            ),
        ),
    )


class MadeDump:
    """Writes one rank of a dump, file by file."""

    def __init__(self, root: Path, rank: int = 0, net: str = "Net") -> None:
        self.root = root
        self.net = net
        self.rank = layout.rank_layout(root, rank)
        self.rank.metadata.mkdir(parents=True)
        self.rank.metadata_config.write_text('{"sonde_version": "0.1.0"}')
        self.rank.metadata_dump_config.write_text('{"common_dump_settings": {}}')
        self._namers: dict[Path, FileNamer] = {}

    def add_graph(self, graph: Graph, steps: tuple[int, ...] = ()) -> None:
        self.rank.graphs.mkdir(exist_ok=True)
        self.rank.execution_order.mkdir(exist_ok=True)
        self.rank.graph_pb(graph.id).write_bytes(encode_graph(graph))
        self.rank.graph_ir(graph.id).write_text(write_ir(graph))
        self.rank.order_csv(graph.id).write_text(write_node_order(op.name for op in graph.ops))
        self.rank.global_order_csv(graph.id).write_text(write_steps(steps))

    def step(self, step: int, graph_id: int | None = 0) -> Path:
        path = (
            self.rank.unfinished_step_dir(self.net, step)
            if graph_id is None
            else self.rank.step_dir(self.net, graph_id, step)
        )
        path.mkdir(parents=True, exist_ok=True)
        return path

    def add_tensor(
        self,
        directory: Path,
        node: OpNode,
        place: str,
        array: np.ndarray,
        *,
        dtype: str = "float32",
        timestamp: int = EPOCH,
    ) -> Path:
        io, _, slot = place.partition(".")
        label = dtype_named(dtype).label
        head, tail = layout.name_parts(
            node.type, node.name, io, int(slot), layout.DEFAULT_FORMAT, label
        )
        name = self._namers.setdefault(directory, FileNamer()).tensor(
            node.name, head, timestamp, tail
        )
        if name.mapping is not None:
            with (directory / layout.MAPPING).open("a") as mapping:
                mapping.write(name.mapping)
        np.save(directory / name.name, array)
        return directory / name.name

    def add_rows(
        self, directory: Path, categories: list[str], rows: list[tuple[OpNode, str, list[str]]]
    ) -> None:
        lines = [layout.statistic_header(categories)]
        for node, place, values in rows:
            io, _, slot = place.partition(".")
            head, tail = layout.statistic_row_parts(
                node.type, node.name, io, int(slot), 16, "Float32", (4,)
            )
            lines.append(",".join([f"{head}{EPOCH}{tail}", *values]))
        (directory / layout.STATISTIC).write_text("\n".join(lines) + "\n")

    def add_overflow(self, directory: Path, entries: list[Mapping[str, object]]) -> None:
        (directory / layout.OVERFLOW).write_text(json.dumps(entries))


def small_dump(root: Path) -> MadeDump:
    """Two steps of ``small_graph``; in the second the log of a negative number is NaN."""
    made, graph = MadeDump(root), small_graph()
    made.add_graph(graph, (0, 5))
    weight = np.array([1, 2, 3, 4], np.float32)
    for step, x in ((0, [1, 2, 3, 4]), (5, [1, -2, 3, 4])):
        directory = made.step(step)
        values = np.array(x, np.float32)
        with np.errstate(invalid="ignore"):
            log = np.log(values)
        calls = {
            "input0": {"output.0": values},
            LOG: {"input.0": values, "output.0": log},
            "scale.weight": {"output.0": weight},
            SCALE: {"input.0": log, "input.1": weight, "output.0": log * weight},
            GRADIENT: {"input.0": log * weight, "output.0": weight},
        }
        for order, (name, tensors) in enumerate(calls.items()):
            for place, array in tensors.items():
                made.add_tensor(
                    directory, graph.node(name), place, array, timestamp=EPOCH + step + order
                )
    return made
