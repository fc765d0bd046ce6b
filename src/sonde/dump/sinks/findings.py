"""Writes ``findings.json``: what a diagnosis of the dumped training found."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sonde.core.files.atomic_file import write_whole
from sonde.core.files.directories import make_directory
from sonde.core.finding import Finding, with_lines
from sonde.core.interruption import ignored
from sonde.dump.layout import RankLayout


def write_findings(rank: RankLayout, findings: Sequence[Finding], steps: int) -> None:
    """Write what was found in ``steps`` steps, causes first."""
    document = {"steps": steps, "findings": [with_lines(each) for each in findings]}
    text = json.dumps(document, indent=2, allow_nan=False)
    with ignored(OSError):  # The disk is full: that is reported already.
        make_directory(rank.root)
        write_whole(rank.findings, text + "\n")
