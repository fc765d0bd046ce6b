"""Definitions of a script are executed, its statements are not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sonde.replay.errors import ReplayError
from sonde.replay.script_definitions import as_main, script_definitions

SCRIPT = """\
from __future__ import annotations
import math
from helper_beside import twice
try:
    import surely_not_installed_anywhere
except ImportError:
    surely_not_installed_anywhere = None

WIDTH, DEPTH = 4, 2
SIZES = [WIDTH * 2, -1, "a"]
LIMIT: float = math.pi
opened = open("trace.txt", "w")
print("statement")

class Net:
    width = WIDTH
    def area(self):
        return twice(self.width) * LIMIT

class Configured:
    size = opened.name

def late(value=opened):
    return value

if __name__ == "__main__":
    class Inner(Net):
        width = 1
    raise SystemExit("trained")
raise SystemExit("trained")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "helper_beside.py").write_text("def twice(x):\n    return 2 * x\n")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_classes_imports_and_constants_are_there(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(script.parent)
    found = script_definitions(script)
    module = found.module
    assert module.Net().area() == 8 * module.math.pi
    assert module.Inner().width == 1
    assert module.SIZES == [8, -1, "a"]
    assert module.surely_not_installed_anywhere is None
    assert module.Net.__module__ == "__main__"
    assert capsys.readouterr().out == ""
    assert not (script.parent / "trace.txt").exists()
    sys.modules.pop("helper_beside", None)


def test_a_definition_that_needs_a_statement_is_skipped_with_the_reason(script: Path) -> None:
    found = script_definitions(script)
    assert not hasattr(found.module, "Configured")
    assert found.skipped == {
        "Configured": "line 20: NameError: name 'opened' is not defined",
        "late": "line 23: NameError: name 'opened' is not defined",
    }
    sys.modules.pop("helper_beside", None)


def test_main_is_what_it_was_afterwards(script: Path) -> None:
    main, path = sys.modules["__main__"], list(sys.path)
    found = script_definitions(script)
    with as_main(found):
        assert sys.modules["__main__"] is found.module
    assert sys.modules["__main__"] is main
    assert sys.path == path
    sys.modules.pop("helper_beside", None)


@pytest.mark.parametrize("content", [None, "class Net(:\n", "x = '\0'\n"])
def test_a_script_that_cannot_be_read_is_one_error(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "train.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ReplayError) as error:
        script_definitions(path)
    assert error.value.slug == "script-missing"
    assert str(path) in error.value.message
