"""``docs/security.md`` names the test of each defence, and no test is missing from it."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "security.md"


def test_every_attack_is_in_the_threat_model_and_every_defence_has_its_test() -> None:
    text = PAGE.read_text("utf-8")
    table = text.partition("## Attackers and defences")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    named: set[str] = set()
    for row in rows:
        tests = re.findall(r"`(test_[\w*]+\.py)`", row.rsplit("|", 2)[1])
        assert tests, f"no test: {row}"
        named |= set(tests)
    for each in named - {"test_files*.py"}:
        assert (HERE / each).is_file(), each
    files = {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
    assert {name for name in files if not name.startswith("test_files")} <= named
