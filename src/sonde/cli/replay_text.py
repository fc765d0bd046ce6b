"""The lines and the JSON of ``sonde replay`` and ``sonde verify``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sonde.core.finding import Finding
from sonde.core.text.problem_line import ProblemLine
from sonde.core.text.terminal_text import printable

if TYPE_CHECKING:
    from sonde.adapters.torch.replay.storage.captured_step import CapturedStep

_SHOWN_ROWS = 20


def version_lines(step: CapturedStep) -> Iterator[str]:
    """What differs between this process and the one that was captured, one line each."""
    from sonde.adapters.torch.replay.storage.environment import file_digest, has_device, versions

    stored = step.manifest.versions
    now = versions()
    if stored.get("torch", "") != now["torch"]:
        yield (
            ProblemLine(
                f"the step was captured with torch {printable(stored.get('torch', '?'))}, this is "
                f"{now['torch']}: results may differ in the last bits",
                slug="torch-differs",
            )
        )
    program = step.manifest.program
    if program.digest and program.file is not None and file_digest(program.file) != program.digest:
        yield (
            ProblemLine(
                f"{printable(program.file)} has changed since the step was captured; its classes "
                "are those of now",
                slug="script-changed",
            )
        )
    devices = {each.device for each in step.manifest.tensors} - {"cpu"}
    missing = sorted(name for name in devices if not has_device(name))
    if missing:
        yield (
            ProblemLine(
                f"the step was captured on {printable(', '.join(missing))}, which this machine "
                "lacks: it is executed on the CPU, not bit for bit",
                slug="device-missing",
            )
        )


def finding_lines(finding: Finding) -> Iterator[str]:
    """A finding for the terminal: its sentence, its line of the program, its rows."""
    yield printable(finding.message)
    if finding.advice:
        yield printable(f"    {finding.advice}")
    if finding.source is not None:
        yield printable(f"    {finding.source}  {finding.source.code}")
    rows = finding.evidence.get("rows")
    if finding.rule == "non-finite-origin":
        if isinstance(rows, list) and rows:
            yield f"    {_rows_text(rows, finding.evidence)}"
        if finding.evidence.get("input"):
            yield printable(f"    the input {finding.evidence['input']!r} has them already")


def as_document(step: CapturedStep, way: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """The JSON of a replay."""
    trigger = step.manifest.trigger
    return {
        "step": step.manifest.step,
        "rank": step.manifest.rank,
        "directory": str(step.path),
        "network": way,
        "trigger": None if trigger is None else trigger.text,
        "findings": [
            {
                "rule": each.rule,
                "severity": each.severity,
                "status": each.status,
                "message": each.message,
                "op": each.op,
                "source": None if each.source is None else each.source.fields(),
                "evidence": dict(each.evidence),
            }
            for each in findings
        ],
    }


def _rows_text(rows: list[int], evidence: dict[str, object]) -> str:
    shown = ", ".join(map(str, rows[:_SHOWN_ROWS])) + (", ..." if len(rows) > _SHOWN_ROWS else "")
    what = "row" if len(rows) == 1 else "rows"
    where = f"{what} {shown} of the batch of {evidence.get('batch_size')}"
    part = evidence.get("micro_batch")
    return f"from {where}" + ("" if part is None else f", micro-batch {part}")
