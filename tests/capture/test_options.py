"""A dump configured by options, without a file."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sonde.capture.config import load_config
from sonde.capture.options import config_from_options, parse_size
from sonde.core.errors import ConfigError, UsageError
from sonde.core.selection import ALL_STEPS, StepSet


def problems(directory: Any, **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config_from_options(directory, {}, **options)
    return str(caught.value).splitlines()


def test_a_directory_alone_dumps_every_op_of_every_step_asynchronously(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = config_from_options("out", {})
    assert config.path == tmp_path / "out"
    assert config.selection.steps == ALL_STEPS
    assert config.selection.ops is None
    assert config.ranks is None
    assert config.ios == {"input", "output"}
    assert config.asynchronous
    assert config.saved_data == "tensor"
    assert config.debug_mode == "off"
    assert not (tmp_path / "out").exists()


def test_steps_and_ops_are_selected(tmp_path: Path) -> None:
    config = config_from_options(
        tmp_path, {}, steps="0|5-8", ops=["conv", "name-regex(.*relu.*)"], net_name="LeNet"
    )
    assert config.selection.steps == StepSet(((0, 0), (5, 8)))
    assert config.dump_mode == "kernels"
    assert [pattern.text for pattern in config.selection.ops or ()] == [
        "conv",
        "name-regex(.*relu.*)",
    ]
    assert config.net_name == "LeNet"


def test_the_short_forms(tmp_path: Path) -> None:
    stats = config_from_options(tmp_path, {}, stats=True)
    assert stats.saved_data == "statistic"
    assert stats.statistic_categories == (
        *("max", "min", "avg", "l2norm"),
        *("nan count", "negative inf count", "positive inf count"),
    )
    overflow = config_from_options(tmp_path, {}, overflow=True)
    assert (overflow.debug_mode, overflow.overflow_number) == ("overflow", 100)
    assert overflow.saved_data == "tensor"


def test_every_wrong_option_is_named_at_once(tmp_path: Path) -> None:
    assert problems(tmp_path, steps="5-", ops=["name-regex(", "conv", ""], net_name="a b") == [
        "command line: --dump-steps '5-' is not a list of steps such as '0|5-8' or 'all' "
        "[config-iteration]",
        "command line: --dump-ops 'name-regex(' is not of the form name-regex(...) "
        "[config-kernels]",
        "command line: --dump-ops an empty text selects no op [config-kernels]",
        "command line: --net-name 'a b' is not 1 to 200 letters, digits, '-' or '_' "
        "[config-net-name]",
    ]


def test_overflow_chooses_its_ops_and_what_it_saves(tmp_path: Path) -> None:
    for other in ({"stats": True}, {"ops": ["conv"]}):
        (line,) = problems(tmp_path, overflow=True, **other)
        assert line.startswith("command line: --overflow cannot be combined with --")


def test_graphs_alone_have_no_values_to_choose(tmp_path: Path) -> None:
    for other in ({"stats": True}, {"ops": ["conv"]}, {"overflow": True}):
        (line,) = problems(tmp_path, graph=True, **other)
        assert line.startswith("command line: --graph cannot be combined with --")


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert problems(tmp_path / "file" / "x") == [
        f"command line: --dump-to '{tmp_path}/file/x' cannot be written to: {tmp_path}/file is not "
        "a directory [config-path]"
    ]
    assert problems("") == ["command line: --dump-to is empty; write a directory [config-path]"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    spans=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)).map(sorted), min_size=1),
    ops=st.lists(st.sampled_from(["conv", "Default/a-op1", "name-regex(.*\\.x)"]), max_size=3),
    kind=st.sampled_from(["tensor", "stats", "overflow"]),
    world=st.sampled_from(["", "2", "16", "many"]),
)
def test_the_text_of_a_config_made_from_options_loads_as_the_same_config(
    tmp_path: Path, spans: list[list[int]], ops: list[str], kind: str, world: str
) -> None:
    config = config_from_options(
        tmp_path / "out",
        {"WORLD_SIZE": world},
        steps="|".join(f"{first}-{last}" for first, last in spans),
        ops=[] if kind == "overflow" else ops,
        stats=kind == "stats",
        overflow=kind == "overflow",
    )
    path = tmp_path / "data_dump.json"
    path.write_text(config.text)
    loaded = load_config(path, {})
    assert loaded.ranks == frozenset(range(16 if world == "16" else 8))
    everywhere = dataclasses.replace(loaded.selection, ranks=None)
    assert dataclasses.replace(loaded, selection=everywhere) == config


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("1K", 1024),
        ("512M", 512 * 1024**2),
        ("1.5 GiB", 3 * 512 * 1024**2),
        ("2gb", 2 * 1024**3),
        ("1T", 1024**4),
        (" 7B ", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "M", "1X", "1e9", "0.1", "NaN", "٣"])
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size such as '512M' or '4G'"):
        parse_size(text)
