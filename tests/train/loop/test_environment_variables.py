"""A training with ``sonde.train`` is observed as the environment says, without ``sonde enable``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
from tests.warm_python.starting import warm_python

pytestmark = pytest.mark.slow

SRC = Path(__file__).parents[3] / "src"

MODEL = """
    import torch
    from sonde.train import LossMonitor, Model

    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    model = Model(net, torch.nn.MSELoss(), optimizer)
    data = [(torch.ones(2, 4), torch.zeros(2, 1))] * 2
    model.train(1, data, LossMonitor())
    model.train(1, data, LossMonitor())
    """
IMPORTING = """
    import sonde, torch
    print(sonde.__version__)
    """


def _python(folder: Path, program: str, **environ: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(dedent(program))
    return subprocess.run(
        [warm_python(), "program.py"],
        cwd=folder,
        env={"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin", "HOME": str(folder), **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )


def _config(folder: Path) -> str:
    common = {
        "dump_mode": 0,
        "path": str(folder / "out"),
        "net_name": "Net",
        "iteration": "all",
        "saved_data": "statistic",
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
    }
    content = {"common_dump_settings": common, "e2e_dump_settings": {"enable": True}}
    (folder / "dump.json").write_text(json.dumps(content))
    return "dump.json"


@pytest.mark.document(43)
def test_two_trainings_of_one_program_are_one_dump(tmp_path: Path) -> None:
    plain = _python(tmp_path, MODEL)
    done = _python(tmp_path, MODEL, MINDSPORE_DUMP_CONFIG=_config(tmp_path))
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    assert done.stderr.count("dumping as configured in dump.json") == 1
    assert "[dump-moved]" not in done.stderr
    steps = {int(path.parent.name) for path in (tmp_path / "out").rglob("statistic.csv")}
    assert steps == {0, 1, 2, 3}


def test_a_bad_file_ends_the_program_with_exit_code_2(tmp_path: Path) -> None:
    done = _python(tmp_path, MODEL, MINDSPORE_DUMP_CONFIG="no.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("sonde: no.json: cannot be read: ")


def test_a_program_that_imports_sonde_is_told_why_a_variable_has_no_effect(tmp_path: Path) -> None:
    done = _python(tmp_path, IMPORTING, MINDSPORE_DUMP_CONFIG="no.json", SONDE_GUARD="1")
    assert done.returncode == 0
    assert done.stderr == (
        "sonde: MINDSPORE_DUMP_CONFIG, SONDE_GUARD are set but had no effect: run 'sonde enable' "
        "once in this Python environment, or start the program with 'sonde run' [variable-unused]\n"
    )
    for harmless in ({}, {"ENABLE_MS_DEBUGGER": "0"}, {"MINDSPORE_DUMP_CONFIG": ""}):
        assert _python(tmp_path, IMPORTING, **harmless).stderr == ""


def test_a_capture_of_the_program_itself_comes_first(tmp_path: Path) -> None:
    name = _config(tmp_path)
    program = dedent(MODEL) + "\n"
    before, _, training = program.partition("model.train")
    own = f"{before}import sonde\nwith sonde.capture({name!r}):\n    model.train{training}"
    own = own.replace("\nmodel.train", "\n    model.train")
    done = _python(tmp_path, own, MINDSPORE_DUMP_CONFIG="no.json")
    assert done.returncode == 0, done.stderr
    unused, end = done.stderr.splitlines()
    assert unused == (
        "sonde: MINDSPORE_DUMP_CONFIG has no effect: the program runs a capture of its own "
        "[variable-unused]"
    )
    assert end.startswith("sonde: dumped steps 0-3: ")
