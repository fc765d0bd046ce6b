"""The page about searches is complete, its examples load, and the examples run."""

import re
import subprocess
from pathlib import Path

import click
import pytest
import yaml
from tests.tune.searches import ENVIRONMENT, PYTHON, tuned

from sonde.cli.tune import tune
from sonde.tune.config.file import load_config
from sonde.tune.config.search_config import METHODS, PRUNERS, TUNERS
from sonde.tune.store.listing import read_study

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tune.md").read_text()
KEYS = (
    *("command", "summary_base_dir", "tuner", "target", "parameters", "pruner", "limits"),
    *("diverged", "environment", "parallel", "storage", "study", "trials", "time", "trial_time"),
    *("patience", "value", "stop", "explain", "seconds", "bounds", "choice", "decimal", "step"),
    *("log", "when", "source", "points", "argument", "environment", "name", "goal", "group"),
    *("from", "pattern", "keep", "method", "seed", "startup_trials", "warmup_steps"),
    *("interval_steps", "min_resource", "max_resource", "reduction_factor"),
)


def test_every_option_and_every_key_is_on_the_page() -> None:
    for option in tune.params:
        if isinstance(option, click.Option) and option.name != "help":
            assert f"`{option.opts[0]}" in PAGE, option.opts
    for key in (*KEYS, *TUNERS, *METHODS, *PRUNERS[1:]):
        assert re.search(rf"(?m)`{key}\b|[{{ ]{key}: |^{key}:", PAGE), key


def test_the_keys_on_the_page_are_all_that_are_read() -> None:
    sources = "".join(
        (ROOT / "src" / "sonde" / "tune" / "config" / name).read_text()
        for name in ("file.py", "parameters.py")
    )
    read = re.findall(
        r"\.(?:text|word|number|whole|flag|duration|section|node)\(\s*\"(\w+)\"", sources
    )
    assert set(read) - {"type", "args"} <= set(KEYS)


def test_the_yaml_on_the_page_loads(tmp_path: Path) -> None:
    blocks = re.findall(r"(?s)```yaml\n(.*?)```", PAGE)
    assert len(blocks) == 2
    for block in blocks:
        content = {"command": "python train.py", **yaml.safe_load(block)}
        path = tmp_path / "config.yaml"
        path.write_text(block if "command" in block else f"command: x\n{block}")
        assert load_config(path).space.names == tuple(content["parameters"])


def test_the_search_of_the_examples_runs(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = (ROOT / "examples" / "tune_config.yaml").read_text()
    text = text.replace("python examples", f"{PYTHON} examples").replace(
        "--epochs 15", "--epochs 1"
    )
    (tmp_path / "tune_config.yaml").write_text(text)
    done = tuned(tmp_path, "tune_config.yaml", "--iter", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = read_study(tmp_path / "tune_out").trials
    assert trial.state == "finished"
    assert "--optimizer" in trial.command
    assert ("--momentum" in trial.command) == (trial.parameters["optimizer"] == "sgd")


@pytest.mark.slow
def test_the_function_of_the_examples_runs() -> None:
    output = subprocess.check_output(
        [PYTHON, "examples/tune_function.py", "4"], cwd=ROOT, env=ENVIRONMENT, text=True
    )
    assert "diverged" in output
    assert "tune_function.py:21: height" in output
    assert output.splitlines()[-1].startswith("best 0.019")
