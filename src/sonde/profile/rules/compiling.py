"""torch.compile that compiles again while training runs."""

from __future__ import annotations

import re

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.core.number_text import percent
from sonde.profile.places import source_at
from sonde.profile.record.private import Compilation
from sonde.profile.rules.evidence import ProfileEvidence, judgement, milliseconds

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def find_recompilations(evidence: ProfileEvidence) -> list[Finding]:
    """Time spent compiling in profiled steps, with the guard that failed."""
    if not evidence.compilations:
        return []
    by_function: dict[tuple[str, int, str], list[Compilation]] = {}
    for each in evidence.compilations:
        by_function.setdefault((each.file, each.line, each.function), []).append(each)
    group = max(by_function.values(), key=lambda each: sum(c.seconds for c in each))
    seconds = sum(each.seconds for each in group) / evidence.timings.count
    if not evidence.is_worth(seconds):
        return []
    worst = next((each for each in reversed(group) if each.reason), group[-1])
    reason = worst.reason.partition("\n")[0].partition("#")[0].strip()
    return [
        judgement(
            evidence,
            "recompilation",
            "framework",
            message=f"torch.compile compiled {worst.function}() {len(group)} times in "
            f"{evidence.timings.count} steps, {milliseconds(seconds)} or "
            f"{percent(evidence.share(seconds))} of each" + (f": {reason}" if reason else ""),
            advice="keep what the guard names the same from step to step: pass changing numbers as "
            "tensors, pad changing shapes, or torch.compile(..., dynamic=True)",
            source=_source(worst),
            gain_seconds=seconds,
            how="in the trace",
            compilations=len(group),
            function=f"{worst.file}:{worst.line}",
            reason=worst.reason,
        )
    ]


def _source(compilation: Compilation) -> Source:
    """The line the failed guard is about, else the compiled function's."""
    frames = _FRAME.findall(compilation.reason)
    if frames:
        file, line, function = frames[-1]
        return source_at(file, int(line), function)
    return source_at(compilation.file, compilation.line, compilation.function)
