"""A client of ``sonde mcp`` reaches for what lies outside of the root."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

from sonde.core.errors import UsageError
from sonde.integrations.mcp.command import Workspace
from sonde.integrations.mcp.tools import Tools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    inside = tmp_path / "root"
    inside.mkdir()
    (tmp_path / "secret.py").write_text("print('sesame')\n")
    (inside / "train.py").write_text("import torch\n")
    (inside / "link.py").symlink_to(tmp_path / "secret.py")
    (inside / "above").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe.py")
    return inside


PATHS = (
    "../secret.py",
    "/etc/passwd",
    "link.py",
    "above/secret.py",
    "train.py/../../secret.py",
    "",
    "train.py\0",
    "\ud800.py",
    "x" * 256,
    "x/" * 3000,
)


@pytest.mark.parametrize("text", PATHS)
def test_no_path_leads_out_of_the_root(text: str, root: Path) -> None:
    tools = Tools(Workspace(root))
    for call in (tools.findings(text), tools.ranks(text), tools.replay(text)):
        assert error_of(call).slug == "mcp-path"
    if text:
        assert error_of(tools.run(script=text)).slug == "mcp-path"


def test_a_script_is_a_file(root: Path) -> None:
    tools = Tools(Workspace(root))
    for script in ("pipe.py", ".", "nothing.py"):
        assert error_of(tools.run(script=script)).slug == "program-not-found"
    assert error_of(tools.run(module="-c", arguments=["print(1)"])).slug == "usage"
    assert not (root / "sonde_runs").exists()


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
def test_words_that_no_process_can_get_are_refused(word: str, root: Path) -> None:
    tools = Tools(Workspace(root))
    assert error_of(tools.run(script="train.py", arguments=[word])).slug == "usage"
    assert error_of(tools.op(path=".", op=word)).slug == "usage"
    assert error_of(tools.control("to", word)).slug == "usage"


def test_runs_are_not_written_through_a_link(root: Path) -> None:
    (root / "sonde_runs").symlink_to(root.parent)
    before = sorted(os.listdir(root.parent))
    assert error_of(Tools(Workspace(root)).run(script="train.py")).slug == "mcp-path"
    assert sorted(os.listdir(root.parent)) == before


def test_a_long_name_of_a_module_makes_no_long_directory(root: Path) -> None:
    tools = Tools(Workspace(root))
    assert error_of(tools.run(module="x" * 5000, seconds=-1)).slug == "usage"


@pytest.mark.parametrize("statistic", ["l2norm') --", "loss; drop", "", "L2"])
def test_a_statistic_is_a_name(statistic: str, root: Path) -> None:
    tools = Tools(Workspace(root))
    assert error_of(tools.series(".", statistic, op="a' or 1=1 --")).slug == "usage"


def error_of(call: Any) -> UsageError:
    async def main() -> Any:
        return await call

    with pytest.raises(UsageError) as raised:
        anyio.run(main)
    return raised.value
