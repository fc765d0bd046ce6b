"""The first op at which two runs differ, on dumps made by hand."""

from __future__ import annotations

from pathlib import Path

from tests.dump.made import MadeDump

from sonde.compare.repetition import compare_repetition
from sonde.core.graph import Edge, Graph, OpNode, Source, TensorSpec
from sonde.dump.reader import Dump

VECTOR = TensorSpec("float32", (4,))
LINE = Source("/home/ada/net.py", 12, "forward", "return self.scale(x)")

# op: type, inputs
OPS = {
    "input0": ("Input", ()),
    "w": ("Parameter", ()),
    "Default/empty-op0": ("empty", ()),
    "Default/view-op0": ("view", ("Default/empty-op0",)),
    "Default/fill_-op0": ("fill_", ("Default/view-op0",)),
    "Default/mul-op0": ("mul", ("input0", "w")),
    "Default/bernoulli-op0": ("bernoulli", ("Default/mul-op0",)),
    "Default/add-op0": ("add", ("Default/mul-op0", "Default/fill_-op0")),
}
KINDS = {"Input": "input", "Parameter": "parameter"}


def graph(names: tuple[str, ...] = tuple(OPS)) -> Graph:
    nodes = []
    for name in names:
        kind, inputs = OPS[name]
        nodes.append(
            OpNode(
                name,
                kind,
                "Default",
                "forward",
                KINDS.get(kind, "op"),  # type: ignore[arg-type]
                tuple(Edge(each, 0, VECTOR) for each in inputs),
                (VECTOR,),
                (),
                (LINE,) if kind not in KINDS else (),
            )
        )
    return Graph(0, "kernel_graph0", tuple(nodes))


def dump(
    root: Path,
    changed: dict[str, str] | None = None,
    names: tuple[str, ...] = tuple(OPS),
    steps: tuple[int, ...] = (0,),
    dtype: str = "Float32",
) -> Dump:
    """A dump of hashes: each op's output is ``same`` unless ``changed`` gives another.

    ``dtype`` is that of the multiplication.
    """
    made, shape = MadeDump(root), graph(names)
    made.add_graph(shape, steps)
    values = {name: (changed or {}).get(name, f"{name}-same") for name in names}
    for step in steps:
        rows = []
        for node in shape:
            for slot, edge in enumerate(node.inputs):
                rows.append((node, f"input.{slot}", [values[edge.producer or ""]]))
            rows.append((node, "output.0", [values[node.name]]))
        made.add_rows(made.step(step), ["xxh3"], rows)
        table = made.step(step) / "statistic.csv"
        lines = table.read_text().splitlines(keepends=True)
        of_mul = (line.replace("Float32", dtype) if line[:4] == "mul," else line for line in lines)
        table.write_text("".join(of_mul))
    return Dump(root)


def test_equal_runs_are_equal(tmp_path: Path) -> None:
    found = compare_repetition(dump(tmp_path / "a"), dump(tmp_path / "b"))
    assert found.first is None
    assert found.differing == 0
    assert found.tensors == 15


def test_the_op_whose_inputs_agree_is_named_and_what_follows_inherits(tmp_path: Path) -> None:
    changed = {"Default/mul-op0": "x", "Default/bernoulli-op0": "y", "Default/add-op0": "z"}
    found = compare_repetition(dump(tmp_path / "a"), dump(tmp_path / "b", changed))
    first = found.first
    assert first is not None
    assert (first.rule, first.severity, first.status) == ("algorithm", "error", "established")
    assert first.where is not None
    assert (first.where.op, first.evidence["slots"]) == ("Default/mul-op0", ["output.0"])
    assert "not deterministic" in first.advice
    assert first.source == LINE
    assert found.differing == 5


def test_weights_data_and_random_ops_are_distinguished(tmp_path: Path) -> None:
    a = dump(tmp_path / "a")
    for name, kind in (("w", "weights"), ("input0", "data"), ("Default/bernoulli-op0", "random")):
        found = compare_repetition(a, dump(tmp_path / kind, {name: "x"}))
        assert found.first is not None
        assert (found.first.evidence["op"], found.first.rule) == (name, kind)
        assert found.first.source == LINE, "of a leaf, the line that first reads it"


def test_unwritten_memory_is_not_compared_until_an_op_writes_to_it(tmp_path: Path) -> None:
    a = dump(tmp_path / "a")
    unwritten = {"Default/empty-op0": "x", "Default/view-op0": "y"}
    assert compare_repetition(a, dump(tmp_path / "b", unwritten)).first is None
    found = compare_repetition(a, dump(tmp_path / "c", {**unwritten, "Default/fill_-op0": "z"}))
    assert found.first is not None
    assert found.first.evidence["op"] == "Default/fill_-op0"


def test_scratch_memory_counts_only_when_what_reads_it_differs(tmp_path: Path) -> None:
    a = dump(tmp_path / "a", dtype="UInt8")
    changed = {"Default/mul-op0": "x"}
    found = compare_repetition(a, dump(tmp_path / "b", changed, dtype="UInt8"))
    assert (found.first, found.differing) == (None, 0)
    changed["Default/add-op0"] = "y"
    found = compare_repetition(a, dump(tmp_path / "c", changed, dtype="UInt8"))
    assert found.first is not None
    assert found.first.evidence["op"] == "Default/mul-op0"


def test_different_ops_or_steps_are_a_difference(tmp_path: Path) -> None:
    a = dump(tmp_path / "a", steps=(0, 1))
    fewer = tuple(name for name in OPS if name != "Default/bernoulli-op0")
    found = compare_repetition(a, dump(tmp_path / "b", names=fewer, steps=(0, 1)))
    assert found.first is not None
    assert (found.first.rule, found.first.evidence["op"]) == ("structure", "Default/bernoulli-op0")
    more = compare_repetition(dump(tmp_path / "d", names=tuple(OPS)[:-1], steps=(0, 1)), a)
    assert more.first is not None
    assert (more.first.rule, more.first.evidence["op"]) == ("structure", list(OPS)[-1])
    found = compare_repetition(a, dump(tmp_path / "c"))
    assert found.first is not None
    assert (found.first.rule, found.first.evidence["step"]) == ("steps", 1)
