"""The numbers of the native code are those of Python."""

from __future__ import annotations

import runpy
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "native"


def test_the_header_is_not_stale() -> None:
    generator = runpy.run_path(str(NATIVE / "generate_constants.py"))
    written = (NATIVE / "shared" / "constants.h").read_text("utf-8")
    assert written == generator["generate"](), "run: python native/generate_constants.py"
