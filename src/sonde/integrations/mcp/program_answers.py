"""Answers about programs that were run: run, repeat, compile_check, replay, verify."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sonde.integrations.mcp.answer import NextCall, ToolAnswer
from sonde.integrations.mcp.command import Done
from sonde.integrations.mcp.findings import (
    Facts,
    exception_facts,
    finding_facts,
    kept_facts,
    overflow_facts,
    place_text,
    steps_text,
    without_nothing,
)

_SHOWN_LINES = 5


def run_answer(done: Done, root: Path, program: Facts, directory: str) -> ToolAnswer:
    """The first fault of a run, and what can be asked about it."""
    document = done.document
    findings = [finding_facts(each, root) for each in document["findings"] or ()]
    dump = document["dump"] or {}
    faults = overflow_facts(dump.get("overflow") or (), root)
    kept = kept_facts((document["guard"] or {}).get("steps", ()), root)
    raised = exception_facts(document["exception"], root)
    first = next(iter(_certain(findings)), None)
    facts = without_nothing(
        {
            "run": directory,
            "first_fault": first or next(iter(faults), None),
            "kept_steps": kept,
            "exception": raised,
            "exit_code": document["exit_code"],
            "other_findings": [each for each in findings if each is not first],
            "ops_with_nan_or_inf": faults,
            "printed": None if first else done.last_lines(_SHOWN_LINES),
        }
    )
    found = first or next(iter(faults), None)
    return ToolAnswer(
        verdict=_run_verdict(done, found, kept, raised),
        facts=facts,
        next=_after_run(program, directory, kept, faults, is_clean=found is None and not kept),
    )


def _certain(findings: Sequence[Facts]) -> list[Facts]:
    return [each for each in findings if each["status"] != "hypothesis"]


def _run_verdict(done: Done, found: Facts | None, kept: list[Facts], raised: Facts | None) -> str:
    late = "stopped at the time limit; " if done.is_late else ""
    if found is not None and "message" in found:
        return f"{late}{found['status']}: {found['message']}"
    if found is not None:
        at = f" at {found['line']}" if "line" in found else ""
        return f"{late}NaN or Inf begin in step {found['step']} at {found['op']}{at}"
    if kept:
        return f"{late}step {kept[0]['step']} went wrong: {kept[0].get('kept_because')}"
    if raised is not None and not done.is_late:
        return f"the program raised {raised['type']}: {raised['message']}"
    return f"{late}no fault was found in what was observed"


def _after_run(
    program: Facts, directory: str, kept: list[Facts], faults: list[Facts], *, is_clean: bool
) -> list[NextCall]:
    calls = []
    if kept:
        step = {"step": kept[0]["id"]}
        why = "after the fix: does the changed code still fail on this step?"
        calls.append(NextCall(tool="verify", arguments={**step, **program}, why=why))
        calls.append(NextCall(tool="replay", arguments=step, why="where NaN begin, which rows"))
    if faults:
        place = {"path": directory, "op": faults[0]["op"], "steps": str(faults[0]["step"])}
        calls.append(NextCall(tool="op", arguments=place, why="its inputs and outputs"))
    if is_clean:
        more = {**program, "observe": "overflow"}
        calls.append(NextCall(tool="run", arguments=more, why="watch every op for NaN and Inf"))
        calls.append(NextCall(tool="repeat", arguments=program, why="is it deterministic?"))
    elif not kept:
        calls.append(NextCall(tool="run", arguments=program, why="after the fix: is it gone?"))
    return calls


def repeat_answer(done: Done, root: Path, program: Facts) -> ToolAnswer:
    """Whether two runs were equal, and the first op at which they differ."""
    calls = []
    found = dict(done.document)
    first = found.pop("first")
    if first is None:
        verdict = f"equal: {found['tensors']} tensors are equal in both runs, bit for bit"
    else:
        at = place_text(first["source"], root)
        verdict = f"the runs differ first in step {first['step']} at {first['op']}, {at}"
        code = first["source"] and first["source"]["code"].strip()
        dump = {**program, "observe": "tensors", "steps": str(first["step"])}
        calls.append(NextCall(tool="run", arguments=dump, why="its values; twice, then compare"))
        first = {**first, "source": None, "line": at, "code": code}
    facts = without_nothing({"first": first, **found, "steps": steps_text(found["steps"])})
    return ToolAnswer(verdict=verdict, facts=facts, next=calls)


def compile_check_answer(done: Done, program: Facts) -> ToolAnswer:
    """Whether compiled code is right, and the first wrong op."""
    found = done.document
    wrong = [each["wrong_op"] for each in found["graphs"] if each["wrong_op"]]
    together = [each["wrong_together"] for each in found["graphs"] if each["wrong_together"]]
    deviating = [
        each
        for results in (*(graph["comparisons"] for graph in found["graphs"]), found["weights"])
        for each in results
        if not each["agrees"]
    ]
    verdict = "the compiled code agrees with eager code and float64"
    if wrong:
        numbers = f"off by {wrong[0]['compiled']}, allowed {wrong[0]['allowed']}"
        verdict = f"compiled {wrong[0]['op']} is wrong at {wrong[0]['source']}: {numbers}"
    elif not found["agrees"]:
        verdict = "the compiled code deviates, and no single op is wrong"
    elif not found["complete"]:
        verdict = "what could be checked agrees; the check is not complete"
    facts = {
        "wrong_ops": wrong,
        "wrong_together": together,
        "deviating": deviating,
        "problems": found["problems"],
        "totals": found["totals"],
        "step": found["step"],
    }
    again = NextCall(tool="compile_check", arguments={**program, "step": found["step"] + 1}, why="")
    again.why = "another step, after the first ones"
    return ToolAnswer(verdict=verdict, facts=without_nothing(facts), next=[again])


def replay_answer(done: Done, root: Path, step: str, dumped: str) -> ToolAnswer:
    """The answers to the questions about a captured step."""
    found = done.document
    findings = [
        without_nothing(
            {
                "id": f"{each['rule']}@{place_text(each['source'], root) or each['op'] or step}",
                "message": each["message"],
                "status": each["status"],
                "op": each["op"],
                "line": place_text(each["source"], root),
                "code": None if each["source"] is None else each["source"]["code"].strip(),
                "evidence": each["evidence"],
            }
        )
        for each in found["findings"]
    ]
    located = [each for each in findings if "line" in each]
    verdict = (located or findings or [{"message": "the step was executed again"}])[0]["message"]
    calls = [NextCall(tool="verify", arguments={"step": step}, why="after the fix")]
    if dumped and located:
        op = {"path": dumped, "op": located[0]["op"]}
        calls.insert(0, NextCall(tool="op", arguments=op, why="its inputs and outputs"))
    elif located:
        dump = {"step": step, "question": "tensors"}
        calls.append(NextCall(tool="replay", arguments=dump, why="dump the tensors of its ops"))
    facts = {"findings": findings, "trigger": found["trigger"], "tensors": dumped}
    return ToolAnswer(verdict=verdict, facts=without_nothing({**facts, "step": step}), next=calls)


def verify_answer(done: Done, step: str, program: Facts) -> ToolAnswer:
    """Whether the changed code cures a captured step."""
    found: Any = done.document
    numbers = f"loss {found['loss']}, norm of the gradients {found['grad_norm']}"
    verdict = f"{found['verdict']}: {numbers} (the step was kept because {found['trigger']})"
    if found["verdict"] == "fixed":
        whole = NextCall(tool="run", arguments=program, why="does another step go wrong?")
        return ToolAnswer(verdict=verdict, facts=found, next=[whole] if program else [])
    again = NextCall(tool="replay", arguments={"step": step}, why="where it begins now")
    return ToolAnswer(verdict=verdict, facts=found, next=[again])
