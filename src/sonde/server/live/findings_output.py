"""Prints and stores the findings of a job, in the process of the server, which outlives ranks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sonde.core.files.atomic_file import write_whole
from sonde.core.finding import Finding
from sonde.core.text.problem_line import ProblemLine
from sonde.diagnosis.document import as_document
from sonde.logs import say
from sonde.ranks.finding_text import finding_lines, summary_line


class FindingsOutput:
    """Lines on standard error, and a JSON file that is replaced whole with each finding; an empty
    ``path``: no file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._is_failed = False

    def add(self, new: Sequence[Finding], known: Sequence[Finding]) -> None:
        """Print the findings that are ``new``, and store all that are ``known``."""
        for found in new:
            for line in finding_lines(found):
                say(line)
        if new:
            self._store(known)

    def finish(
        self, known: Sequence[Finding], judged_steps: int, ranks: int, absent: Sequence[int]
    ) -> None:
        """The job has ended. ``absent``: the ranks that have never reported."""
        say(summary_line(known, judged_steps, ranks, absent))
        self._store(known)

    def _store(self, findings: Sequence[Finding]) -> None:
        if self._path is None:
            return
        try:
            write_whole(self._path, json.dumps(as_document(findings), indent=2) + "\n")
        except OSError as error:
            if not self._is_failed:
                self._is_failed = True
                text = f"sonde: cannot write {self._path}: {error.strerror}"
                say(ProblemLine(text, slug="ranks-json"))
