"""The YAML of a search: MindOptimizer's keys, further keys, and all errors reported at once."""

import re
from pathlib import Path

import pytest
from tests.tune.searches import example

from sonde.core.errors import ConfigError
from sonde.tune.config.file import load_config
from sonde.tune.config.search_config import TuneConfig
from sonde.tune.config.space import ParameterCondition

DOCUMENT = example("/home/example", "/home/summaries")


def loaded(directory: Path, text: str) -> TuneConfig:
    path = directory / "config.yaml"
    path.write_text(text)
    return load_config(path)


def problems(directory: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(directory, text)
    return [str(one).replace(str(directory / "config.yaml"), "f") for one in caught.value.problems]


def test_the_configuration_of_the_document_is_understood(tmp_path: Path) -> None:
    config = loaded(tmp_path, DOCUMENT)
    assert config.command == ("sh", "/home/example/run_alexnet_ascend.sh")
    assert config.directory == Path("/home/summaries")
    assert (config.tuner.name, config.tuner.method) == ("gp", "ucb")
    assert (config.target.name, config.target.group) == ("Accuracy", "metric")
    assert config.target.goal == "maximize"
    rate, batch, momentum = config.space.parameters
    assert (rate.kind, rate.low, rate.high, rate.source) == ("float", 1e-5, 1e-3, "system_defined")
    assert (batch.choices, batch.source) == ((32, 64, 128, 256), "system_defined")
    assert (momentum.choices, momentum.source) == ((0.8, 0.9), "user_defined")


def test_every_key_beyond_the_document_is_understood(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """\
command: LR=1 python train.py --data "my data"
tuner: {name: tpe, args: {seed: 7, startup_trials: 3}}
pruner: {name: hyperband, args: {min_resource: 2, max_resource: 81, reduction_factor: 4}}
target: {name: accuracy, goal: maximize, pattern: 'acc=([0-9.]+)', keep: best}
limits: {trials: 40, time: 1h30m, trial_time: 90, patience: 10, value: 0.99}
diverged: {stop: true, explain: false, seconds: 30}
environment: {OMP_NUM_THREADS: 1}
parallel: 3
storage: sqlite:///x.db
study: mine
parameters:
  rate: {bounds: [1e-5, 1], type: float, log: true, argument: --rate}
  layers: {bounds: [2, 9], type: int, step: 2}
  optimizer: {choice: [sgd, adam]}
  momentum: {bounds: [0.5, 0.99], type: float, when: {optimizer: sgd}, environment: MOMENTUM}
""",
    )
    assert config.assignments == (("LR", "1"),)
    assert config.command == ("python", "train.py", "--data", "my data")
    assert (config.tuner.name, config.tuner.seed, config.tuner.startup_trials) == ("tpe", 7, 3)
    assert (config.pruner.min_resource, config.pruner.max_resource) == (2, 81)
    assert config.target.origin == "log"
    assert config.target.keep == "best"
    assert config.limits.time == 5400
    assert (config.limits.trial_time, config.limits.patience, config.limits.value) == (90, 10, 0.99)
    assert (config.divergence.explain, config.divergence.seconds) == (False, 30)
    assert config.environment == (("OMP_NUM_THREADS", "1"),)
    assert (config.parallel, config.storage, config.study) == (3, "sqlite:///x.db", "mine")
    assert config.space["rate"].low == 1e-5  # YAML 1.1 would make a text of 1e-5
    assert config.space["layers"].largest == 8
    assert config.space["momentum"].conditions == (ParameterCondition("optimizer", ("sgd",)),)


def test_every_mistake_is_reported_at_once_with_its_line(tmp_path: Path) -> None:
    said = problems(
        tmp_path,
        """\
comand: python train.py
tuner:
  name: bayes
  args: {metod: ei}
target: {name: Accuracy, goal: maximum, group: system_defined}
limits: {trials: 0, time: soon}
parameters:
  learning_rate: {bounds: [0.1, 0.001], type: float}
  batch_size: {choice: [32, 64.5]}
  width: {bounds: [1, 8]}
  depth: {bounds: [1, 8], choice: [1], type: int}
  dropout: {bounds: [0, 1], type: float, log: true}
  momentum: {choice: [0.9], when: {optimiser: sgd}}
  width: {choice: [1]}
""",
    )
    lines = [int(re.match(r"f:(\d+):", one)[1]) for one in said]  # type: ignore[index]
    assert lines == sorted(lines)
    expected = [
        (1, "comand is not a key; did you mean 'command'?", "tune-key"),
        (1, "command is missing", "tune-key"),
        (3, "tuner.name 'bayes' is not one of gp, tpe, random, grid, cma-es", "tune-value"),
        (4, "tuner.args.metod is not a key; did you mean 'method'?", "tune-key"),
        (5, "target.goal 'maximum' is not one of", "tune-value"),
        (5, "target.group is system_defined, which only 'loss' is", "tune-value"),
        (6, "limits.trials is 0; the least is 1", "tune-value"),
        (6, "limits.time 'soon' is not a time", "tune-value"),
        (8, "parameters.learning_rate.bounds [0.1, 0.001) is empty", "tune-value"),
        (9, "parameters.batch_size.choice has 64.5, but batch_size takes whole", "tune-value"),
        (10, "parameters.width.type is missing: 'int' or 'float'", "tune-space"),
        (11, "parameters.depth has both 'bounds' and 'choice'", "tune-space"),
        (12, "parameters.dropout.log needs bounds above 0, and 0 is not", "tune-space"),
        (13, "parameters.momentum exists when 'optimiser' has a value", "tune-space"),
        (14, "'width' occurs twice (first on line 10)", "tune-yaml"),
    ]
    assert len(said) == len(expected), "\n".join(said)
    for line, text, slug in expected:
        assert any(
            one.startswith(f"f:{line}: ") and text in one and one.endswith(f"[{slug}]")
            for one in said
        ), f"{line}: {text}\n" + "\n".join(said)


def test_the_documents_typing_error_is_explained(tmp_path: Path) -> None:
    text = DOCUMENT.replace(
        "    group: metric\n    name: Accuracy\n    goal: maximize", "    name:loss"
    )
    (said,) = problems(tmp_path, text)
    assert "write 'name: loss' with a space" in said
    assert said.startswith("f:5: ")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("command: [a\nx: {", 2, "is not YAML"),
        ("", None, "is empty"),
        ("- a\n- b", 1, "is a list, not keys and values"),
        ("a: &x {b: *x}", None, "an alias refers to a value that contains it"),
    ],
)
def test_a_file_that_is_not_yaml_is_reported(
    tmp_path: Path, text: str, line: int | None, words: str
) -> None:
    said = problems(tmp_path, text)
    assert any(words in one for one in said), said
    if line is not None:
        assert any(one.startswith(f"f:{line}: ") for one in said)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file or directory \[tune-file\]"):
        load_config(tmp_path / "none.yaml")


def test_yaml_that_grows_without_end_does_not(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40)
    )
    assert any("a0 is not a key" in one for one in problems(tmp_path, bomb))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python train.py && echo done", "is not run by a shell"),
        ("'python train.py", "no closing quotation"),
        ("LR=1", "has no program in it"),
    ],
)
def test_a_command_a_shell_would_be_needed_for_is_refused(
    tmp_path: Path, command: str, words: str
) -> None:
    text = f"command: {command!r}\nparameters: {{a: {{choice: [1]}}}}\n"
    assert any(words in one for one in problems(tmp_path, text))


def test_circular_conditions_are_refused(tmp_path: Path) -> None:
    text = """\
command: x
parameters:
  a: {choice: [1, 2], when: {b: 1}}
  b: {choice: [1, 2], when: {a: 1}}
"""
    (said,) = problems(tmp_path, text)
    assert "go in a circle" in said


def test_a_grid_without_an_end_is_refused(tmp_path: Path) -> None:
    text = "command: x\ntuner: grid\nparameters:\n  a: {bounds: [0, 1], type: float}\n"
    (said,) = problems(tmp_path, text)
    assert "which values of a to try" in said
    text = "command: x\ntuner: grid\nparameters:\n  a: {bounds: [0, 1000000000], type: int}\n"
    (said,) = problems(tmp_path, text)
    assert "more than 100,000 trials" in said
