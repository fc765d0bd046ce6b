"""``sonde diagnose --against DUMP``: compares the program's first steps with those of a dump."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from sonde.capture.options import config_from_options
from sonde.cli.script import needing_torch
from sonde.compare.runs.compare import compare
from sonde.compare.runs.settings import differing_settings
from sonde.core.errors import SondeError, UsageError
from sonde.core.finding import Finding
from sonde.core.text.problem_line import ProblemLine
from sonde.dump.reader import Dump
from sonde.logs import say

MOST_STEPS = 2
"""Steps of the program that are dumped to be compared: settings show in the first."""


@dataclass(slots=True)
class ReferenceRun:
    """A dump to compare a program with. The program's own dump is temporary."""

    reference: Dump
    _place: Path | None = field(default=None, init=False)

    def start(self) -> AbstractContextManager[object]:
        """The context in which the program's first steps are dumped."""
        with needing_torch("PyTorch is not installed, so there is nothing to compare"):
            from sonde.adapters.torch.attach import attach
        steps = "|".join(str(step) for step in self.reference.steps()[:MOST_STEPS])
        self._place = Path(tempfile.mkdtemp(prefix="sonde-against-"))
        config = config_from_options(self._place / "dump", os.environ, steps=steps)
        undo = ExitStack()
        undo.enter_context(attach(config, starts_at_once=False))
        return undo

    def findings(self) -> list[Finding]:
        """What differs from the reference; a comparison that cannot be made is one line."""
        if self._place is None:
            return []
        try:
            own = Dump(self._place / "dump")
            return differing_settings(own, self.reference, compare(own, self.reference))
        except SondeError as error:
            say(ProblemLine.about(error, "the training is not compared with the reference: "))
            return []

    def discard(self) -> None:
        """Delete the program's own dump."""
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)


def reference_run(directory: str) -> ReferenceRun:
    """The run for ``--against DIRECTORY``; SondeError if that is no dump with steps."""
    reference = Dump(directory)
    if not reference.steps():
        why = reference.why_no_values() or "it has no steps"
        raise UsageError(f"--against: {directory} cannot be compared with: {why}", slug="usage")
    return ReferenceRun(reference)
