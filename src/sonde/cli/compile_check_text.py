"""Formats the verdict of ``sonde compile-check`` as text and as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import isfinite, isnan
from typing import Any

from sonde.adapters.torch.compile_check.agreement import (
    CompileVerdict,
    GraphVerdict,
    ResultComparison,
    Total,
    WrongGroup,
    WrongOp,
    relative,
)
from sonde.core.graph import Source
from sonde.core.text.number_text import count_text

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
        ops = f"  {count_text(graph.random_ops, 'random op')}"
        if graph.is_random_matched:
            yield f"{ops}, given the same numbers in all ways"
        else:
            yield (
                f"{ops} drew different numbers in different ways: results prove nothing, only ops "
                "were judged"
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
            "" if groups else ": the error appears only in code made of several ops"
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
        yield f"  {', '.join(member.op for member in members)}{_source_text(source)}"


def _source_text(source: Source | None) -> str:
    if source is None:
        return ""
    return f" at {source}: {source.code}" if source.code else f" at {source}"


def _wrong_lines(wrong: WrongOp) -> Iterator[str]:
    module = f" in module {wrong.module}" if wrong.module else ""
    place = _source_text(wrong.source)
    yield f"the first wrong op is {wrong.op}, {wrong.phase}{module}{place}"
    shape = ", ".join(str(size) for size in wrong.shape)
    broken = (
        f"; {wrong.broken} elements are not finite in compiled code alone" if wrong.broken else ""
    )
    yield (
        f"  {wrong.dtype} [{shape}] off by {_number(wrong.compiled)} from float64 on the same "
        f"inputs; eager {_number(wrong.eager)}, allowed {_number(wrong.allowed)}{broken}"
    )
    if wrong.fault == "decomposition":
        yield "  its decomposition is wrong: run op by op, it gives the same wrong numbers"
    elif wrong.fault == "lowering":
        yield "  the code generated for it is wrong: its decomposition, if it has one, is right"


def as_document(verdict: CompileVerdict) -> dict[str, Any]:
    """The verdict as JSON: numbers that are not finite are text, unknown ones null."""
    names = ("kind", "count", "agreeing", "closer", "eager", "interpreted", "compiled")
    return {
        "step": verdict.step,
        "agrees": verdict.agrees,
        "complete": verdict.is_complete,
        "totals": [_fields(total, *names) for total in verdict.totals],
        "graphs": [_graph_document(graph) for graph in verdict.graphs],
        "weights": [_comparison_document(each) for each in verdict.weights],
        "problems": list(verdict.problems),
    }


def _graph_document(graph: GraphVerdict) -> dict[str, Any]:
    return {
        **_fields(graph, "name", "backend", "agrees", "random_ops"),
        "ops": graph.op_count,
        "ops_judged": graph.judged_ops,
        "random_matched": graph.is_random_matched,
        "comparisons": [_comparison_document(each) for each in graph.comparisons],
        "wrong_op": None if graph.wrong is None else _wrong_document(graph.wrong),
        "wrong_together": None if graph.together is None else _group_document(graph.together),
        "problems": list(graph.problems),
    }


def _group_document(group: WrongGroup) -> dict[str, Any]:
    ops = [{**_fields(each, "op", "module"), **_place(each.source)} for each in group.members]
    return {"phase": group.phase, "ops": ops}


def _place(source: Source | None) -> dict[str, Any]:
    return {
        "source": None if source is None else str(source),
        "line": None if source is None else source.code,
    }


def _comparison_document(each: ResultComparison) -> dict[str, Any]:
    numbers = ("norm", "eager", "interpreted", "compiled", "allowed")
    return {
        **_fields(each, "kind", "name", "dtype", "agrees", *numbers),
        "not_finite": each.broken,
    }


def _wrong_document(wrong: WrongOp) -> dict[str, Any]:
    numbers = ("compiled", "eager", "allowed")
    return {
        **_fields(wrong, "op", "phase", "module", "dtype", "fault", *numbers),
        **_place(wrong.source),
        "shape": list(wrong.shape),
        "not_finite": wrong.broken,
    }


def _fields(value: object, *names: str) -> dict[str, Any]:
    """Attributes by name; NaN becomes None and other numbers that are not finite text."""
    found: dict[str, Any] = {name: getattr(value, name) for name in names}
    for name, each in found.items():
        if isinstance(each, float) and not isfinite(each):
            found[name] = None if isnan(each) else str(each)
    return found


def _number(value: float) -> str:
    return "-" if isnan(value) else f"{value:.1e}" if value else "0"
