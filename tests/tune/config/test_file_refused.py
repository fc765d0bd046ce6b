"""Wrong values in the YAML of a search, and their messages word by word."""

# ruff: noqa: E501 - the table has each message on one line, as it is said

from pathlib import Path

import pytest

from sonde.core.errors import ConfigError
from sonde.tune.config.file import load_config

GOOD = "command: python train.py\nparameters: {a: {choice: [1]}}\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("study: 3", "study is the number 3, not a text [tune-value]"),
        ("study: [a]", "study is a list, not a text [tune-value]"),
        ("study: {a: 1}", "study is keys and values, not a text [tune-value]"),
        ("study: ' '", "study is the text ' ', not a text [tune-value]"),
        ("study: true", "study is true or false, not a text [tune-value]"),
        ("parallel: 1.5", "parallel is the number 1.5, not a whole number [tune-value]"),
        ("parallel: true", "parallel is true or false, not a whole number [tune-value]"),
        ("parallel: 0", "parallel is 0; the least is 1 [tune-value]"),
        ("limits: {value: .nan}", "limits.value is the number nan, not a number [tune-value]"),
        ("limits: {value: high}", "limits.value is the text 'high', not a number [tune-value]"),
        ("limits: {time: 0}", "limits.time 0 is not a time such as 90, '10m' or '1h30m' [tune-value]"),
        ("limits: {time: [1]}", "limits.time [1] is not a time such as 90, '10m' or '1h30m' [tune-value]"),
        ("limits: 3", "limits is the number 3, not keys and values [tune-value]"),
        ("limits: trials:3", "limits is the text 'trials:3', not keys and values; write 'trials: 3' with a space [tune-value]"),
        ("limits: {zzz: 3}", "limits.zzz is not a key; there are trials, time, trial_time, patience, value [tune-key]"),
        ("limits: {trails: 3}", "limits.trails is not a key; did you mean 'trials'? [tune-key]"),
        ("diverged: {stop: 1}", "diverged.stop is the number 1, not true or false [tune-value]"),
        ("diverged: {stop: 'no'}", "diverged.stop is the text 'no', not true or false [tune-value]"),
        ("tuner: GPP", "tuner.name 'GPP' is not one of gp, tpe, random, grid, cma-es; did you mean 'gp'? [tune-value]"),
        ("tuner: {args: {seed: 1}}", "tuner.name is missing: gp, tpe, random, grid, cma-es [tune-key]"),
        ("tuner: {name: tpe, args: {method: ei}}", "tuner.args.method belongs to the tuner gp, not to tpe [tune-key]"),
        ("tuner: {name: gp, args: {seed: -1}}", "tuner.args.seed is -1; the least is 0 [tune-value]"),
        ("target: {name: loss, direction: up}", "target.direction is not a key; did you mean 'goal'? [tune-key]"),
        ("environment: {A: [1]}", "environment.A is not one text or number [tune-value]"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_reported_with_its_line_and_full_name(
    tmp_path: Path, text: str, line: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(GOOD + "\n" + text + "\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value) == f"{path}:4: {line}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{bounds: [1, 3], type: int, step: 0}", "parameters.b.step is 0; it must be greater than 0 [tune-value]"),
        ("{bounds: [1, 3], type: int, step: x}", "parameters.b.step is the text 'x', not a number [tune-value]"),
        ("{bounds: [1, 3], type: int, log: 1}", "parameters.b.log is the number 1, not true or false [tune-value]"),
        ("{bounds: [1, 3], type: whole}", "parameters.b.type 'whole' is not one of int, float [tune-value]"),
        ("{bounds: [1, 3], type: float, decimal: -1}", "parameters.b.decimal is -1; the least is 0 [tune-value]"),
        ("{choice: [1], step: 1}", "parameters.b.step is not a key of a choice: it goes with 'bounds' [tune-key]"),
        ("{choice: [[1]]}", "parameters.b.choice has a list; use numbers, texts, true, false [tune-value]"),
        ("", "parameters.b is empty; give it 'bounds' or 'choice' [tune-space]"),
        ("3", "parameters.b is the number 3, not keys and values [tune-value]\n{path}:4: parameters.b has neither 'bounds' nor 'choice'; it takes one of them [tune-space]"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_reported_with_its_line_and_full_name(
    tmp_path: Path, text: str, line: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"command: x\nparameters:\n  a: {{choice: [1]}}\n  b: {text}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value) == f"{path}:4: {line.replace('{path}', str(path))}"


def test_words_are_read_whatever_their_case_and_empty_values_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(GOOD + "tuner: ' TPE '\nstudy:\nlimits: {trials: , value: 2}\nparallel: ~\n")
    config = load_config(path)
    assert (config.tuner.name, config.study, config.parallel) == ("tpe", "config", 1)
    assert (config.limits.trials, config.limits.value) == (None, 2.0)
