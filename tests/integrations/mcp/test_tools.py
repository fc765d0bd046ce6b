"""The tools of ``sonde mcp``: their form, their answers, their errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp import ClientSession
from tests.integrations.mcp.client import Call, talk

READ_ONLY = {"findings", "op", "tensor", "series", "compare", "ranks"}
TRAINING = """\
import os, sys, torch
torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=float(sys.argv[1]) if len(sys.argv) > 1 else 0.1)
os.write(1, b"not JSON\\n")
print(sys.stdin.read() == "", flush=True)
for step in range(6):
    optimizer.zero_grad()
    loss = net(torch.ones(4, 3)).square().mean()
    loss.backward()
    optimizer.step()
"""
ENDLESS = "import threading\nthreading.Event().wait()\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "endless.py").write_text(ENDLESS)
    return tmp_path


def test_there_are_at_most_twelve_tools_with_hints_and_schemas(root: Path) -> None:
    async def conversation(_: Call, session: ClientSession) -> None:
        tools = (await session.list_tools()).tools
        assert 0 < len(tools) <= 12
        assert {each.name for each in tools if each.annotations.read_only_hint} == READ_ONLY
        for each in tools:
            assert each.description
            assert each.output_schema["properties"].keys() == {
                "verdict",
                "facts",
                "truncated",
                "next",
            }
            for name, field in each.input_schema["properties"].items():
                assert field.get("description") or field.get("enum"), f"{each.name} {name}"

    talk(root, conversation)


@pytest.mark.slow
def test_dumps_are_shown_compared_and_repeated(root: Path) -> None:
    async def conversation(call: Call, _: ClientSession) -> None:
        first = await call("run", script="train.py", observe="tensors")
        second = await call("run", script="train.py", arguments=["0.2"], observe="tensors")
        a, b = first["facts"]["run"], second["facts"]["run"]
        assert a != b
        shown = await call("op", path=a, op="addmm", steps="1")
        assert shown["facts"]["ops"][0]["line"] == "train.py:9"
        assert shown["next"][0]["tool"] == "tensor"
        values = await call("tensor", **shown["next"][0]["arguments"])
        assert len(values["facts"]["values"]) == 4
        assert values["next"][0]["tool"] == "op"
        large = await call("tensor", path=a, op="addmm", step=1, io="input", slot=0)
        assert len(large["facts"]["values"]) <= 64
        compared = await call("compare", a=a, b=b)
        first_op = compared["facts"]["first_divergence"]
        assert first_op["step"] == 0
        sides = [each["arguments"] for each in compared["next"]]
        assert [(each["path"], each["op"]) for each in sides] == [
            (a, first_op["a"]),
            (b, first_op["b"]),
        ]
        assert (await call("op", **sides[1]))["facts"]["ops"]
        same = await call("compare", a=a, b=a)
        assert same["verdict"].startswith("aligned")
        repeated = await call("repeat", script="train.py", steps="0-1")
        assert repeated["verdict"].startswith("equal")
        assert (await call("ranks", path=a))["error"]["slug"] == "one-rank"
        assert "nothing was found" in (await call("findings", path=a))["verdict"]

    talk(root, conversation)


@pytest.mark.slow
def test_signals_and_statistics_are_series(root: Path) -> None:
    async def conversation(call: Call, _: ClientSession) -> None:
        guarded = await call("run", script="train.py")
        loss = await call("series", path=guarded["facts"]["run"])
        assert [step for step, _ in loss["facts"]["points"]] == list(range(6))
        wrong = await call("series", path=guarded["facts"]["run"], statistic="losses")
        assert "there are" in wrong["error"]["message"]
        stats = await call("run", script="train.py", observe="stats")
        norms = await call("series", path=stats["facts"]["run"], op="addmm-op0", statistic="l2norm")
        assert len(norms["facts"]["points"]) == 6
        part = await call("series", path=guarded["facts"]["run"], steps="2-4")
        assert [step for step, _ in part["facts"]["points"]] == [2, 3, 4]
        none = await call("series", path=guarded["facts"]["run"], steps="90")
        assert "in steps 90" in none["error"]["message"]
        assert (await call("series", path=".", steps="a"))["error"]["slug"] == "steps"

    talk(root, conversation)


WRONG: list[tuple[str, dict[str, object], str, str]] = [
    ("run", {"script": "nowhere.py"}, "program-not-found", "there is no file 'nowhere.py'"),
    ("run", {"script": "../train.py"}, "mcp-path", "--root"),
    ("run", {"script": "/etc/passwd"}, "mcp-path", "--root"),
    ("run", {}, "usage", "either a script or a module"),
    ("run", {"module": "-c"}, "usage", "not the name of a module"),
    ("run", {"script": "train.py", "observe": "all"}, "usage", "observe: input should be"),
    ("run", {"scipt": "train.py"}, "usage", "did you mean 'script'?"),
    ("run", {"script": "train.py", "steps": "1"}, "usage", "observe overflow"),
    ("run", {"script": "train.py", "seconds": -1}, "usage", "seconds must be above 0"),
    ("findings", {"path": "nowhere"}, "no-dump", "does not exist"),
    ("findings", {"path": ""}, "mcp-path", "is not a path"),
    ("op", {"path": "."}, "usage", "op: field required"),
    ("series", {"path": ".", "statistic": "x'; drop"}, "usage", "is not a statistic"),
    ("verify", {"step": "nowhere"}, "step-none", "nowhere"),
    ("control", {"action": "to"}, "usage", "needs an argument"),
]


def test_wrong_arguments_are_one_clear_error(root: Path) -> None:
    async def conversation(call: Call, _: ClientSession) -> None:
        for tool, arguments, slug, text in WRONG:
            error = (await call(tool, **arguments))["error"]
            assert text in error["message"], tool
            assert error["slug"] == slug, tool

    talk(root, conversation)


def test_a_time_limit_ends_the_program_and_all_that_it_started(root: Path) -> None:
    (root / "endless.py").write_text(
        f"import os\nopen({str(root / 'pid')!r}, 'w').write(str(os.getpid()))\n{ENDLESS}"
    )

    async def conversation(call: Call, _: ClientSession) -> None:
        found = await call("run", script="endless.py", seconds=15)
        late = found.get("verdict") or found["error"]["message"]
        assert "time limit" in late or "not finished after 15 s" in late
        pid = int((root / "pid").read_text())
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    talk(root, conversation)


def test_without_the_library_one_line_says_what_to_install(root: Path) -> None:
    hide = "import sys; sys.modules['mcp'] = None; from sonde.cli.main import main; "
    done = subprocess.run(
        [sys.executable, "-c", f"{hide}sys.exit(main(['mcp']))"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=root,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'sonde[mcp]'" in done.stderr
