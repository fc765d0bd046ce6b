"""Every program of ``docs/integrations.md`` runs, where its library is installed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.integrations.running import run

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
SNIPPETS = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text())
LIBRARY = re.compile(r"(?m)^(?:from|import) (transformers|lightning|accelerate|ignite)\b")
# The Trainer of transformers needs accelerate.
NEEDED = {"transformers": ("transformers", "accelerate")}
pytestmark = pytest.mark.slow


def test_the_page_has_a_program_for_each_framework() -> None:
    found = [match[1] for text in SNIPPETS if (match := LIBRARY.search(text))]
    assert found == ["transformers", "lightning", "lightning", "accelerate", "ignite"]


@pytest.mark.parametrize("text", SNIPPETS, ids=lambda text: text.split("from sonde.")[1].split()[0])
def test_a_program_of_the_page_runs(text: str, tmp_path: Path) -> None:
    library = LIBRARY.search(text)
    for needed in NEEDED.get(library[1], (library[1],)) if library else ("tabulate",):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    (tmp_path / "program.py").write_text(text)
    ended = run(tmp_path / "program.py", cwd=tmp_path)
    assert ended.code == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("4 steps [")
