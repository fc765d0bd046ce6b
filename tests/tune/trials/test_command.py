"""Values reach an unchanged script: by placeholder, option, variable or ``suggest``."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sonde.tune.config.file import load_config
from sonde.tune.errors import TuneError
from sonde.tune.trials.command import CommandTemplate

SPACE = """\
parameters:
  learning_rate: {bounds: [0.001, 0.1], type: float}
  batch_size: {choice: [32, 64]}
  epoch: {bounds: [1, 9], type: int}
"""
VALUES: dict[str, Any] = {"learning_rate": 0.02, "batch_size": 64, "epoch": 3}


def template(command: str, space: str = SPACE) -> CommandTemplate:
    Path("c.yaml").write_text(f"command: {json.dumps(command)}\n{space}")
    return CommandTemplate(load_config("c.yaml"))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_names_in_braces_are_replaced() -> None:
    made = template("python t.py {learning_rate} --bs={batch_size} -e {epoch} {other}")
    launch = made.render(VALUES, None)
    assert launch.words == ("python", "t.py", "0.02", "--bs=64", "-e", "3", "{other}")
    assert launch.text() == "python t.py 0.02 --bs=64 -e 3 '{other}'"


def test_a_name_in_braces_that_is_nearly_a_parameter_is_refused() -> None:
    with pytest.raises(TuneError, match=r"\{learnig_rate\}.*did you mean 'learning_rate'"):
        template("python t.py {learnig_rate}")


def test_options_of_the_command_get_new_values() -> None:
    made = template("python t.py --lr 0.5 --batch-size=8 epochs=9 --verbose")
    words = made.render(VALUES, None).words
    assert words == ("python", "t.py", "--lr", "0.02", "--batch-size=64", "epochs=3", "--verbose")
    assert [one.way for one in made.deliveries] == ["replaced"] * 3


def test_options_the_script_declares_are_added_and_variables_it_reads_are_set() -> None:
    Path("options.py").write_text(
        "import argparse\n"
        "def parse():\n"
        "    p = argparse.ArgumentParser()\n"
        "    p.add_argument('-l', '--learning-rate', type=float)\n"
        "    return p.parse_args()\n"
    )
    Path("train.py").write_text(
        "import os\nfrom options import parse\na = parse()\n"
        "print(a.learning_rate, os.environ['BATCH_SIZE'], os.getenv('NUM_EPOCHS', '1'))\n"
    )
    made = template("python train.py")
    assert [(one.way, one.name) for one in made.deliveries] == [
        ("appended", "--learning-rate"),
        ("environment", "BATCH_SIZE"),
        ("environment", "NUM_EPOCHS"),
    ]
    assert made.unused == ()
    text = made.render(VALUES, None).text()
    assert text == "BATCH_SIZE=64 NUM_EPOCHS=3 python train.py --learning-rate 0.02"
    typed = text.replace("python", shlex.quote(sys.executable))
    assert subprocess.check_output(typed, shell=True, text=True) == "0.02 64 3\n"


def test_assignments_before_the_command_are_variables() -> None:
    made = template("LR=1 EPOCHS={epoch} python t.py")
    launch = made.render(VALUES, None)
    assert launch.words == ("python", "t.py")
    assert (launch.environment["LR"], launch.environment["EPOCHS"]) == ("0.02", "3")


def test_a_parameter_that_the_script_does_not_read_is_named() -> None:
    Path("train.py").write_text("print('loss: 1')\n")
    assert template("python train.py").unused == ("learning_rate", "batch_size", "epoch")
    Path("train.py").write_text("from sonde.tune import HyperConfig\nprint(HyperConfig().params)\n")
    assert template("python train.py").unused == ()
    assert template("./compiled").unused == ()  # nothing is known of it


def test_a_shell_script_gets_the_variables_it_names() -> None:
    Path("run.sh").write_text("python train.py $LR ${BATCH_SIZE}\n")
    Path("train.py").write_text("import os; os.environ['EPOCHS']\n")
    made = template("sh run.sh")
    assert [(one.way, one.name) for one in made.deliveries] == [
        ("environment", "LR"),
        ("environment", "BATCH_SIZE"),
        ("environment", "EPOCHS"),
    ]


def test_a_parameter_that_does_not_exist_in_a_trial_leaves_no_trace() -> None:
    space = """\
parameters:
  optimizer: {choice: [sgd, adam]}
  momentum: {bounds: [0.5, 0.9], type: float, when: {optimizer: sgd}}
  nesterov: {choice: [true, false], argument: --nesterov, when: {optimizer: sgd}}
"""
    made = template("python t.py --opt {optimizer} --momentum {momentum} --x {summary_dir}", space)
    words = made.render({"optimizer": "adam"}, Path("/d")).words
    assert words == ("python", "t.py", "--opt", "adam", "--x", "/d")
    words = made.render({"optimizer": "sgd", "momentum": 0.5, "nesterov": True}, None).words
    assert words[-1] == "--nesterov"
    words = made.render({"optimizer": "sgd", "momentum": 0.5, "nesterov": False}, None).words
    assert "--nesterov" not in words
    replaced = template("python t.py --momentum 0.1 --opt {optimizer}", space)
    assert replaced.render({"optimizer": "adam"}, None).words[2] == "--opt"


def test_numbers_on_a_grid_are_written_without_noise() -> None:
    space = "parameters: {a: {bounds: [0.1, 1], type: float, decimal: 1}}\n"
    assert template("x {a}", space).render({"a": 0.1 + 0.2}, None).words == ("x", "0.3")


def test_a_script_that_asks_gets_its_values_in_a_variable() -> None:
    Path("train.py").write_text("import sonde.tune as t\nprint(t.suggest('learning_rate', 1))\n")
    launch = template("python train.py").render(VALUES, None)
    assert json.loads(launch.shown["SONDE_TUNE_VALUES"]) == VALUES
    typed = launch.text().replace("python", shlex.quote(sys.executable))
    assert subprocess.check_output(typed, shell=True, text=True) == "0.02\n"
