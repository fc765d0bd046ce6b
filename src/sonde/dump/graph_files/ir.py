"""Graph files ``.ir``: a graph as text, in the layout of MindSpore's.

``read_ir`` reads, from files by Sonde and by MindSpore, what is only in them: the source lines of
each op, also of backward ops, and which parameters are weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sonde.core.dtypes import BY_NAME
from sonde.core.graph import Edge, Graph, OpNode, Source, TensorSpec
from sonde.dump.bounded_file import read_bytes
from sonde.dump.graph_files.source_lines import MARK, read_ir_sources, source_text, users_own

MAX_FILE_BYTES = 1 << 30
_INDENT = "      "
_FULL_NAMES = ("# Fullname with scope: (", ": full_name_with_scope: (")


@dataclass(frozen=True, slots=True)
class IrFile:
    """Contents of an ``.ir`` file: sources of each op, innermost first, and batch inputs."""

    sources: dict[str, tuple[Source, ...]]
    inputs: frozenset[str]


def write_ir(graph: Graph) -> str:
    """The text of a graph: parameters, inputs and constants first, then the ops as they ran."""
    return "".join(f"{line}\n" for line in _Writer.of(graph).lines())


def read_ir_file(path: Path) -> IrFile:
    """``read_ir`` of the file at ``path``; bytes that are not UTF-8 become U+FFFD."""
    data = read_bytes(path, MAX_FILE_BYTES, slug="graph-file")
    return read_ir(data.decode("utf-8", "replace"))


def read_ir(text: str) -> IrFile:
    """Read any text; lines without an op's name, a source line or a parameter are skipped."""
    sources: dict[str, tuple[Source, ...]] = {}
    inputs: set[str] = set()
    name: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        content = line.strip()
        if content.startswith(MARK):
            lines.append(content)
        elif content.startswith("%"):
            _keep(sources, name, lines)
            name, lines = None, []
            if content.startswith("%para") and content.endswith("IsWeight: false"):
                inputs.add(content.partition(":")[0].partition("_")[2].strip())
        elif content.startswith(_FULL_NAMES):
            name = content.partition("(")[2].removesuffix(")")
    _keep(sources, name, lines)
    return IrFile(sources, frozenset(inputs))


def _keep(sources: dict[str, tuple[Source, ...]], name: str | None, lines: list[str]) -> None:
    if name is not None and (found := users_own(read_ir_sources(lines))):
        sources[name] = found


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes one graph; ``labels`` are the names of the nodes in the text."""

    graph: Graph
    labels: dict[str, str]

    @classmethod
    def of(cls, graph: Graph) -> _Writer:
        labels: dict[str, str] = {}
        ops = parameters = constants = 0
        for node in graph:
            if node.kind == "op":
                labels[node.name] = f"%{ops}"
                ops += 1
            elif node.kind == "constant":
                constants += 1
                labels[node.name] = f"%cst{constants}_{node.name}"
            else:
                parameters += 1
                labels[node.name] = f"%para{parameters}_{node.name}"
        return cls(graph, labels)

    def lines(self) -> Iterator[str]:
        leaves = [node for node in self.graph if node.kind in ("parameter", "input")]
        constants = [node for node in self.graph if node.kind == "constant"]
        yield f"# IR entry: @{self.graph.name}"
        yield "# Total subgraphs: 1"
        yield ""
        yield f"# Total params: {len(leaves)}"
        yield "# Params:"
        for node in leaves:
            weight = "true" if node.kind == "parameter" else "false"
            yield f"{self.labels[node.name]}: {_types(node.outputs)}  :  IsWeight: {weight}"
        yield ""
        yield f"# Total constants: {len(constants)}"
        for node in constants:
            yield f"{self.labels[node.name]}: {_types(node.outputs)}{_attributes(node)}"
        yield ""
        yield f"subgraph @{self.graph.name}() {{"
        for node in self.graph.ops:
            yield from self._op(node)
        yield "}"

    def _op(self, node: OpNode) -> Iterator[str]:
        label = self.labels[node.name]
        leaf = node.name.rpartition("/")[2]
        arguments = ", ".join(map(self._argument, node.inputs))
        yield f"  {label}(equiv_{leaf}) = {node.type}({arguments}){_attributes(node)}"
        inputs = ", ".join(_type(edge.spec) for edge in node.inputs)
        yield f"{_INDENT}: ({inputs}) -> ({_types(node.outputs)})"
        yield f"{_INDENT}# Fullname with scope: ({node.name})"
        yield f"{_INDENT}# Phase: {node.phase}"
        for source in node.sources:
            yield _INDENT + source_text(source)

    def _argument(self, edge: Edge) -> str:
        if edge.producer is None:
            return "%?"
        label = self.labels.get(edge.producer, f"%?{edge.producer}")
        is_only = edge.producer in self.graph and len(self.graph.node(edge.producer).outputs) == 1
        return label if is_only and edge.slot == 0 else f"{label}[{edge.slot}]"


def _attributes(node: OpNode) -> str:
    pairs = ", ".join(f"{name}: {' '.join(text.split())}" for name, text in node.attributes)
    return f" primitive_attrs: {{{pairs}}}" if pairs else ""


def _types(specs: tuple[TensorSpec, ...]) -> str:
    return ", ".join(map(_type, specs))


def _type(spec: TensorSpec) -> str:
    known = BY_NAME.get(spec.dtype)
    label = known.label if known is not None else spec.dtype
    return f"<Tensor[{label}], ({', '.join(map(str, spec.shape))})>"
