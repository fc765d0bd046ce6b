"""``sonde`` itself: help, versions, mistakes, and what it costs to start."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.cli.main import COMMANDS, main

SRC = Path(__file__).parents[2] / "src"


def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, said in (
        (["rnu"], "'rnu' is not a command; did you mean 'run'? [usage]"),
        (["zzz"], f"'zzz' is not a command; the commands are {', '.join(COMMANDS)} [usage]"),
        (["run", "--dump"], "option '--dump' requires an argument; try 'sonde run --help' [usage]"),
        (
            ["ctl", "watch", "add"],
            "missing argument 'CONDITION'; try 'sonde ctl watch add --help' [usage]",
        ),
        (
            ["run", "--dump", "no.json", "t.py"],
            "no.json: cannot be read: No such file or directory [config-file]",
        ),
        (
            ["run"],
            "no program given: sonde run [OPTIONS] SCRIPT [ARGS]..., or -m MODULE [usage]",
        ),
    ):
        assert main(words) == 2
        captured = capsys.readouterr()
        assert captured.err == f"sonde: {said}\n"
        assert captured.out == ""


def test_an_unknown_option_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--stat", "train.py"]) == 2
    assert re.match(r"sonde: no such option.*--stats.*\[usage\]\n$", capsys.readouterr().err)


def test_every_problem_of_a_config_has_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "dump.json"
    path.write_text('{"common_dump_settings": {"iteration": "5-", "dump_mode": 9, "x": 1}}')
    assert main(["run", "--dump", str(path), "train.py"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 8
    assert all(line.startswith(f"sonde: {path}: ") for line in lines)


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS)])
def test_every_command_has_help_with_an_example(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: {' '.join(['sonde', *words])} ")
    assert re.search(r"(?m)^ +sonde [\w-]+ .*\S", text), "an example"
    assert main([*words, "-h"]) == 0
    assert capsys.readouterr().out == text


def test_sonde_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("Usage: sonde ")


def test_the_version_names_what_matters_for_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    pattern = r"sonde \d+\.\d+\.\d+ \(python 3\.\d+\.\d+, torch \S+\)\n"
    assert re.fullmatch(pattern, capsys.readouterr().out)


def python(*words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{before}{os.pathsep}{SRC}", "PATH": ""},
    )


def test_python_m_sonde_is_sonde() -> None:
    done = python("-m", "sonde", "run")
    assert done.returncode == 2
    assert done.stderr.startswith("sonde: no program given")


def test_ctrl_c_while_sonde_is_imported_ends_it_without_a_message(tmp_path: Path) -> None:
    impatient = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "click.py").write_text(impatient, "utf-8")
    done = python("-m", "sonde", "run", before=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_installed_command_imports_little_before_it_handles_ctrl_c() -> None:
    project = (SRC.parent / "pyproject.toml").read_text("utf-8")
    assert 'sonde = "sonde.__main__:main"' in project
    done = python("-c", "import sys, sonde.__main__; print(*sys.modules)")
    assert {"click", "typing", "logging"}.isdisjoint(done.stdout.split())


def test_starting_imports_no_framework_and_no_numpy() -> None:
    done = python("-c", "import sys, sonde.cli.main, sonde.cli.run; print(*sys.modules)")
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "click" in loaded
    assert loaded.isdisjoint({"torch", "numpy", "rich", "jax", "mindspore"})


def test_a_failure_of_sonde_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("sonde.cli.run.prepare", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["run", "train.py"])
