"""Answers about what is on disk: findings, op, tensor, series, compare, ranks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sonde.core.errors import UsageError
from sonde.core.text.number_text import count_text
from sonde.integrations.mcp.answer import MOST_CHARACTERS, NextCall, ToolAnswer
from sonde.integrations.mcp.findings import (
    Facts,
    finding_facts,
    kept_facts,
    overflow_facts,
    place_text,
    steps_text,
    without_nothing,
)

MOST_VALUES: Final = 64
_MOST_POINTS: Final = 40
_MOST_OF_FINDINGS: Final = MOST_CHARACTERS // 2
_STATISTICS: Final = ("min", "max", "avg", "std", "nan count", "positive inf count")
_MORE_STATISTICS: Final = ("negative inf count", "zero count", "count")


def findings_answer(document: Any, root: Path, path: str, start: int = 0) -> ToolAnswer:
    """What is wrong with a run on disk: findings from the number ``start`` on, ops with NaN or Inf,
    kept steps."""
    every = [finding_facts(each, root) for each in document.get("findings") or ()]
    if start and start >= len(every):
        raise UsageError(
            f"{path} has {count_text(len(every), 'finding')}, so that none has the number {start}",
            slug="usage",
        )
    findings = _first_that_fit(every[start:])
    faults = overflow_facts(document.get("overflow") or (), root)
    kept = kept_facts(document["steps"], root) if "signals" in document else []
    calls = []
    if kept:
        verdict = f"step {kept[0]['step']} was kept: {kept[0].get('kept_because')}"
        why = "where NaN begin, which rows"
        calls.append(NextCall(tool="replay", arguments={"step": kept[0]["id"]}, why=why))
    if faults:
        at = faults[0].get("line", "an unknown line")
        verdict = f"NaN or Inf begin in step {faults[0]['step']} at {faults[0]['op']}, {at}"
        place = {"path": path, "op": faults[0]["op"], "steps": str(faults[0]["step"])}
        calls.append(NextCall(tool="op", arguments=place, why="its inputs and outputs"))
    if findings:
        verdict = f"{findings[0]['status']}: {findings[0]['message']}"
    elif not kept and not faults:
        verdict = "nothing was found; this says nothing about what was not observed"
    facts = {
        "findings": findings,
        "kept_steps": kept,
        "ops_with_nan_or_inf": faults,
        "problems": [each["message"] for each in document.get("problems") or ()],
        "steps": None if kept else steps_text(each["step"] for each in document.get("steps") or ()),
    }
    end = start + len(findings)
    if end < len(every):
        rest = {"path": path, "start": end}
        calls.append(NextCall(tool="findings", arguments=rest, why=f"{len(every) - end} more"))
    return ToolAnswer(
        verdict=verdict,
        facts=without_nothing(facts),
        truncated=end < len(every),
        next=calls,
    )


def _first_that_fit(findings: Sequence[Facts]) -> list[Facts]:
    """The first findings, at least one, that leave room in the answer for the other facts."""
    kept: list[Facts] = []
    characters = 0
    for each in findings:
        characters += len(json.dumps(each))
        if kept and characters > _MOST_OF_FINDINGS:
            break
        kept.append(each)
    return kept


def op_answer(document: Any, root: Path, path: str) -> ToolAnswer:
    """The inputs and outputs of ops, in the order in which they ran."""
    ops: dict[tuple[int, int, str], Facts] = {}
    for each in document["tensors"]:
        key = (each["rank"], each["step"], each["op"])
        head = {
            "id": f"step {each['step']} {each['op']}",
            "rank": each["rank"] or None,
            "phase": each["phase"],
            "line": place_text(each["source"], root),
            "code": None if each["source"] is None else each["source"]["code"].strip(),
        }
        found = ops.setdefault(key, {**without_nothing(head), "tensors": []})
        found["tensors"].append(_tensor_facts(each))
    count = len(document["tensors"])
    first = document["tensors"][0]
    place = {"path": path, "op": first["op"]}
    of_step = {**place, "step": first["step"]}
    calls = [NextCall(tool="tensor", arguments=of_step, why="elements, at most 64")]
    if document["more"] or len(ops) > 1:
        one = {**place, "steps": str(first["step"])}
        calls.insert(0, NextCall(tool="op", arguments=one, why="one op in one step"))
    norm = {**place, "statistic": "l2norm"}
    calls.append(NextCall(tool="series", arguments=norm, why="its norm over the steps"))
    return ToolAnswer(
        verdict=f"{count_text(len(ops), 'execution')} of ops, {count_text(count, 'tensor')}; "
        f"{document['more']} more",
        facts={"ops": list(ops.values())},
        truncated=bool(document["more"]),
        next=calls,
    )


def _tensor_facts(each: Mapping[str, Any]) -> Facts:
    known = each["statistics"]
    wanted = (*_STATISTICS, *_MORE_STATISTICS)
    finite = ("finite min", "finite max") if known.get("nan count") else ()
    numbers = {name: _rounded(known[name]) for name in (*wanted, *finite) if known.get(name)}
    shape = None if each["shape"] is None else f"{each['dtype']}{each['shape']}"
    head = {"slot": f"{each['io']}.{each['slot']}", "type": shape, "problem": each["problem"]}
    return {**without_nothing(head), **numbers}


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def tensor_answer(document: Any, root: Path, path: str, slot: int) -> ToolAnswer:
    """At most 64 elements of one tensor."""
    found = [each for each in document["tensors"] if each["slot"] == slot]
    names = sorted({each["op"] for each in found})
    if len(names) != 1:
        listed = ", ".join(names[:5]) or "none"
        raise UsageError(
            f"{len(names)} ops match and have slot {slot}; give the full name of one: {listed}",
            slug="no-such-op",
        )
    each = found[0]
    if each.get("elements") is None:
        raise UsageError(
            f"the dump has no values of {each['op']}, only statistics; dump tensors with run or "
            "replay, or ask for op",
            slug="no-values",
        )
    values = each["elements"]["values"]
    facts = {
        **_tensor_facts(each),
        "id": f"step {each['step']} {each['op']} {each['io']}.{each['slot']}",
        "line": place_text(each["source"], root),
        "index": each["elements"]["index"],
        "values": [_rounded(value) for value in values[:MOST_VALUES]],
    }
    shown = min(len(values), MOST_VALUES)
    place = {"path": path, "op": each["op"]}
    step = {**place, "steps": str(each["step"])}
    calls = [NextCall(tool="op", arguments=step, why="statistics of all its tensors")]
    if len(values) > MOST_VALUES:
        row = ", ".join(["0"] * (len(each["shape"]) - 1) + [f":{MOST_VALUES}"])
        part = {"step": each["step"], "io": each["io"], "slot": slot, "index": f"[{row}]"}
        why = "other rows by another index"
        calls.insert(0, NextCall(tool="tensor", arguments={**place, **part}, why=why))
    return ToolAnswer(
        verdict=f"{shown} of {len(values)} elements at this index, row by row",
        facts=without_nothing(facts),
        truncated=len(values) > MOST_VALUES,
        next=calls,
    )


def series_answer(rows: Sequence[tuple[int, Any]], asked: Facts) -> ToolAnswer:
    """One number over the steps, thinned; the first that is not finite is always there. ``asked``:
    the arguments of the tool."""
    steps, values = zip(*rows, strict=True)
    numbers = [value if isinstance(value, int | float) else math.nan for value in values]
    bad = next((at for at, value in enumerate(numbers) if not math.isfinite(value)), None)
    stride = max(1, math.ceil(len(steps) / _MOST_POINTS))
    kept = {*range(0, len(steps), stride), len(steps) - 1, *(() if bad is None else (bad,))}
    finite = [value for value in numbers if math.isfinite(value)]
    extremes = f", from {min(finite):.6g} to {max(finite):.6g}" if finite else ""
    turned = "" if bad is None else f"; not finite from step {steps[bad]} on"
    name = f"{asked['statistic']} {asked.get('op', '')}".strip()
    facts = {
        "first_not_finite": None if bad is None else steps[bad],
        "points": [[steps[at], _rounded(values[at])] for at in sorted(kept)],
    }
    return ToolAnswer(
        verdict=f"{name}: {len(steps)} steps{extremes}{turned}",
        facts=without_nothing(facts),
        truncated=stride > 1,
        next=_after_series(steps, bad, asked, is_thinned=stride > 1),
    )


def _after_series(
    steps: Sequence[int], bad: int | None, asked: Facts, *, is_thinned: bool
) -> list[NextCall]:
    """The op in its first bad step, or what the run found; every step before that, or the last."""
    calls = []
    if bad is not None and "op" in asked:
        place = {"path": asked["path"], "op": asked["op"], "steps": str(steps[bad])}
        calls.append(NextCall(tool="op", arguments=place, why="its inputs and outputs there"))
    elif bad is not None:
        place = {"path": asked["path"]}
        calls.append(NextCall(tool="findings", arguments=place, why="what was found there"))
    if is_thinned:
        last = min((len(steps) if bad is None else bad + 5), len(steps)) - 1
        part = {**asked, "steps": f"{steps[max(0, last - _MOST_POINTS + 1)]}-{steps[last]}"}
        calls.append(NextCall(tool="series", arguments=part, why="every step of this part"))
    return calls


def compare_answer(document: Any, root: Path, a: str, b: str) -> ToolAnswer:
    """Whether the runs in ``a`` and ``b`` agree, and where they diverge first."""
    first = document["first_divergence"]
    verdict = f"{document['verdict']}: {len(document['pairs'])} pairs of ops"
    short = None
    calls = []
    if first is not None:
        verdict = (
            f"diverged first in step {first['step']}, {first['phase']}: {first['a']} against "
            f"{first['b']}; off by {first['error']}, allowed {first['allowed']}"
        )
        names = ("step", "phase", "a", "b", "cause", "advice", "error", "allowed", "input_error")
        short = {
            **{name: first[name] for name in (*names, "tensor_a", "tensor_b", "inheritors")},
            "line_a": place_text(first["source_a"], root),
            "line_b": place_text(first["source_b"], root),
        }
        for path, op in ((a, first["a"]), (b, first["b"])):
            place = {"path": path, "op": op, "steps": str(first["step"])}
            calls.append(NextCall(tool="op", arguments=place, why="its inputs and outputs"))
    facts = {
        "first_divergence": None if short is None else without_nothing(short),
        "reasons": document.get("reasons"),
        "notes": document.get("notes"),
        "unpaired": [f"{each['side']}: {each['op']}" for each in document["unpaired"]],
    }
    return ToolAnswer(verdict=verdict, facts=without_nothing(facts), next=calls)


def ranks_answer(document: Any, root: Path, path: str) -> ToolAnswer:
    """What differs between the ranks of a distributed training."""
    findings = [finding_facts(each, root) for each in document["findings"]]
    verdict = findings[0]["message"] if findings else "the ranks agree in what was compared"
    why = "NaN and Inf of every rank"
    calls = [NextCall(tool="findings", arguments={"path": path}, why=why)]
    return ToolAnswer(verdict=verdict, facts=without_nothing({"findings": findings}), next=calls)
