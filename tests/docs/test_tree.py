"""The tree follows CONTRIBUTING.md: meaningful names, and tests beside their subject."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "sonde"
TESTS = ROOT / "tests"
TELLS_NOTHING = {"utils", "util", "helpers", "common", "misc", "base", "manager"}
# Tests of several packages, of what is no package, and what tests use.
NO_PACKAGE = {"attacks", "docs", "documents", "e2e", "fuzz", "golden", "native", "programs", "web"}
NO_PACKAGE.add("warm_python")
MOST_MODULES = 20


def modules(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.py") if path.name != "__init__.py"]


def test_no_module_has_a_meaningless_name() -> None:
    found = [path for path in (*modules(SOURCES), *modules(TESTS)) if path.stem in TELLS_NOTHING]
    assert found == []


def test_no_folder_is_a_heap_of_modules() -> None:
    sizes = Counter(path.parent for path in modules(SOURCES))
    del sizes[SOURCES / "cli"]  # One file per command.
    assert {str(folder): size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def test_tests_are_in_the_folder_of_what_they_test() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    misplaced = [
        str(folder)
        for folder in sorted(folders)
        if folder.parts and folder.parts[0] not in NO_PACKAGE and not _exists(SOURCES / folder)
    ]
    assert misplaced == []


def test_modules_that_tests_import_from_each_other_exist() -> None:
    found = {
        name
        for path in (*modules(TESTS), *modules(ROOT / "benchmarks"))
        for name in re.findall(r"(?m)^\s*from (tests(?:\.\w+)+) import", path.read_text())
    }
    missing = {name for name in found if not _exists(ROOT.joinpath(*name.split(".")))}
    assert missing == set()


def _exists(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").is_file()
