"""The documents of ``sonde ctl``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.documents.printed import validated

from sonde.cli.main import main
from sonde.testing.fake_rank import FakeRank

WORDS: list[tuple[str, list[str]]] = [
    ("ctl status", []),
    ("ctl address", []),
    ("ctl watch add", ["tensor_overflow"]),
    ("ctl watch remove", ["1"]),
    ("ctl watch list", []),
    ("ctl watch save", ["{file}"]),
    ("ctl watch load", ["{file}"]),
    ("ctl watch recommended", []),
    ("ctl graph", []),
    ("ctl hits", []),
    ("ctl tensor", ["{op}", "--index", "[0, :2]"]),
    ("ctl step", []),
    ("ctl next", []),
    ("ctl to", ["{op}"]),
    ("ctl speed", []),
    ("ctl recheck", ["--timeout", "5"]),
    ("ctl continue", []),
    ("ctl pause", []),
    ("ctl terminate", []),
]
COVERED = {command for command, _ in WORDS}


def test_what_is_printed_has_the_form_of_the_schema(
    rank: FakeRank, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"file": str(tmp_path / "points.json"), "op": "log-op0"}
    for command, words in WORDS:
        code = main([*command.split(), "--json", *(each.format_map(given) for each in words)])
        out, err = capsys.readouterr()
        assert code in (0, 1), f"{command}: {err}"
        assert validated(command, out), command
