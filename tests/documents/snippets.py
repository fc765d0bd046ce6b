"""Runs a code example of a document as it stands there."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any


def run_snippet(code: str, directory: Path, **given: Any) -> dict[str, Any]:
    """Run ``code`` with the names that the document leaves to its reader; returns its variables.

    The code is in a file, so that the lines of its ops are found.
    """
    file = directory / "snippet.py"
    file.write_text(textwrap.dedent(code))
    names: dict[str, Any] = {"__name__": "snippet", "__file__": str(file), **given}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names
