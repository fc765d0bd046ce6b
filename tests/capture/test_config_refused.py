"""Errors in a dump configuration, and their messages."""

# ruff: noqa: E501 - the tables have each message on one line, as it is said

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.capture.settings import Load, document

from sonde.capture.config import load_config
from sonde.core.errors import ConfigError


@pytest.mark.document(
    113,
    says="values of `op_debug_mode`: 0, 3 and 4",
    how="another value is refused in one line that lists these three",
)
@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"dump_mode": 3}, "dump_mode is 3; accepted: 0 (every op), 1 (the ops in kernels) or 2 (what sonde.set_dump marks) [config-value]"),
        ({"dump_mode": True}, "dump_mode is true, a boolean; accepted: 0 (every op), 1 (the ops in kernels) or 2 (what sonde.set_dump marks) [config-type]"),
        ({"dump_mode": 0.0}, "dump_mode is 0.0, a number with a fraction; accepted: 0 (every op), 1 (the ops in kernels) or 2 (what sonde.set_dump marks) [config-type]"),
        ({"op_debug_mode": 1}, "op_debug_mode is 1; accepted: 0 (off), 3 (only ops that overflow) or 4 (only the op that raises) [config-value]"),
        ({"input_output": "0"}, 'input_output is "0", a text; accepted: 0 (inputs and outputs), 1 (inputs) or 2 (outputs) [config-type]'),
        ({"iteration": None}, 'iteration is null; accepted: a text such as "0|5-8|100-120", "all", or "all/10" for every tenth step [config-type]'),
        ({"net_name": 5}, 'net_name is 5, a number; accepted: a text such as "ResNet50" [config-type]'),
        ({"net_name": "a/b"}, "net_name 'a/b' is not 1 to 200 letters, digits, '-' or '_' [config-net-name]"),
        ({"net_name": ""}, "net_name '' is not 1 to 200 letters, digits, '-' or '_' [config-net-name]"),
        ({"net_name": "graphs"}, "net_name 'graphs' is the name of another folder of a dump; choose another [config-net-name]"),
        ({"saved_data": "statistics"}, 'saved_data is "statistics"; accepted: "tensor", "statistic", "full", "graph" or "step"; did you mean \'statistic\'? [config-value]'),
        ({"kernels": "conv"}, 'kernels is "conv", a text; accepted: a list of names of ops or modules, op types or "name-regex(...)" [config-type]'),
        ({"kernels": ["a", 5]}, 'kernels[1] is 5, a number; accepted: a list of names of ops or modules, op types or "name-regex(...)" [config-type]'),
        ({"kernels": ["name-regex(a"]}, "kernels entry 0: 'name-regex(a' is not of the form name-regex(...) [config-kernels]"),
        ({"kernels": ["name-regex(()"]}, None),
        ({"dump_mode": 1}, 'kernels is empty with dump_mode 1; write a list of names of ops or modules, op types or "name-regex(...)" [config-kernels]'),
        ({"dump_mode": 1, "kernels": [" "]}, "kernels entry 0: an empty text selects no op [config-kernels]"),
        ({"support_device": []}, "support_device is empty; accepted: a list of ranks such as [0, 1, 2, 3, 4, 5, 6, 7] [config-value]"),
        ({"support_device": [0, -1]}, "support_device[1] is -1; accepted: a list of ranks such as [0, 1, 2, 3, 4, 5, 6, 7] [config-value]"),
        ({"support_device": [True]}, "support_device[0] is true, a boolean; accepted: a list of ranks such as [0, 1, 2, 3, 4, 5, 6, 7] [config-type]"),
        ({"initial_iteration": -1}, "initial_iteration is -1; accepted: 0 or a greater number [config-value]"),
        ({"op_debug_mode": 3, "overflow_number": -1}, "overflow_number is -1; accepted: 0 (all) or how many at most [config-value]"),
        ({"statistic_category": ["maximum"]}, "statistic_category entry 0: 'maximum' is not a statistic; did you mean 'max'? [config-statistic-category]"),
        ({"statistic_category": ["l2nrom"]}, "statistic_category entry 0: 'l2nrom' is not a statistic; did you mean 'l2norm'? [config-statistic-category]"),
        ({"statistic_category": ["l2 norm"]}, "statistic_category entry 0: 'l2 norm' is not a statistic; did you mean 'l2norm'? [config-statistic-category]"),
        ({"statistic_category": []}, "statistic_category is empty; leave it out for max, min, l2norm [config-statistic-category]"),
        ({"statistic_format": "parquett"}, 'statistic_format is "parquett"; accepted: "csv" or "parquet"; did you mean \'parquet\'? [config-value]'),
        ({"statistic_format": "parquet"}, 'statistic_format "parquet" goes only with saved_data "statistic" or "full" [config-combination]'),
        ({"statistic_full_steps": 5, "saved_data": "statistic"}, 'statistic_full_steps has a meaning only with statistic_format "parquet" [config-combination]'),
        ({"e2e": {"enable": 1}}, "e2e_dump_settings.enable is 1, a number; accepted: true or false [config-type]"),
        ({"e2e": {"sample_mode": 2}}, "e2e_dump_settings.sample_mode is 2; accepted: 0 or 1 [config-value]"),
        ({"e2e": {"sample_num": 0}}, "e2e_dump_settings.sample_num is 0; accepted: 1 or a greater number [config-value]"),
        ({"e2e": {"stat_calc_mode": "gpu"}}, 'e2e_dump_settings.stat_calc_mode is "gpu"; accepted: "host" or "device" [config-value]'),
        ({"e2e": []}, "e2e_dump_settings is a list; accepted: an object [config-type]"),
        ({"older": {"op_debug_mode": 4}}, "async_dump_settings.op_debug_mode is 4; accepted: 0 (off), or 1, 2 or 3 (only ops that overflow) [config-value]"),
        ({"path": 3}, "path is 3, a number; accepted: an absolute path [config-type]"),
    ],
)  # fmt: skip
def test_a_wrong_value_gets_one_line_that_says_what_is_accepted(
    refuse: Callable[..., list[str]], settings: dict[str, Any], line: str | None
) -> None:
    lines = refuse(**settings)
    assert len(lines) == 1
    if line is not None:
        assert lines == [f"dump.json: {line}"]


@pytest.mark.document(
    124,
    says="specified iteration dump is not supported when `op_debug_mode` is 4",
    how='`iteration` has to be "all" or absent there; else one line, exit code 2',
)
@pytest.mark.document(
    126,
    says="statistic dump is only supported when `op_debug_mode` is 0",
    how="refused in one line otherwise",
)
@pytest.mark.document(
    128,
    says="`op_debug_mode` 3 saves inputs and outputs, 4 only the input",
    how="`input_output` has to be 0 with 3 and 1 with 4; refused in one line otherwise",
)
@pytest.mark.document(
    149,
    says="sample dump is effective only when `op_debug_mode` is 0",
    how="refused in one line otherwise",
)
@pytest.mark.document(
    151,
    says="`save_kernel_args` is effective only when `enable` is true",
    how="refused in one line otherwise",
)
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"op_debug_mode": 3, "dump_mode": 1, "kernels": ["conv"]}, "dump_mode must be 0"),
        ({"op_debug_mode": 4, "input_output": 1, "dump_mode": 2}, "dump_mode must be 0"),
        ({"op_debug_mode": 3, "saved_data": "statistic"}, 'saved_data "statistic" goes only'),
        ({"op_debug_mode": 3, "saved_data": "graph"}, 'saved_data "graph" goes only'),
        (
            {"dump_mode": 1, "kernels": ["a"], "saved_data": "graph"},
            "dump_mode must be 0 with saved_data",
        ),
        ({"op_debug_mode": 4, "input_output": 1, "saved_data": "full"}, 'saved_data "full" goes'),
        ({"op_debug_mode": 3, "input_output": 1}, "input_output must be 0"),
        ({"op_debug_mode": 4, "input_output": 0}, "input_output must be 1"),
        ({"op_debug_mode": 4, "input_output": 1, "iteration": "3"}, "iteration '3' cannot be"),
        ({"op_debug_mode": 3, "e2e": {"stat_calc_mode": "device"}}, 'must be "host"'),
        ({"overflow_number": 3}, "overflow_number has a meaning only with op_debug_mode 3"),
        ({"op_debug_mode": 3, "e2e": {"sample_mode": 1}}, "sample_mode 1 goes only"),
        ({"e2e": {"save_kernel_args": True}}, "save_kernel_args has an effect only"),
        (
            {
                "saved_data": "full",
                "statistic_category": ["max", "md5"],
                "e2e": {"stat_calc_mode": "device"},
            },
            "statistic_category md5 cannot be computed",
        ),
        ({"older": {"enable": True}, "e2e": {"enable": True}}, "are both true"),
        ({"older": {"enable": False}}, "nothing would be dumped"),
        ({"op_debug_mode": 0, "older": {"op_debug_mode": 3}}, "contradicts op_debug_mode"),
    ],
)
def test_a_combination_the_document_forbids_is_refused_with_its_reason(
    refuse: Callable[..., list[str]], settings: dict[str, Any], said: str
) -> None:
    lines = refuse(**settings)
    assert len(lines) == 1
    assert said in lines[0]
    assert lines[0].endswith("[config-combination]")


@pytest.mark.parametrize(
    "key", ["dump_mode", "net_name", "iteration", "input_output", "kernels", "support_device"]
)
def test_a_missing_required_key_is_reported(refuse: Callable[..., list[str]], key: str) -> None:
    lines = refuse(**{key: ...})
    assert len(lines) == 1
    assert lines[0].startswith(f"dump.json: {key} is missing; write ")
    assert lines[0].endswith("[config-missing-key]")


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"iterations": "1"}, "common_dump_settings.iterations is not a known key; did you mean 'iteration'?"),
        ({"DumpMode": 1}, "common_dump_settings.DumpMode is not a known key; did you mean 'dump_mode'?"),
        ({"trans_flag": True}, "common_dump_settings.trans_flag is not a known key; it belongs in e2e_dump_settings"),
        ({"e2e": {"enabled": True}}, "e2e_dump_settings.enabled is not a known key; did you mean 'enable'?"),
        ({"older": {"zzz": 1}}, "async_dump_settings.zzz is not a known key; accepted: enable, op_debug_mode"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_named_with_the_nearest_known_one(
    refuse: Callable[..., list[str]], settings: dict[str, Any], line: str
) -> None:
    assert refuse(**settings) == [f"dump.json: {line} [config-unknown-key]"]


@pytest.mark.document(
    178,
    says="mistakes in the json configuration file",
    how="every mistake in a line of its own, before the training starts; exit code 2",
)
def test_all_problems_are_reported_at_once_and_only_real_ones(
    refuse: Callable[..., list[str]], tmp_path: Path
) -> None:
    lines = refuse(
        op_debug_mode=7,
        overflow_number=4,
        dump_mode="x",
        iteration="5-",
        path="relative/place",
        kernels=...,
        bogus=1,
        e2e={"sample_num": 0},
    )
    assert [line.rsplit(" ", 1)[1] for line in lines] == [
        "[config-unknown-key]",
        "[config-type]",
        "[config-value]",
        "[config-iteration]",
        "[config-missing-key]",
        "[config-path]",
        "[config-value]",
    ]
    assert all(line.startswith("dump.json: ") for line in lines)


@pytest.mark.document(
    118,
    says="`path`: the absolute path to Dump saved data",
    how="key `path`; a relative path is refused with the absolute one to write",
)
def test_a_relative_path_is_refused_with_the_absolute_one(
    refuse: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert refuse(path="out/dump") == [
        f"dump.json: path 'out/dump' is not absolute; write '{tmp_path}/out/dump' [config-path]"
    ]
    assert refuse(path="~/dump") == [
        "dump.json: path '~/dump' is not absolute; write '/home/me/dump' [config-path]"
    ]


@pytest.mark.document(
    119,
    says="`path` not set or empty: `$MS_DIAGNOSTIC_DATA_PATH/debug_dump`",
    how="the same, or `$SONDE_DIAGNOSTIC_DATA_PATH/debug_dump`",
)
@pytest.mark.parametrize("path", ["", ...])
def test_an_empty_path_is_taken_from_the_environment(
    load: Load, refuse: Callable[..., list[str]], tmp_path: Path, path: Any
) -> None:
    theirs = {"MS_DIAGNOSTIC_DATA_PATH": str(tmp_path / "theirs")}
    ours = {"SONDE_DIAGNOSTIC_DATA_PATH": str(tmp_path / "ours")}
    assert load(path=path, environ=theirs).path == tmp_path / "theirs" / "debug_dump"
    assert load(path=path, environ=ours | theirs).path == tmp_path / "ours" / "debug_dump"
    assert load(environ=theirs).path == tmp_path / "out", "a path in the file wins"
    assert refuse(path=path, environ={"MS_DIAGNOSTIC_DATA_PATH": ""}) == [
        "dump.json: path is empty; write an absolute path, or set SONDE_DIAGNOSTIC_DATA_PATH or "
        "MS_DIAGNOSTIC_DATA_PATH [config-path]"
    ]
    assert refuse(path=path, environ={"MS_DIAGNOSTIC_DATA_PATH": "here"}) == [
        "dump.json: path 'here/debug_dump' (from MS_DIAGNOSTIC_DATA_PATH) is not absolute; write "
        f"'{tmp_path}/here/debug_dump' [config-path]"
    ]


def test_loading_leaves_nothing_on_disk(load: Load, tmp_path: Path) -> None:
    load(path=str(tmp_path / "a" / "b"))
    assert os.listdir(tmp_path) == ["dump.json"]


def test_an_existing_directory_is_fine_and_stays_empty(load: Load, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert load(path=str(tmp_path / "there")).path == tmp_path / "there"
    assert os.listdir(tmp_path / "there") == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("file", "{tmp}/file is not a directory"),
        ("file/below", "{tmp}/file is not a directory"),
        ("dangling", "{tmp}/dangling is a link to nothing"),
        ("x" * 300, "File name too long"),
        (
            "new/" + "x" * 300,
            "xxxxxxxxxxxxxxxxxxxx... is longer than the 255 bytes a name may have there",
        ),
        ("a\0b", "embedded null byte"),
    ],
)
def test_a_path_that_cannot_be_written_to_is_refused_with_the_reason(
    refuse: Callable[..., list[str]], tmp_path: Path, path: str, reason: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    line = f"cannot be written to: {reason.format(tmp=tmp_path)} [config-path]"
    assert refuse(path=f"{tmp_path}/{path}")[0].endswith(line)


def test_a_read_only_place_is_refused(refuse: Callable[..., list[str]], tmp_path: Path) -> None:
    if os.geteuid() == 0:
        place = "/proc/sonde"  # read-only even for root
    else:
        place = str(tmp_path / "locked")
        os.mkdir(place, 0o500)
    assert "cannot be written to" in refuse(path=place)[0]


def raw(tmp_path: Path, content: bytes) -> str:
    """What is said about a file with this content, without its name."""
    path = tmp_path / "raw.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "line 1 column 1: not valid JSON: the file is empty"),
        (b"[]", "is a list, not a JSON object {...}"),
        (b'{\n  "a": 1,\n}', None),
        (b'{\n  // why\n  "a": 1}', "line 2 column 3: not valid JSON: JSON has no comments; remove this one"),
        (b'{"a": 1 # why\n}', "line 1 column 9: not valid JSON: JSON has no comments; remove this one"),
        (b"{'a': 1}", "line 1 column 2: not valid JSON: write text in double quotes, not single ones"),
        (b'{"a": True}', "line 1 column 7: not valid JSON: write true instead of True"),
        (b'{"a": NaN}', "NaN is not a JSON value"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON value"),
        (b'{"a": 1, "a": 2}', "the key 'a' occurs twice in one object; keep one of them"),
        (b'{"a": "b\nc"}', "line 1 column 9: not valid JSON: a text must end in the line in which it begins; close its quotes"),
        (b'{"a": "b', "line 1 column 7: not valid JSON: this text has no closing quote"),
        (b'{"a" 1}', "line 1 column 6: not valid JSON: expecting ':' delimiter"),
        (b'{"a": "\xff"}', "is not UTF-8 text (byte 7); save it as UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "is not UTF-8 text (byte 0); save it as UTF-8"),
        (b'{"a":' * 100_000, "is nested too deeply to be a configuration"),
        (b'{"a": ' + b"1" * 5000 + b"}", None),
    ],
)  # fmt: skip
def test_json_that_is_not_json_is_explained(
    tmp_path: Path, content: bytes, said: str | None
) -> None:
    line = raw(tmp_path, content)
    assert line.endswith(" [config-json]")
    if said is not None:
        assert line == f"{said} [config-json]"


def test_the_position_of_a_trailing_comma_is_reported(tmp_path: Path) -> None:
    line = raw(tmp_path, b'{\n  "a": 1,\n}')
    assert "remove the comma" in line


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(document(tmp_path)).encode())
    assert load_config(path, {}).text.startswith("{")


def test_a_missing_file_and_a_directory_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "no.json", {})
    assert str(caught.value) == (
        f"{tmp_path}/no.json: cannot be read: No such file or directory [config-file]"
    )
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory \[config-file\]"):
        load_config(tmp_path, {})


def test_a_missing_common_section_is_one_problem_with_its_reason(tmp_path: Path) -> None:
    assert raw(tmp_path, b'{"common_dump_setting": {}}').splitlines() == [
        "common_dump_setting is not a known key; did you mean 'common_dump_settings'? "
        "[config-unknown-key]",
        f"{tmp_path}/raw.json: common_dump_settings is missing [config-missing-key]",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


@given(
    key=st.sampled_from(
        ["dump_mode", "iteration", "kernels", "support_device", "statistic_category", "net_name"]
    ),
    value=JSON,
)
def test_any_json_value_of_a_key_is_accepted_or_refused_but_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / "any.json"
    path.write_text(json.dumps(document(folder, **{key: value})))
    with contextlib.suppress(ConfigError):
        load_config(path, {})


@pytest.mark.document(
    140,
    says="a wrong `statistic_category`",
    how="refused, with the statistic that is meant: `mean` is `avg`",
)
@pytest.mark.parametrize(
    ("word", "meant"), [("mean", "avg"), ("norm", "l2norm"), ("nan", "nan count")]
)
def test_a_statistic_by_another_name_gets_the_one_that_is_meant(
    load: Load, word: str, meant: str
) -> None:
    with pytest.raises(ConfigError, match=f"{word!r} is not a statistic; did you mean {meant!r}"):
        load(statistic_category=[word])
