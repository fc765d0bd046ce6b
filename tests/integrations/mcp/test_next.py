"""Answers that were cut or found something name the calls that narrow them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic")

from sonde.core.errors import UsageError
from sonde.integrations.mcp.answer import shortened
from sonde.integrations.mcp.command import Done
from sonde.integrations.mcp.file_answers import (
    findings_answer,
    op_answer,
    series_answer,
    tensor_answer,
)
from sonde.integrations.mcp.program_answers import repeat_answer

ROOT = Path("/root")


def entry(step: int, **others: Any) -> dict[str, Any]:
    return {
        "rank": 0,
        "step": step,
        "op": "Default/log-op0",
        "phase": "forward",
        "io": "output",
        "slot": 0,
        "dtype": "float32",
        "shape": [16, 8],
        "source": None,
        "statistics": {"min": 0.0},
        "problem": None,
        **others,
    }


def test_a_long_series_leads_to_every_step_before_the_first_that_is_not_finite() -> None:
    rows: list[tuple[int, Any]] = [(2 * at, 1.0 if at < 500 else "NaN") for at in range(1000)]
    asked = {"path": "runs/a", "statistic": "l2norm", "op": "log", "io": "output", "slot": 0}
    answer = series_answer(rows, asked)
    assert answer.truncated
    assert answer.facts["first_not_finite"] == 1000
    at_fault, narrowed = answer.next
    assert (at_fault.tool, at_fault.arguments["steps"]) == ("op", "1000")
    first, last = map(int, narrowed.arguments["steps"].split("-"))
    assert first < 1000 < last
    part = [row for row in rows if first <= row[0] <= last]
    assert not series_answer(part, narrowed.arguments).truncated


def test_a_long_finite_signal_leads_to_its_last_steps() -> None:
    answer = series_answer([(at, 1.0) for at in range(100)], {"path": "a", "statistic": "loss"})
    (narrowed,) = answer.next
    assert narrowed.arguments == {"path": "a", "statistic": "loss", "steps": "60-99"}


def test_a_large_tensor_leads_to_elements_of_one_row() -> None:
    elements = {"index": "[:]", "values": [0.0] * 128}
    document = {"tensors": [entry(3, elements=elements)]}
    answer = tensor_answer(document, ROOT, "runs/a", 0)
    assert answer.truncated
    assert answer.next[0].arguments["index"] == "[0, :64]"
    assert [each.tool for each in answer.next] == ["tensor", "op"]


def test_many_executions_lead_to_one() -> None:
    document = {"tensors": [entry(3), entry(4)], "more": 5}
    answer = op_answer(document, ROOT, "runs/a")
    assert answer.truncated
    assert answer.next[0].arguments == {"path": "runs/a", "op": "Default/log-op0", "steps": "3"}


def finding(number: int) -> dict[str, Any]:
    return {
        "kind": f"rule-{number}",
        "status": "supported",
        "message": f"message {number} " + "x" * 300,
        "step": number,
        "advice": "y" * 300,
        "where": ["fc1"],
        "evidence": {"value": 1.0},
    }


def test_every_finding_is_reached_by_the_next_calls() -> None:
    document = {"findings": [finding(number) for number in range(40)]}
    seen: list[int] = []
    start: int | None = 0
    while start is not None:
        answer = findings_answer(document, ROOT, "runs/a", start)
        assert not shortened(answer).truncated or answer.truncated
        seen += [each["step"] for each in shortened(answer).facts["findings"]]
        start = answer.next[0].arguments["start"] if answer.truncated else None
    assert seen == list(range(40))
    with pytest.raises(UsageError, match="40 findings"):
        findings_answer(document, ROOT, "runs/a", 40)


def test_the_steps_of_a_long_dump_are_no_list() -> None:
    document = {"steps": [{"step": number} for number in range(20000)]}
    assert findings_answer(document, ROOT, "a").facts["steps"] == "0-19999"
    document = {"steps": [{"step": number} for number in range(0, 20000, 10)]}
    answer = findings_answer(document, ROOT, "a")
    assert answer.facts["steps"] == "2000 steps from 0 to 19990"
    assert not shortened(answer).truncated


def test_an_equal_repeat_of_many_steps_is_not_cut() -> None:
    document = {"equal": True, "steps": list(range(5000)), "tensors": 9, "first": None}
    answer = repeat_answer(Done(document, 0, "", is_late=False), ROOT, {"script": "train.py"})
    assert answer.facts["steps"] == "0-4999"
    assert shortened(answer) == answer
