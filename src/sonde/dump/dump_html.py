"""A dump as HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from sonde.core.text.html_text import COLOURS, framed, line, table
from sonde.core.text.number_text import count_text

if TYPE_CHECKING:
    from sonde.dump.reader import Dump

_MOST_STEPS: Final = 12
_MOST_PROBLEMS: Final = 3
_VERDICTS: Final = {
    "finite": ("every value was finite", "fine"),
    "harmless": ("NaN and Inf did no harm", "fine"),
    "unknown": ("not everything was observed", "warning"),
}


def dump_html(dump: Dump) -> str:
    """Steps by rank, verdicts, findings and problems. Reads directories and side files only."""
    parts = [line(f"dump {dump.path}", bold=True)]
    parts.append(line(_contents(dump), faint=True))
    parts += [line(text, colour=COLOURS[tone]) for text, tone in verdict_texts(dump)]
    parts += [each._repr_html_() for each in dump.findings()]
    problems = dump.problems
    for each in problems[:_MOST_PROBLEMS]:
        parts.append(line(str(each), colour=COLOURS["warning"]))
    if problems[_MOST_PROBLEMS:]:
        more = count_text(len(problems) - _MOST_PROBLEMS, "more problem")
        parts.append(line(f"{more}: dump.problems", colour=COLOURS["warning"]))
    return framed(*parts, _steps(dump))


def verdict_texts(dump: Dump) -> list[tuple[str, str]]:
    """What the search for NaN and Inf found in ranks without a fault, each with its colour."""
    found = {rank: _VERDICTS[word] for rank, word in dump.verdicts().items() if word in _VERDICTS}
    if len(dump.ranks) == 1:
        return list(found.values())
    return [(f"rank {rank}: {text}", tone) for rank, (text, tone) in found.items()]


def _contents(dump: Dump) -> str:
    ranks, steps = dump.ranks, dump.steps()
    why = dump.why_no_values()
    counted = f"{count_text(len(ranks), 'rank')}, {count_text(len(steps), 'step')}"
    return f"{counted}: {why}" if why else counted


def _steps(dump: Dump) -> str:
    """The first and the last steps with values, and where they are."""
    listed = dump.step_dirs()
    if not listed:
        return ""
    half = _MOST_STEPS // 2
    shown = listed if len(listed) <= _MOST_STEPS else (*listed[:half], *listed[-half:])
    rows = [(str(each.rank), str(each.step), escape(str(each.path))) for each in shown]
    if len(listed) > len(shown):
        rows.insert(half, ("...", "...", f"{len(listed) - len(shown):,} more"))
    return table(("rank", "step", "directory"), rows)
