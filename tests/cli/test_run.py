"""The options of ``sonde run`` and the environment variables that it reads."""

import json
from pathlib import Path
from typing import Any

import click
import pytest

from sonde.cli.main import group
from sonde.cli.run import RunOptions, _unused_with_mindspore, prepare, run
from sonde.cli.script_run import ScriptRun
from sonde.core.errors import ConfigError, UsageError


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_config(name: str, tmp_path: Path, **changes: Any) -> str:
    common = {
        "dump_mode": 0,
        "path": str(tmp_path / name),
        "net_name": "Net",
        "iteration": "all",
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
        **changes,
    }
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps({"common_dump_settings": common}))
    return str(path)


def parse(*words: str) -> dict[str, Any]:
    parent = click.Context(group, info_name="sonde", **group.context_settings)
    return run.make_context("run", list(words), parent).params


def prepared(*words: str, environ: dict[str, str] | None = None) -> ScriptRun:
    return prepare(RunOptions(**parse(*words)), environ or {})


@pytest.mark.parametrize(
    ("words", "module", "program"),
    [
        ("train.py", None, ("train.py",)),
        ("train.py --stats -m x -- -h", None, ("train.py", "--stats", "-m", "x", "--", "-h")),
        ("--stats train.py --overflow", None, ("train.py", "--overflow")),
        ("--dump-to out --dump-ops a --dump-ops b train.py x", None, ("train.py", "x")),
        ("--dump-to=out train.py", None, ("train.py",)),
        ("--stats -- train.py --stats", None, ("train.py", "--stats")),
        ("--stats -- -m x", None, ("-m", "x")),
        ("-m package.train --epochs 3 -m y", "package.train", ("--epochs", "3", "-m", "y")),
        ("--stats -mtrain --help", "train", ("--help",)),
        ("-m train", "train", ()),
    ],
)
def test_everything_after_the_program_belongs_to_it(
    words: str, module: str | None, program: tuple[str, ...]
) -> None:
    params = parse(*words.split())
    assert (params["module"], params["program"]) == (module, program)


def test_without_a_dump_the_script_runs_plainly_and_a_hint_is_printed() -> None:
    plain = prepared("train.py", "--epochs", "3")
    assert (plain.module, plain.program) == (None, ("train.py", "--epochs", "3"))
    assert plain.config is None
    assert plain.step_by == "optimizer"
    assert plain.note == (
        "nothing is dumped; use --stats, --overflow, --guard, --graph, --dump-to DIR or --dump FILE"
    )


def test_a_configuration_file_is_combined_with_the_other_options(tmp_path: Path) -> None:
    file = write_config("a", tmp_path, iteration="3")
    ready = prepared("--dump", file, "--dump-memory", "1M", "--step-by", "manual", "-m", "train")
    assert ready.config is not None
    assert str(ready.config.selection.steps) == "3"
    assert ready.config.memory_budget == 1024**2
    assert (ready.module, ready.program, ready.step_by) == ("train", (), "manual")
    assert ready.note is None


def test_options_replace_the_file(tmp_path: Path) -> None:
    words = "--dump-to out --dump-steps 0|5-8 --dump-ops conv --dump-memory 2G train.py"
    config = prepared(*words.split()).config
    assert config is not None
    assert config.path == tmp_path / "out"
    assert str(config.selection.steps) == "0|5-8"
    assert config.selection.ops is not None
    assert [op.text for op in config.selection.ops] == ["conv"]
    assert config.memory_budget == 2 * 1024**3


@pytest.mark.parametrize(
    ("words", "saved_data", "debug_mode"),
    [
        ("--stats", "statistic", "off"),
        ("--overflow", "tensor", "overflow"),
        ("--graph", "graph", "off"),
    ],
)
def test_a_short_form_dumps_to_a_directory_that_it_prints(
    tmp_path: Path, words: str, saved_data: str, debug_mode: str
) -> None:
    ready = prepared(words, "train.py")
    assert ready.config is not None
    assert ready.config.path == tmp_path / "sonde_dump"
    assert (ready.config.saved_data, ready.config.debug_mode) == (saved_data, debug_mode)
    assert ready.note == f"dumping to {tmp_path}/sonde_dump"
    elsewhere = prepared(words, "--dump-to", "there", "train.py")
    assert elsewhere.config is not None
    assert elsewhere.config.path == tmp_path / "there"
    assert elsewhere.note is None


@pytest.mark.document(
    42,
    says="export MINDSPORE_DUMP_CONFIG={Absolute path of data_dump.json}",
    how="the same variable, or SONDE_DUMP_CONFIG, with `sonde run train.py`",
)
def test_the_environment_names_a_file_and_the_sonde_variable_wins(tmp_path: Path) -> None:
    ours, theirs = write_config("ours", tmp_path), write_config("theirs", tmp_path)
    environ = {"SONDE_DUMP_CONFIG": ours, "MINDSPORE_DUMP_CONFIG": theirs}
    ready = prepared("train.py", environ=environ)
    assert ready.config is not None
    assert ready.config.path == tmp_path / "ours"
    assert ready.note == f"dumping as configured in {ours} (from SONDE_DUMP_CONFIG)"
    environ["SONDE_DUMP_CONFIG"] = ""
    ready = prepared("train.py", environ=environ)
    assert ready.note == f"dumping as configured in {theirs} (from MINDSPORE_DUMP_CONFIG)"


@pytest.mark.document(172)
def test_the_environment_asks_for_graphs_as_with_mindspore(tmp_path: Path) -> None:
    ready = prepared("train.py", environ={"MS_DEV_SAVE_GRAPHS": "2"})
    assert ready.config is not None
    assert (ready.config.saved_data, ready.config.path) == ("graph", tmp_path / "sonde_dump")
    assert ready.note == f"writing graphs to {tmp_path}/sonde_dump (from MS_DEV_SAVE_GRAPHS)"
    there = {"MS_DEV_SAVE_GRAPHS": "1", "MS_DEV_SAVE_GRAPHS_PATH": "ir"}
    elsewhere = prepared("train.py", environ=there).config
    assert elsewhere is not None
    assert elsewhere.path == tmp_path / "ir"
    assert prepared("train.py", environ={"MS_DEV_SAVE_GRAPHS": "0"}).config is None
    stats = prepared("--stats", "train.py", environ=there).config
    assert stats is not None
    assert stats.saved_data == "statistic"
    with pytest.raises(UsageError, match="MS_DEV_SAVE_GRAPHS is 'yes'; accepted: 0"):
        prepared("train.py", environ={"MS_DEV_SAVE_GRAPHS": "yes"})


@pytest.mark.document(171)
def test_the_environment_says_whether_empty_outputs_are_dumped(tmp_path: Path) -> None:
    name = "MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT"
    file = write_config("a", tmp_path)
    for words in (["--dump", file], ["--dump-to", "out"]):
        for value, keeps in (("", False), ("1", False), ("0", True)):
            config = prepared(*words, "train.py", environ={name: value}).config
            assert config is not None
            assert config.keeps_useless_outputs is keeps
        with pytest.raises(ConfigError, match=f"{name} is 'no'; accepted: 0"):
            prepared(*words, "train.py", environ={name: "no"})


def test_a_wrong_file_of_the_environment_says_which_variable_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        prepared("train.py", environ={"MINDSPORE_DUMP_CONFIG": "no.json"})
    assert str(caught.value).splitlines() == [
        "no.json: cannot be read: No such file or directory [config-file]",
        "no.json: this file was read because MINDSPORE_DUMP_CONFIG names it [config-file]",
    ]


def test_the_command_line_wins_over_the_environment(tmp_path: Path) -> None:
    environ = {"SONDE_DUMP_CONFIG": write_config("environment", tmp_path)}
    for words in (["--dump", write_config("flag", tmp_path)], ["--dump-to", "flag"]):
        config = prepared(*words, "train.py", environ=environ).config
        assert config is not None
        assert config.path == tmp_path / "flag"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("train.py", "train"),
        ("some/where/my.train.v2.py", "my_train_v2"),
        ("app/", "app"),
        ("graphs.py", "Net"),
        ("é.py", "Net"),
        ("-m package.train", "package_train"),
        ("--net-name LeNet train.py", "LeNet"),
    ],
)
def test_the_net_is_named_after_the_program(words: str, name: str) -> None:
    config = prepared("--dump-to", "out", *words.split()).config
    assert config is not None
    assert config.net_name == name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "no program given"),
        ("--stats", "no program given"),
        ("--dump a.json --dump-to out t.py", "--dump-to cannot be used with --dump FILE"),
        ("--dump a.json --stats t.py", "--stats cannot be used with --dump FILE"),
        ("--dump-steps 3 t.py", "--dump-steps needs --dump-to DIR, --stats, --graph or --overflow"),
        ("--dump-ops conv t.py", "--dump-ops needs --dump-to DIR, --stats or --overflow"),
        ("--net-name N t.py", "--net-name needs --dump-to DIR, --stats, --graph or --overflow"),
        ("--dump a.json --graph t.py", "--graph cannot be used with --dump FILE"),
        ("--dump-memory 1G t.py", "--dump-memory needs a dump"),
        ("--dump-to out --dump-memory x t.py", "--dump-memory 'x' is not a size"),
    ],
)
def test_options_that_make_no_sense_together(words: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        prepared(*words.split())
    assert str(caught.value).startswith(said)


def test_a_wrong_value_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="--dump-steps '5-' is not a list of steps"):
        prepared("--dump-to", "out", "--dump-steps", "5-", "train.py")
    with pytest.raises(click.UsageError, match="'epoch' is not one of 'optimizer', 'manual'"):
        parse("--step-by", "epoch", "train.py")


def test_the_environment_asks_for_a_guard(tmp_path: Path) -> None:
    for value, directory in (("1", Path("sonde_steps")), (f"{tmp_path}/kept", tmp_path / "kept")):
        found = prepared("train.py", environ={"SONDE_GUARD": value})
        assert found.guard is not None
        assert found.guard.directory == directory.absolute()
        assert (found.note or "").endswith(f"{directory.absolute()} (from SONDE_GUARD)")
        assert found.unused == []
    assert prepared("train.py", environ={"SONDE_GUARD": "0"}).guard is None
    bad = prepared("train.py", environ={"SONDE_GUARD": "yes"})
    assert bad.guard is None
    assert bad.unused == [
        "SONDE_GUARD must be 1, 0 or a directory such as ./sonde_steps (got 'yes'); the program "
        "runs without the guard [variable-unused]"
    ]
    dumped = prepared("--dump-to", str(tmp_path), "train.py", environ={"SONDE_GUARD": "1"})
    assert dumped.guard is None
    assert [line.split(",")[0] for line in dumped.unused] == ["SONDE_GUARD has no effect"]
    asked = prepared("--guard", "train.py", environ={"SONDE_GUARD": "./elsewhere"})
    assert asked.unused == [
        "SONDE_GUARD has no effect, because an option says how the training is guarded "
        "[variable-unused]"
    ]


@pytest.mark.document(217)
def test_variables_without_an_effect_are_reported(tmp_path: Path) -> None:
    environ = {"MINDSPORE_DUMP_CONFIG": "no.json", "SONDE_GUARD": "1", "ENABLE_MS_DEBUGGER": "yes"}
    found = prepared("--dump-to", str(tmp_path), "train.py", environ=environ).unused
    assert sorted(line.split()[0] for line in found) == sorted(environ)
    assert found[0] == (
        "MINDSPORE_DUMP_CONFIG has no effect, because an option says what is dumped "
        "[variable-unused]"
    )
    first, second = (write_config(name, tmp_path) for name in ("first", "second"))
    both = {"SONDE_DUMP_CONFIG": first, "MINDSPORE_DUMP_CONFIG": second}
    (line,) = prepared("train.py", environ=both).unused
    assert line.startswith("MINDSPORE_DUMP_CONFIG has no effect, because SONDE_DUMP_CONFIG is set")
    assert prepared("train.py", environ={**both, "MINDSPORE_DUMP_CONFIG": first}).unused == []


def test_variables_without_an_effect_on_mindspore_are_reported() -> None:
    lines = _unused_with_mindspore({"SONDE_GUARD": "1", "ENABLE_MS_DEBUGGER": "1"})
    why = "has no effect, because the program trains with MindSpore [variable-unused]"
    assert lines == [f"SONDE_GUARD {why}", f"ENABLE_MS_DEBUGGER {why}"]
    assert _unused_with_mindspore({"ENABLE_MS_DEBUGGER": "0"}) == []
