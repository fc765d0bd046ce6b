"""How fast ``sonde view`` opens large dumps: until the page has what it first shows.

    python benchmarks/view.py [--ops 100000]

Two dumps of as many tensors as ``--ops``, each tensor with its file and its row of statistics, as
Sonde writes them: ten steps of a tenth, and one step of all. Each is opened without an index, as
the first time, and then with the index left beside it. The server gets the
first requests of the page: the runs, the uppermost level of the graph, the tree, a
search, hits, and then the tensors of an op in the middle, with statistics.

Then ``sonde view --check`` looks for NaN and Inf in all of them, with rows and, having removed
those, by values alone, without an index; its processes together.

The seconds are those of the server's process, from its start: processor time, all its threads, and
in brackets those on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np

from sonde.core.graph import Edge, Graph, OpNode, Source, TensorSpec
from sonde.dump import layout
from sonde.dump.graph_files import execution_order
from sonde.dump.graph_files import ir as graph_ir
from sonde.dump.graph_files.columns import encode_columns
from sonde.dump.graph_files.encode import encode_graph
from sonde.dump.writing.npy_header import npy_header

OPS = ("convolution", "native_batch_norm", "relu", "add", "addmm", "view", "mul", "softmax")
LAYER = 40
SPECS = (TensorSpec("float32", (2, 3)), TensorSpec("float32", (2, 3, 4)))
STACK = 3
ADDRESS = re.compile(r"https?://\S+")
FIRST = ("graph/level", "graph/tree", "nodes?limit=200", "hits")


def made_graph(ops: int) -> Graph:
    """Layers of ``LAYER`` ops, each op fed by the one before it and every tenth by a weight."""
    nodes: list[OpNode] = []
    before = "x"
    nodes.append(OpNode("x", "Input", "Default", "forward", "input", (), SPECS[:1]))
    for number in range(ops):
        layer, place = divmod(number, LAYER)
        scope = f"Default/network-Net/blocks-Sequential/{layer}-Block/part{place // 8}-Linear"
        type_ = OPS[place % len(OPS)]
        sources = tuple(
            Source(f"/home/me/net{depth}.py", 10 + place + depth, "forward", "x = self.layer(x)")
            for depth in range(STACK)
        )
        edges = [Edge(before, 0, SPECS[number % 2])] if number else [Edge("x", 0, SPECS[0])]
        if place % 10 == 0:
            weight = f"blocks.{layer}.part{place // 8}.{place}.weight"
            spec = SPECS[:1]
            nodes.append(OpNode(weight, "Parameter", scope, "forward", "parameter", (), spec))
            edges.append(Edge(weight, 0, SPECS[0]))
        before = f"{scope}/{type_}-op{number}"
        outputs = (SPECS[(number + 1) % 2],)
        attributes = (("alpha", "1"), ("dims", f"[{place}, 1]"))
        nodes.append(
            OpNode(
                before, type_, scope, "forward", "op", tuple(edges), outputs, attributes, sources
            )
        )
    return Graph(0, "Net", tuple(nodes))


def write(place: Path, graph: Graph, steps: int) -> None:
    rank = layout.rank_layout(place, 0)
    for directory in (rank.metadata, rank.graphs, rank.execution_order):
        directory.mkdir(parents=True)
    rank.metadata_config.write_text(json.dumps({"sonde_version": "0.1.0", "framework": "torch"}))
    pb = encode_graph(graph)
    rank.graph_pb(0).write_bytes(pb)
    columns = encode_columns(graph, pb)
    if columns is not None:
        rank.graph_columns(0).write_bytes(columns)
    rank.graph_ir(0).write_text(graph_ir.write_ir(graph))
    order = execution_order.write_node_order(node.name for node in graph.ops)
    rank.order_csv(0).write_text(order)
    rank.global_order_csv(0).write_text(execution_order.write_steps(range(steps)))
    for step in range(steps):
        _write_step(rank.step_dir("Net", 0, step), graph)


def _write_step(directory: Path, graph: Graph) -> None:
    directory.mkdir(parents=True)
    categories = ("max", "min", "avg", "l2norm", "nan count")
    rows = [layout.statistic_header(categories)]
    for order, node in enumerate(graph.ops):
        spec = node.outputs[0]
        array = np.full(spec.shape, float(order % 97), np.float32)
        stamp = 1_700_000_000_000_000 + order
        head, tail = layout.name_parts(
            node.type, node.name, "output", 0, "DefaultFormat", "float32"
        )
        file = directory / f"{head}{stamp}{tail}"
        file.write_bytes(npy_header("<f4", spec.shape) + array.tobytes())
        head, tail = layout.statistic_row_parts(
            node.type, node.name, "output", 0, array.nbytes, "float32", spec.shape
        )
        value = array.flat[0]
        rows.append(f"{head}{stamp}{tail},{value},{value},{value},{np.linalg.norm(array)},0")
    (directory / layout.STATISTIC).write_text("\n".join(rows) + "\n")


class Server:
    """``sonde view`` of one dump, in a process of its own."""

    def __init__(self, dump: Path) -> None:
        self._start = time.perf_counter()
        words = ["-m", "sonde", "view", "--no-browser", "--port", "0", str(dump)]
        self._process = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        assert self._process.stdout is not None
        found = ADDRESS.search(self._process.stdout.readline())
        assert found is not None
        self.address, _, self._token = found[0].partition("/?token=")

    def get(self, path: str) -> object:
        request = urllib.request.Request(
            f"{self.address}/api/v1/{path}", headers={"Authorization": f"Bearer {self._token}"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def seconds(self) -> tuple[float, float]:
        """Processor time and clock since the start."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK"), time.perf_counter() - self._start

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def opened(dump: Path, op: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds until the answers for the first screen, and for an op that is opened afterwards."""
    server = Server(dump)
    try:
        (run,) = (each["id"] for each in server.get("runs")["runs"])  # type: ignore[index]
        for path in FIRST:
            server.get(f"runs/{run}/{path}")
        first = server.seconds()
        query = urllib.parse.urlencode({"name": op})
        server.get(f"runs/{run}/op?{query}")
        server.get(f"runs/{run}/op/tensors?{query}")
        return first, server.seconds()
    finally:
        server.close()


def report(name: str, dump: Path, op: str, repeats: int) -> None:
    for state in ("first open", "with index"):
        if state == "with index":
            _leave_index(dump, op)
        found = []
        for _ in range(repeats):
            if state == "first open":
                shutil.rmtree(dump / ".sonde_index", ignore_errors=True)
            found.append(opened(dump, op))
        cells = []
        for part in range(2):
            processor = statistics.median(each[part][0] for each in found)
            clock = statistics.median(each[part][1] for each in found)
            cells.append(f"{processor:8.2f} ({clock:.2f})")
        print(f"{name:24}{state:12}{cells[0]:>20}{cells[1]:>24}", flush=True)


def _leave_index(dump: Path, op: str) -> None:
    """Wait until the server has indexed the dump in the background."""
    time.sleep(max(0.0, 4 - (time.time() - dump.stat().st_mtime)))
    server = Server(dump)
    try:
        before = -1.0
        while (now := server.seconds()[0]) - before > 0.05:
            before = now
            time.sleep(1)
    finally:
        server.close()


def check(name: str, dump: Path, tensors: int) -> None:
    """The whole command, listing included."""
    for what in ("rows", "values"):
        if what == "values":
            for rows in dump.rglob(layout.STATISTIC):
                rows.rename(rows.with_suffix(".aside"))
        shutil.rmtree(dump / ".sonde_index", ignore_errors=True)
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, "-m", "sonde", "view", "--check", str(dump)]
        subprocess.run(command, check=True, capture_output=True)
        clock = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        each = spent / tensors * 1e6
        print(f"{name:24}{what:12}{spent:8.2f} ({clock:.2f}){each:24.0f}", flush=True)
    for rows in dump.rglob("*.aside"):
        rows.rename(rows.with_suffix(".csv"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", metavar="DIR", help="make the dumps here and leave them")
    options = parser.parse_args()
    print(f"{'cpu s (clock s)':24}{'':12}{'first screen':>20}{'tensors of an op':>24}")
    with tempfile.TemporaryDirectory(prefix="sonde-bench-") as place:
        root = Path(options.keep or place)
        dumps: list[tuple[str, Path, int]] = []
        for steps in (10, 1):
            graph = made_graph(options.ops // steps)
            dump = root / f"{steps}x{len(graph.ops)}"
            if not dump.exists():
                write(dump, graph, steps)
            op = graph.ops[len(graph.ops) // 2].name
            name = f"{steps} x {len(graph.ops):,} tensors"
            report(name, dump, op, options.repeats)
            dumps.append((name, dump, steps * len(graph.ops)))
        print(f"\n{'check, cpu s (clock s)':24}{'':12}{'':16}{'us per tensor':>20}")
        for name, dump, count in dumps:
            check(name, dump, count)


if __name__ == "__main__":
    main()
