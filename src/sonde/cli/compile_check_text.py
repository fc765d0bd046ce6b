"""Formats the verdict of ``sonde compile-check`` as text and as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import isfinite, isnan
from typing import Any

from sonde.core.agreement import (
    CompileVerdict,
    GraphVerdict,
    ResultComparison,
    Total,
    WrongGroup,
    WrongOp,
    relative,
)
from sonde.core.graph import Source

_MOST_NAMED = 5
_KIND_NAMES = {
    "output": "outputs",
    "buffer": "buffers",
    "gradient": "gradients",
    "weight": "updated weights",
}


def as_lines(verdict: CompileVerdict) -> Iterator[str]:
    """The report, line by line; the last one is the verdict."""
    yield f"step {verdict.step}: relative error to float64"
    yield f"  {'':16} {'eager':>10} {'interpreted':>12} {'compiled':>10}   closer to float64"
    for total in verdict.totals:
        yield _total_line(total)
    for graph in verdict.graphs:
        yield from _graph_lines(graph)
    for problem in verdict.problems:
        yield f"note: {problem}"
    yield from _verdict_lines(verdict)


def _total_line(total: Total) -> str:
    agreeing = (
        "all agree" if total.agreeing == total.count else f"{total.count - total.agreeing} deviate"
    )
    return (
        f"  {_KIND_NAMES[total.kind]:16} {_number(total.eager):>10} "
        f"{_number(total.interpreted):>12} {_number(total.compiled):>10}   "
        f"{total.closer} ({total.count}, {agreeing})"
    )


def _graph_lines(graph: GraphVerdict) -> Iterator[str]:
    ops = f"{graph.judged_ops} of {graph.op_count} ops judged one by one"
    yield f"{graph.name} ({graph.backend}): {ops}"
    if graph.random_ops:
        plural = "op" if graph.random_ops == 1 else "ops"
        yield (
            f"  {graph.random_ops} random {plural}, given the same numbers in all ways"
            if (graph.is_random_matched)
            else (
                f"  {graph.random_ops} random {plural} drew different numbers in different ways: "
                "results prove nothing, only ops were judged"
            )
        )
    for each in graph.disagreeing[:_MOST_NAMED]:
        yield f"  {_comparison_text(each)}"
    if len(graph.disagreeing) > _MOST_NAMED:
        yield f"  and {len(graph.disagreeing) - _MOST_NAMED} more"
    for problem in graph.problems:
        yield f"  note: {problem}"


def _comparison_text(each: ResultComparison) -> str:
    broken = f", {each.broken} elements not finite" if each.broken else ""
    interpreted = "" if each.interpreted_agrees else ", also when interpreted"
    return (
        f"{each.kind} {each.name} ({each.dtype}) deviates: off by "
        f"{_number(relative(each.compiled, each.norm))}, "
        f"{_number(relative(each.allowed, each.norm))} allowed{broken}{interpreted}"
    )


def _verdict_lines(verdict: CompileVerdict) -> Iterator[str]:
    wrong = next((graph.wrong for graph in verdict.graphs if graph.wrong is not None), None)
    if wrong is not None:
        yield from _wrong_lines(wrong)
    elif not verdict.agrees:
        groups = [graph.together for graph in verdict.graphs if graph.together is not None]
        yield "compiled code deviates, but no op does by itself" + (
            "" if groups else ": what is wrong appears only in code made of several ops"
        )
        for group in groups[:1]:
            yield from _group_lines(group)
    elif any(graph.is_judged for graph in verdict.graphs):
        yield "compiled code agrees"
    if not verdict.is_complete:
        yield "the check is not complete: see the notes"


def _group_lines(group: WrongGroup) -> Iterator[str]:
    """The ops by the lines they come from, in the order of the graph."""
    count = len(group.members)
    which = "the value of this op is" if count == 1 else f"the values of these {count} ops are"
    how = (
        "fused, or computed again in backward"
        if group.phase == "forward and backward"
        else "fused into one kernel"
    )
    kept = "it is" if count == 1 else "they are"
    yield f"{which} wrong where {kept} {how}, and right where {kept} kept ({group.phase})"
    for source, members in itertools.groupby(group.members, lambda member: member.source):
        ops = ", ".join(member.op for member in members)
        place = "" if source is None else f" at {source.file}:{source.line}"
        text = "" if source is None or not source.code else f": {source.code}"
        yield f"  {ops}{place}{text}"


def _wrong_lines(wrong: WrongOp) -> Iterator[str]:
    place = "" if wrong.source is None else f" at {wrong.source.file}:{wrong.source.line}"
    text = "" if wrong.source is None or not wrong.source.code else f": {wrong.source.code}"
    module = f" in module {wrong.module}" if wrong.module else ""
    yield f"the first wrong op is {wrong.op}, {wrong.phase}{module}{place}{text}"
    shape = ", ".join(str(size) for size in wrong.shape)
    broken = (
        f"; {wrong.broken} elements are not finite in compiled code alone" if wrong.broken else ""
    )
    yield (
        f"  {wrong.dtype} [{shape}] off by {_number(wrong.compiled)} from float64 on the same "
        f"inputs; eager {_number(wrong.eager)}, allowed {_number(wrong.allowed)}{broken}"
    )
    if wrong.fault == "decomposition":
        yield "  its decomposition is wrong: run op by op it gives the same wrong numbers"
    elif wrong.fault == "lowering":
        yield "  its decomposition is right, or it has none: the code made of it is wrong"


def as_document(verdict: CompileVerdict) -> dict[str, Any]:
    """The verdict as JSON: numbers that are not finite are text, unknown ones null."""
    return {
        "step": verdict.step,
        "agrees": verdict.agrees,
        "complete": verdict.is_complete,
        "totals": [
            {
                "kind": total.kind,
                "count": total.count,
                "agreeing": total.agreeing,
                "closer": total.closer,
                **_numbers(
                    eager=total.eager, interpreted=total.interpreted, compiled=total.compiled
                ),
            }
            for total in verdict.totals
        ],
        "graphs": [_graph_document(graph) for graph in verdict.graphs],
        "weights": [_comparison_document(each) for each in verdict.weights],
        "problems": list(verdict.problems),
    }


def _graph_document(graph: GraphVerdict) -> dict[str, Any]:
    return {
        "name": graph.name,
        "backend": graph.backend,
        "agrees": graph.agrees,
        "ops": graph.op_count,
        "ops_judged": graph.judged_ops,
        "random_ops": graph.random_ops,
        "random_matched": graph.is_random_matched,
        "comparisons": [_comparison_document(each) for each in graph.comparisons],
        "wrong_op": None if graph.wrong is None else _wrong_document(graph.wrong),
        "wrong_together": None if graph.together is None else _group_document(graph.together),
        "problems": list(graph.problems),
    }


def _group_document(group: WrongGroup) -> dict[str, Any]:
    return {
        "phase": group.phase,
        "ops": [
            {"op": each.op, "module": each.module, **_place(each.source)} for each in group.members
        ],
    }


def _place(source: Source | None) -> dict[str, Any]:
    return {
        "source": None if source is None else f"{source.file}:{source.line}",
        "line": None if source is None else source.code,
    }


def _comparison_document(each: ResultComparison) -> dict[str, Any]:
    return {
        "kind": each.kind,
        "name": each.name,
        "dtype": each.dtype,
        "agrees": each.agrees,
        "not_finite": each.broken,
        **_numbers(
            norm=each.norm,
            eager=each.eager,
            interpreted=each.interpreted,
            compiled=each.compiled,
            allowed=each.allowed,
        ),
    }


def _wrong_document(wrong: WrongOp) -> dict[str, Any]:
    return {
        "op": wrong.op,
        "phase": wrong.phase,
        "module": wrong.module,
        **_place(wrong.source),
        "dtype": wrong.dtype,
        "shape": list(wrong.shape),
        "not_finite": wrong.broken,
        "fault": wrong.fault,
        **_numbers(compiled=wrong.compiled, eager=wrong.eager, allowed=wrong.allowed),
    }


def _numbers(**values: float) -> dict[str, float | str | None]:
    return {
        name: None if isnan(value) else value if isfinite(value) else str(value)
        for name, value in values.items()
    }


def _number(value: float) -> str:
    return "-" if isnan(value) else f"{value:.1e}" if value else "0"
