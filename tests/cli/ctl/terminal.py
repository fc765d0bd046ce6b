"""Types commands of ``sonde ctl``."""

from __future__ import annotations

import pytest

from sonde.cli.main import main


def ctl(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code and the output of a command."""
    code = main(["ctl", *words])
    said = capsys.readouterr()
    return code, said.out + said.err
