"""The graphs of a dump: each file is decoded once, when it is first needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sonde.core.errors import DumpError
from sonde.core.graph import LEAF_TYPES, Graph, OpNode
from sonde.dump.graph_files.columns import GraphColumns
from sonde.dump.graph_files.ir import IrFile, read_ir_file
from sonde.dump.graph_files.pb import GraphFile, read_columns, read_graph_file
from sonde.dump.reading.directories import RankTree
from sonde.dump.reading.step_index import KnownGraph


class GraphStore:
    """Graphs by rank and id. May be used from several threads.

    ``report`` takes the path and the error of a file that cannot be read.
    """

    def __init__(self, report: Callable[[Path, DumpError], None]) -> None:
        self._report = report
        self._lock = threading.RLock()
        self._graphs: dict[tuple[int, int], KnownGraph | None] = {}
        self._columns: dict[tuple[int, int], GraphColumns] = {}

    def known(self, tree: RankTree, graph_id: int) -> KnownGraph | None:
        """The graph, or None, and a report, if its file cannot be read."""
        key = (tree.rank, graph_id)
        with self._lock:
            if key not in self._graphs:
                try:
                    self._graphs[key] = KnownGraph.of(self.load(tree, graph_id))
                except DumpError as error:
                    self._report(tree.layout.graph_pb(graph_id), error)
                    self._graphs[key] = None
            return self._graphs[key]

    def columns(self, tree: RankTree, graph_id: int) -> GraphColumns | None:
        """The columns of a graph that has a side file and is not decoded yet, else None."""
        key = (tree.rank, graph_id)
        if key in self._graphs:
            return None
        found = read_columns(tree.layout.graph_pb(graph_id))
        if found is not None:
            self._columns[key] = found
        return found

    def load(self, tree: RankTree, graph_id: int) -> GraphFile:
        """Decode the file of a graph; DumpError if it cannot be read."""
        if tree.source is not None:
            return tree.source.graph(graph_id)
        columns = self._columns.pop((tree.rank, graph_id), None)
        if columns is not None:
            return GraphFile(columns.graph(), "sonde")
        path = tree.layout.graph_pb(graph_id)
        if not os.path.lexists(path):  # as in dumps that were converted from old formats
            raise DumpError(
                f"{path}: not there; without a graph, scopes, edges and source lines are not known",
                slug="graph-file",
            )
        file = read_graph_file(path, graph_id)
        path = tree.layout.graph_ir(graph_id)
        if file.writer == "sonde" or not path.is_file():
            return file
        try:
            return replace(file, graph=_with_ir(file.graph, read_ir_file(path)))
        except DumpError as error:
            self._report(path, error)
            return file


def _with_ir(graph: Graph, ir: IrFile) -> Graph:
    """A graph by MindSpore with what only its ``.ir`` has: batch inputs and source lines."""
    nodes: list[OpNode] = []
    for node in graph:
        if node.kind == "parameter" and node.name in ir.inputs:
            node = replace(node, kind="input", type=LEAF_TYPES["input"])
        if sources := ir.sources.get(node.name):
            node = replace(node, sources=sources)
        nodes.append(node)
    return Graph(graph.id, graph.name, tuple(nodes))
