"""The JSON of ``sonde show`` for a dump; ``sonde run --json`` has it of the dump that it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sonde.cli.show_captured import captured_json
from sonde.core.errors import DumpError
from sonde.core.finding import with_lines
from sonde.debugger.values.answers import cells_of
from sonde.debugger.values.slices import parse_plane
from sonde.dump.reader import Dump
from sonde.dump.reading.directories import StepDir
from sonde.dump.reading.side_files import OverflowEntry
from sonde.dump.summary import StepSummary, summarize, summarize_step
from sonde.dump.tensor_record import TensorRecord
from sonde.wire.questions import MOST_CELLS, MOST_COLUMNS


def dump_json(dump: Dump, rank: int | None) -> dict[str, Any]:
    """What the dump has: its graphs, steps and ops with NaN or Inf, or its captured steps."""
    if captured := dump.captured(rank):
        return _with_problems(captured_json(dump, rank, captured), dump)
    return _with_problems(_overview_json(dump, rank), dump)


def tensors_json(
    dump: Dump, shown: Sequence[TensorRecord], more: int, index: str | None
) -> dict[str, Any]:
    """These tensors with their statistics; ``more``: how many others were asked for; ``index``:
    the elements to print, empty for the first ones, None for none."""
    tensors = [{**_tensor_json(record), **_elements_json(record, index)} for record in shown]
    return _with_problems({"tensors": tensors, "more": more}, dump)


def summarized_steps(dump: Dump, rank: int | None) -> list[StepSummary]:
    """Every step with the number and the size of its tensors."""
    is_probed = dump.writer(rank) == "msprobe"
    return [
        summarize_step(step, len(dump.items(step)) if is_probed else None)
        for step in dump.step_dirs(rank=rank)
    ]


def _with_problems(content: dict[str, Any], dump: Dump) -> dict[str, Any]:
    problems = [{"path": str(each.path), "message": each.message} for each in dump.problems]
    return {"path": str(dump.path), **content, "problems": problems}


def _overview_json(dump: Dump, rank: int | None) -> dict[str, Any]:
    return {
        "writer": dump.writer(rank),
        "metadata": dump.metadata(rank).config,
        "ranks": list(dump.ranks if rank is None else (rank,)),
        "nets": list(dump.nets(rank)),
        "graphs": [
            {
                "id": graph.id,
                "name": graph.name,
                "ops": len(dump.execution_order(graph.id, rank)),
                "leaves": len(graph) - len(graph.ops),
                "steps": list(dump.steps(graph_id=graph.id, rank=rank)),
            }
            for graph in dump.graphs(rank)
        ],
        "steps": [
            {**_step_json(each.step), "tensors": each.tensors, "bytes": each.nbytes}
            for each in summarized_steps(dump, rank)
        ],
        "overflow": [
            {**_step_json(step), "ops": list(map(_overflow_json, entries))}
            for step, entries in dump.overflow(rank=rank)
        ],
        "findings": _findings_json(dump, rank),
    }


def _findings_json(dump: Dump, rank: int | None) -> list[dict[str, Any]] | None:
    """What a diagnosis of the training found; None if it was not diagnosed."""
    ranks = dump.ranks if rank is None else (rank,)
    stored = [found for found in map(dump.diagnosis, ranks) if found is not None]
    if not stored:
        return None
    return [with_lines(each) for found in stored for each in found.findings]


def _overflow_json(entry: OverflowEntry) -> dict[str, Any]:
    source = None if entry.source is None else entry.source.fields()
    return {**asdict(entry), "source": source}


def _step_json(step: StepDir) -> dict[str, Any]:
    return {"rank": step.rank, "net": step.net, "graph": step.graph_id, "step": step.step}


def _elements_json(record: TensorRecord, index: str | None) -> dict[str, Any]:
    """The elements row by row, at most as many as a table may have."""
    if index is None:
        return {}
    try:
        array = record.numpy()
    except DumpError:
        return {"elements": None}
    plane = parse_plane(index, array.shape).clipped(MOST_CELLS, MOST_COLUMNS)
    return {"elements": {"index": plane.index, "values": cells_of(plane.of(array))}}


def _tensor_json(record: TensorRecord) -> dict[str, Any]:
    summary = summarize(record)
    damaged = summary.problem is not None
    return {
        "rank": record.rank,
        "net": record.net,
        "graph": record.graph_id,
        "step": record.key.step,
        "order": record.key.order,
        "op": record.key.op,
        "type": record.op_type,
        "phase": None if record.node is None else record.node.phase,
        "io": record.key.io,
        "slot": record.key.slot,
        "dtype": None if damaged else record.dtype,
        "shape": None if damaged else list(record.shape),
        "bytes": None if damaged else record.nbytes,
        "file": None if record.path is None else str(record.path),
        "source": None if record.source is None else record.source.fields(),
        "statistics": summary.values,
        "problem": summary.problem,
    }
