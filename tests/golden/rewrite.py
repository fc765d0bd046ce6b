"""Write the golden files anew: ``python -m tests.golden.rewrite``, then review the diff."""

from __future__ import annotations

from pathlib import Path

from tests.golden.sample import sample_graph, sample_signals
from tests.golden.sample_step import captured_step_files

from sonde.dump.graph_files.encode import encode_graph
from sonde.dump.graph_files.execution_order import write_node_order, write_steps
from sonde.dump.graph_files.ir import write_ir

FILES = Path(__file__).parent / "files"


def golden_files() -> dict[str, bytes]:
    """Name and contents of every golden file, as the code of today writes them."""
    graph = sample_graph()
    return {
        "ms_output_trace_code_graph_3.ir": write_ir(graph).encode(),
        "ms_output_trace_code_graph_3.pb": encode_graph(graph),
        "ms_execution_order_graph_3.csv": write_node_order(op.name for op in graph.ops).encode(),
        "ms_global_execution_order_graph_3.csv": write_steps((0, 1, 5)).encode(),
        **captured_step_files(),
        "signals.rank_2.ring": sample_signals(),
    }


def main() -> None:
    for name, contents in golden_files().items():
        (FILES / name).write_bytes(contents)


if __name__ == "__main__":
    main()
