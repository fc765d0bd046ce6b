"""What Sonde found in a cell: a table in a notebook, lines in a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

from sonde.core.finding import Finding, lines_of, places_of
from sonde.core.text.html_text import COLOURS, code, folded, framed, line, table
from sonde.core.text.number_text import count_text
from sonde.core.text.problem_line import ProblemLine
from sonde.diagnosis.document import sentence
from sonde.dump.dump_html import verdict_texts
from sonde.dump.reader import Dump

_TITLES = ("", "finding", "where", "from step", "do")


@dataclass(slots=True)
class CellReport:
    """``findings``, causes first; the ``dump`` that was made of the cell, or None; ``steps``: how
    many were diagnosed, None without a diagnosis; ``lines``: what Sonde says besides."""

    findings: tuple[Finding, ...] = ()
    dump: Dump | None = None
    steps: int | None = None
    lines: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return "\n".join(f"sonde: {each}" for each in self._texts())

    def _repr_html_(self) -> str:
        worst = "error" if self.findings else "fine"
        problems = [each for each in self.lines if isinstance(each, ProblemLine)]
        others = [each for each in self.lines if not isinstance(each, ProblemLine)]
        parts = [line(self._headline(), bold=True, colour=COLOURS[worst])]
        parts += [line(text, colour=COLOURS[tone]) for text, tone in self._verdicts()]
        if self.findings:
            parts.append(table(_TITLES, map(_row, self.findings)))
        parts += [line(each, colour=COLOURS["warning"]) for each in problems]
        if self.dump is not None:
            parts.append(line(f"dump: {self.dump.path}", faint=True))
        if others:
            parts.append(folded("what Sonde did", code("\n".join(others))))
        return framed(*parts, colour=COLOURS[worst])

    def _headline(self) -> str:
        observed = f" in {count_text(self.steps, 'step')}" if self.steps else ""
        number = count_text(len(self.findings), "finding") if self.findings else "no finding"
        return f"{number}{observed}"

    def _verdicts(self) -> list[tuple[str, str]]:
        return [] if self.dump is None else verdict_texts(self.dump)

    def _texts(self) -> Iterable[str]:
        yield self._headline()
        yield from (text for text, _ in self._verdicts())
        for found in self.findings:
            where = ", ".join(places_of(found))
            yield sentence(found)
            yield f"   where: {where or 'unknown'}"
            yield f"   do: {found.advice}"
        yield from (each for each in self.lines if isinstance(each, ProblemLine))
        if self.dump is not None:
            yield f"dump: {self.dump.path}"


def _row(found: Finding) -> tuple[str, ...]:
    colour = COLOURS[found.severity]
    status = f'<b style="color:{colour};white-space:nowrap">{escape(found.status)}</b>'
    first = next((each.code for each in lines_of(found) if each.code), "")
    where = "".join(map(line, places_of(found))) + (code(first) if first else "")
    step = "" if found.step is None else str(found.step)
    what = line(found.message) + line(found.rule, faint=True)
    return status, what, where, step, escape(found.advice)
