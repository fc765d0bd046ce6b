"""The functions that a training script calls: suggest, report, HyperConfig."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import sonde.tune
from sonde.core.errors import ConfigError
from sonde.tune.config.search_config import SearchTarget
from sonde.tune.errors import TuneError
from sonde.tune.script_side.current import ANSWERS_FILE, append_line
from sonde.tune.trials.trial_output import Reports


def in_trial(monkeypatch: pytest.MonkeyPatch, directory: Path, **values: object) -> None:
    monkeypatch.setenv("SONDE_TUNE_TRIAL", str(directory))
    monkeypatch.setenv("SONDE_TUNE_VALUES", json.dumps(values))


def test_outside_a_search_the_default_is_used_and_reports_have_no_effect() -> None:
    assert sonde.tune.suggest("learning_rate", 0.1) == 0.1
    assert sonde.tune.suggest("width", None) is None
    assert sonde.tune.summary_dir("here") == "here"
    sonde.tune.report(loss=1.0)
    with pytest.raises(TuneError, match=r"this is not a trial.*\[tune-suggest\]"):
        sonde.tune.suggest("learning_rate")


def test_in_a_trial_the_trials_value_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_trial(monkeypatch, tmp_path, learning_rate=0.02, optimizer="sgd")
    assert sonde.tune.suggest("learning_rate", 0.1) == 0.02
    assert sonde.tune.suggest("optimizer") == "sgd"
    assert sonde.tune.summary_dir("here") == str(tmp_path)
    assert sonde.tune.suggest("momentum", 0.9) == 0.9  # not in this trial
    with pytest.raises(TuneError, match="it has learning_rate, optimizer"):
        sonde.tune.suggest("momentum")


def test_reports_reach_the_search_with_steps_and_non_finite_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_trial(monkeypatch, tmp_path)
    reports = Reports(tmp_path, SearchTarget(name="loss"))
    sonde.tune.report(0.5)
    sonde.tune.report(loss=0.25, accuracy=0.9, step=7)
    found = reports.look(to_end=False)
    assert [(one.name, one.value, one.step, one.is_target) for one in found] == [
        ("loss", 0.5, 1, True),
        ("loss", 0.25, 7, True),
        ("accuracy", 0.9, 7, False),
    ]
    sonde.tune.report(float("nan"))
    sonde.tune.report(loss=float("-inf"))
    nan, infinite = reports.look(to_end=False)
    assert nan.value != nan.value
    assert infinite.value == float("-inf")


def test_only_the_first_rank_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_trial(monkeypatch, tmp_path)
    monkeypatch.setenv("RANK", "1")
    sonde.tune.report(1.0)
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(TuneError, match="loss is a str, not a number"):
        sonde.tune.report(loss="low")
    with pytest.raises(TuneError, match="needs a value"):
        sonde.tune.report()


def test_a_script_may_suggest_a_parameter_that_the_configuration_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_trial(monkeypatch, tmp_path)
    reports = Reports(tmp_path, SearchTarget())

    def answer() -> None:
        while not reports.questions:
            reports.look(to_end=False)
        append_line(tmp_path / ANSWERS_FILE, {"name": "width", "value": 64})

    search = threading.Thread(target=answer)
    search.start()
    assert sonde.tune.suggest("width", 8, choice=[32, 64]) == 64
    search.join()
    assert reports.questions == [{"name": "width", "space": {"choice": [32, 64]}}]
    with pytest.raises(ConfigError, match=r"suggest\('width'\): space.width has neither"):
        sonde.tune.suggest("width", 8, log=True)


@pytest.mark.document(
    95,
    says="HyperConfig().params, HyperConfig().summary_dir",
    how="`from sonde.tune import HyperConfig`",
)
def test_scripts_written_for_mind_optimizer_find_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {"params": {"lr": 0.1}, "summary_dir": str(tmp_path), "custom_lineage_data": {"m": 1}}
    monkeypatch.setenv("MINDINSIGHT_HYPER_CONFIG", json.dumps(content))
    config = sonde.tune.HyperConfig()
    assert config.params.lr == config.params["lr"] == 0.1
    assert config.summary_dir == str(tmp_path)
    assert config.custom_lineage_data == {"m": 1}
    with pytest.raises(AttributeError, match="the trial has no 'rate'; it has: lr"):
        _ = config.params.rate


def test_mind_optimizers_scripts_run_again_with_the_values_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(TuneError, match="is for a script that 'sonde tune' runs"):
        sonde.tune.HyperConfig()
    monkeypatch.setenv("SONDE_TUNE_VALUES", '{"lr": 0.5}')
    assert sonde.tune.HyperConfig().params.lr == 0.5
    monkeypatch.setenv("SONDE_TUNE_VALUES", "{")
    with pytest.raises(TuneError, match="is not JSON"):
        sonde.tune.HyperConfig()


def test_importing_it_imports_neither_optuna_nor_torch_nor_yaml() -> None:
    code = (
        "import sys, sonde.tune; sonde.tune.suggest('a', 1); sonde.tune.report(1.0);"
        "print([n for n in ('optuna', 'torch', 'yaml', 'numpy') if n in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
