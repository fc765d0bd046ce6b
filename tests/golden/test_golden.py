"""A format is a promise: what is written today is what was written before, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.rewrite import FILES, golden_files
from tests.golden.sample import sample_graph
from tests.golden.sample_step import sample_manifest

from sonde.adapters.torch.replay.storage.tensor_files import read_tensors
from sonde.dump.graph_files.execution_order import read_node_order
from sonde.dump.graph_files.ir import read_ir
from sonde.dump.graph_files.pb import decode_graph
from sonde.replay.manifest import read_manifest


@pytest.mark.parametrize("name", sorted(golden_files()))
def test_a_file_has_the_golden_bytes(name: str) -> None:
    assert (FILES / name).read_bytes() == golden_files()[name], (
        "the format changed; if that is meant: python -m tests.golden.rewrite"
    )


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in FILES.iterdir()} == set(golden_files())


def test_the_golden_graph_is_read_as_it_was_built() -> None:
    graph = sample_graph()
    found = decode_graph((FILES / "ms_output_trace_code_graph_3.pb").read_bytes())
    assert found.writer == "sonde"
    assert found.graph == graph


def test_the_golden_text_gives_every_source_line() -> None:
    graph = sample_graph()
    found = read_ir((FILES / "ms_output_trace_code_graph_3.ir").read_text())
    expected = {op.name: [(s.file, s.line, s.code) for s in op.sources] for op in graph.ops}
    assert {
        name: [(s.file, s.line, s.code) for s in sources] for name, sources in found.sources.items()
    } == expected
    assert found.inputs == {"input0"}


def test_the_golden_orders_are_read() -> None:
    nodes = read_node_order((FILES / "ms_execution_order_graph_3.csv").read_text())
    assert nodes == tuple(op.name for op in sample_graph().ops)


def test_the_golden_captured_step_is_read(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes((FILES / "captured_step_manifest.json").read_bytes())
    content = (FILES / "captured_step_weights.safetensors").read_bytes()
    (tmp_path / "weights.safetensors").write_bytes(content)
    manifest = read_manifest(tmp_path)
    assert manifest == sample_manifest(manifest.tensors)
    weight, view, transposed, low = read_tensors(tmp_path, manifest.tensors)
    assert weight.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert view.tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert view.stride() == (3, 1)
    assert transposed.tolist() == [[0.0, 2.0], [1.0, 3.0]]
    assert transposed.stride() == (1, 2)
    assert str(low.dtype) == "torch.bfloat16"
