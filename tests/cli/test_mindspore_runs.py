"""Scripts that train with MindSpore: run, compared, checked.

Tests with the mark ``mindspore`` train with the real one, which ``make mindspore`` installs. The
others run scripts in an environment whose ``mindspore`` only replays a dump that the real one
wrote, or does nothing.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from tests.dump.sample_dumps import DATA

from sonde.cli.main import main
from sonde.dump.reader import Dump

SCRIPTS = Path(__file__).parent / "mindspore"
REAL = os.environ.get("SONDE_MINDSPORE", "")
real = pytest.mark.skipif(not REAL, reason="make mindspore runs it, with a real MindSpore")

LOG = "Default/network-WithLossCell/_backbone-GateNet/Log-op0"
TOLD = LOG.removeprefix("Default/")
REPLAY = f"""
import json, os, shutil
file = os.environ.get("MINDSPORE_DUMP_CONFIG")
if file:
    settings = json.load(open(file))
    common = settings["common_dump_settings"]
    assert settings["e2e_dump_settings"]["enable"] is True
    assert (common["op_debug_mode"], common["saved_data"]) == (0, "tensor")
    shutil.copytree({str(DATA / "nan_log" / "dump")!r}, common["path"], dirs_exist_ok=True)
"""


def environment(place: Path, module: str | None) -> Path:
    """A directory with a ``bin/python`` that finds a module ``mindspore`` with this text."""
    (place / "bin").mkdir(parents=True)
    packages = place / "packages"
    packages.mkdir()
    if module is not None:
        (packages / "mindspore.py").write_text(module)
    python = place / "bin" / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return place


def run(*words: str | Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = main([str(word) for word in words])
    except SystemExit as end:
        code = int(end.code or 0) if not isinstance(end.code, str) else 1
    out, err = capfd.readouterr()
    return code, out, err


@pytest.fixture(autouse=True)
def interpreter_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore what the command replaces when it runs a program or ends with its exit code."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for name in ("argv", "path", "excepthook"):
        value = getattr(sys, name)
        monkeypatch.setattr(sys, name, list(value) if isinstance(value, list) else value)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train_ms.py"
    path.write_text(
        "import sys\nimport mindspore\nprint('trained', sys.argv[1:])\nsys.exit(int(sys.argv[1]))\n"
    )
    return path


def test_a_script_of_mindspore_runs_in_its_environment_and_nan_is_traced(
    tmp_path: Path, script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env = environment(tmp_path / "env", REPLAY)
    out = tmp_path / "out"
    code, text, err = run("run", "--python", env, "--dump-to", out, script, "0", capfd=capfd)
    assert code == 0
    assert text == "trained ['0']\n"
    assert f"to {out}; view them: sonde view {out}" in err
    assert (
        "sonde: Log made 1 NaN of 4 values in step 2, forward, at make.py:24 "
        f"`gate = ops.log(x[:, 0:1] + 1.0)` ({TOLD}): 1 of its 4 inputs is negative "
    ) in err
    assert Dump(out).steps() == (2,)


def test_an_earlier_dump_is_moved_aside(
    tmp_path: Path, script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env = environment(tmp_path / "env", REPLAY)
    for _ in range(2):
        _, _, err = run(
            "run", "--python", env, "--dump-to", tmp_path / "out", script, "0", capfd=capfd
        )
    assert "an earlier dump was moved to" in err
    assert Dump(tmp_path / "out").steps() == (2,)


def test_the_exit_code_is_that_of_the_script(
    tmp_path: Path, script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env = environment(tmp_path / "env", "")
    python = env / "bin" / "python"
    code, _, err = run(
        "run", "--python", python, "--dump-to", tmp_path / "o", script, "7", capfd=capfd
    )
    assert code == 7
    assert "MindSpore dumped nothing. It dumps in graph mode only" in err
    assert err.rstrip().endswith("[mindspore-nothing]")
    code, text, err = run("run", "--python", env, script, "0", capfd=capfd)
    assert (code, text) == (0, "trained ['0']\n")
    assert "nothing is dumped" in err


def test_mistakes_are_one_line_and_2(
    tmp_path: Path, script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    without = environment(tmp_path / "without", None)
    not_python = tmp_path / "not_python"
    not_python.write_text("#!/bin/sh\necho no\n")
    not_python.chmod(0o755)
    env = environment(tmp_path / "env", "")
    cases: list[tuple[list[str | Path], str]] = [
        (
            ["run", script, "0"],
            "train_ms.py trains with MindSpore, which is not in this environment",
        ),
        (["run", "--python", tmp_path, script], "is no Python environment: there is no bin/python"),
        (["run", "--python", "no-such-python", script], "is neither an environment nor a python"),
        (["run", "--python", not_python, script], "is not Python [python]"),
        (["run", "--python", without, script], "there is no MindSpore in it; install it: "),
        (["run", "--python", env, "--stats", script], "--stats cannot be used for MindSpore"),
        (["run", "--python", env, "--seed", "1", script], "--seed cannot be used for MindSpore"),
        (["run", "--python", env, tmp_path / "none.py"], "it does not exist [program-not-found]"),
        (["compare", "--run", script, "--run", script], "trains with MindSpore, which is not in"),
        (["compare", "--python", env, DATA, DATA], "--python needs --run"),
        (["loss", "--python", env, script, script], "is a script; to run it: sonde loss --run"),
        (["loss", script], "loss needs two sides, files or --run 'SCRIPT ARGS' (got 1)"),
    ]
    for words, expected in cases:
        code, _, err = run(*words, capfd=capfd)
        assert (code, len(err.splitlines())) == (2, 1), (words, err)
        assert expected in err


def test_mindspore_in_a_module_beside_the_script_is_noticed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "network.py").write_text("from mindspore.nn import Dense\n")
    script = tmp_path / "main.py"
    script.write_text("from network import Dense\n")
    code, _, err = run("run", script, capfd=capfd)
    assert code == 2
    assert "main.py trains with MindSpore" in err
    script.write_text("import torch\nfrom network import Dense\n")
    with pytest.raises(ModuleNotFoundError):  # Its own traceback, and then the hint.
        main(["run", str(script)])
    assert "main.py trains with MindSpore" in capfd.readouterr().err
    script.write_text("try:\n    import mindspore\nexcept ImportError:\n    print('without')\n")
    assert run("run", script, capfd=capfd)[:2] == (0, "without\n")


def test_a_run_of_mindspore_is_compared_with_a_dump(
    tmp_path: Path, script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env = environment(tmp_path / "env", REPLAY)
    code, text, _ = run(
        *("compare", "--python", env, "--run", f"{script} 0", DATA / "nan_log", "--steps", "2"),
        capfd=capfd,
    )
    assert code == 0
    assert text.startswith("aligned")
    code, text, _ = run(
        *("loss", "--python", env, "--run", f"{script} 0", DATA / "nan_log", "--steps", "2"),
        capfd=capfd,
    )
    assert code == 0, text


@real
@pytest.mark.mindspore
class TestRealMindSpore:
    def test_the_origin_of_nan_is_named(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "out"
        script = SCRIPTS / "nan_in_log.py"
        code, text, err = run(
            "run", "--python", REAL, "--overflow", "--dump-to", out, script, capfd=capfd
        )
        assert code == 1  # LossMonitor raises.
        assert "loss is NAN or INF" in err + text
        made = r"Log made \d+ NaN of \d+ values in step 2, forward, at nan_in_log\.py:22 `.*` "
        assert re.search(rf"{made}\({TOLD}\)", err)
        assert Dump(out).steps() == (0, 1, 2)
        code, text, _ = run("view", "--check", out, capfd=capfd)
        assert code == 1
        assert f"{LOG} output.0  <- makes it" in text

    def test_a_port_is_compared_with_the_original_in_one_command(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        words = ["--python", REAL, "--run", str(SCRIPTS / "perceptron.py")]
        code, text, err = run("compare", *words, "--run", SCRIPTS / "twin.py", capfd=capfd)
        assert code == 0, text + err
        assert text.startswith("aligned")
        wrong = f"{SCRIPTS / 'twin.py'} gelu"
        code, text, _ = run("compare", *words, "--run", wrong, capfd=capfd)
        assert code == 1
        assert "act-ReLU/ReLU-op0" in text

    def test_the_losses_of_both_are_compared(self, capfd: pytest.CaptureFixture[str]) -> None:
        words = ["--python", REAL, "--run", str(SCRIPTS / "perceptron.py")]
        code, text, err = run("loss", *words, "--run", SCRIPTS / "twin.py", capfd=capfd)
        assert code == 0, text + err
        code, text, _ = run("loss", *words, "--run", f"{SCRIPTS / 'twin.py'} gelu", capfd=capfd)
        assert code == 1

    def test_a_dump_of_compiled_parts_alone_is_named(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        script = tmp_path / "pynative.py"
        text = (SCRIPTS / "perceptron.py").read_text()
        script.write_text(text.replace("GRAPH_MODE", "PYNATIVE_MODE"))
        code, _, err = run(
            "run", "--python", REAL, "--dump-to", tmp_path / "o", script, capfd=capfd
        )
        assert code == 0
        assert "In PyNative mode MindSpore dumps only what it compiles" in err
        assert "[mindspore-part]" in err

    def test_chosen_steps_and_ops_are_dumped(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "out"
        words = ("--dump-steps", "1|3", "--dump-ops", "MatMul", "--dump-to", out)
        code, _, err = run("run", "--python", REAL, *words, SCRIPTS / "perceptron.py", capfd=capfd)
        assert code == 0
        assert "no NaN or Inf that is a fault" in err
        dump = Dump(out)
        assert dump.steps() == (1, 3)
        assert {record.op_type for record in dump.tensors()} == {"MatMul"}
