"""The commands of the tutorials print what the pages say.

``python -m tests.docs.console docs/tutorials/*.md`` writes into the pages what they print.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.console import ROOT, commands, prepared, run, without_errors

PAGES = sorted(
    path for path in (ROOT / "docs" / "tutorials").glob("*.md") if commands(path.read_text())
)


def test_each_tutorial_has_commands() -> None:
    assert [page.stem for page in PAGES] == [
        "compiled-model-disagrees",
        "loss-is-nan",
        "port-trains-worse",
        "ranks-drift-apart",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_tutorial_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    for command in commands(page.read_text()):
        shown = without_errors(run(command.text, folder))
        assert shown == without_errors(command.output), command.text
