"""Findings about ranks as lines for people."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.core.finding import Finding
from sonde.core.text.rank_numbers import ranks_text


def finding_lines(found: Finding) -> list[str]:
    """A finding as lines: what, where each rank stands after a hang, what to do."""
    lines = [f"{found.rule} ({found.status}): {found.message}"]
    at = found.evidence.get("ranks_at")
    if isinstance(at, (list, tuple)):
        lines += [f"  {each}" for each in at]
    if found.advice:
        lines.append(f"  to do: {found.advice}")
    return lines


def inferred_line(names: Sequence[str]) -> str:
    """A line about parameters that the program does not say the placement of."""
    shown = ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")
    what = "parameter" if len(names) == 1 else "parameters"
    return (
        f"the placement of {len(names)} {what} is inferred: replicated if equal at the start "
        f"({shown}); --placements FILE says it"
    )


def summary_line(
    findings: Sequence[Finding], judged_steps: int, ranks: int, absent: Sequence[int] = ()
) -> str:
    """The last line of a run. ``absent``: the ranks that have reported nothing."""
    if not judged_steps:
        why = f"{ranks_text(absent)} reported nothing" if absent else "no step was reported by all"
        return f"the steps of the {ranks} ranks were not compared: {why}; {_count(findings)}"
    steps = f"{judged_steps} step{'s' if judged_steps != 1 else ''}"
    if not findings:
        return f"{ranks} ranks compared in {steps}: no difference that should not be"
    return f"{ranks} ranks compared in {steps}: {_count(findings)}"


def _count(findings: Sequence[Finding]) -> str:
    return f"{len(findings)} finding{'s' if len(findings) != 1 else ''}"
