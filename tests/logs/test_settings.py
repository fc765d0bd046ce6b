"""The meaning of the variables, as values."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.logs.settings import LEVELS, SUBMODULES, VARIABLES, LogSettings, log_settings

BOTH = [(setting, name) for setting, names in VARIABLES.items() for name in names if name]


def _only(setting: str, name: str, text: str) -> object:
    settings, problems = log_settings({name: text, "SONDE_LOG_DIR": "/logs"})
    assert problems == ()
    return getattr(settings, setting)


@pytest.mark.document(
    56,
    says="`GLOG_logtostderr`: 1: logs are output to the screen, 0: to a file; default 1",
    how="the same variable, or SONDE_LOG_TO_STDERR",
)
def test_without_variables_the_defaults_apply():
    settings, problems = log_settings({})
    assert settings == LogSettings()
    assert settings.level is None
    assert settings.to_stderr is True
    assert settings.max_bytes == 50 * 1024 * 1024
    assert settings.backup_count == 30
    assert problems == ()


@pytest.mark.parametrize("name", VARIABLES["level"])
@pytest.mark.parametrize(
    ("text", "level"), [("0", "DEBUG"), ("1", "INFO"), ("2", "WARNING"), ("3", "ERROR")]
)
def test_the_levels_are_those_of_the_document(name: str, text: str, level: str):
    assert _only("level", name, text) == getattr(logging, level)


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        ("to_stderr", "0", False),
        ("to_stderr", "1", True),
        ("stderr_threshold", "3", logging.ERROR),
        ("max_bytes", "1000", 1000),
        ("backup_count", "0", 0),
        ("submodules", "{CAPTURE:1,DUMP:0}", {"CAPTURE": logging.INFO, "DUMP": logging.DEBUG}),
        ("submodules", " { capture : 1 } ", {"CAPTURE": logging.INFO}),
        ("submodules", "TRAIN:3", {"TRAIN": logging.ERROR}),
    ],
)
def test_every_setting_has_two_names(setting: str, text: str, value: object):
    for name in VARIABLES[setting]:
        assert _only(setting, name, text) == value


def test_sondes_own_name_wins_and_an_empty_one_counts_as_not_set():
    assert log_settings({"SONDE_LOG_V": "0", "GLOG_v": "3"})[0].level == logging.DEBUG
    assert log_settings({"SONDE_LOG_V": "", "GLOG_v": "3"})[0].level == logging.ERROR


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("level", "5"),
        ("level", "INFO"),
        ("level", "-1"),
        ("to_stderr", "yes"),
        ("stderr_threshold", "x"),
        ("max_bytes", "50MB"),
        ("max_bytes", "-1"),
        ("backup_count", "1.5"),
    ],
)
def test_a_bad_value_is_one_problem_that_names_it_and_the_default_applies(setting: str, text: str):
    for name in VARIABLES[setting]:
        settings, problems = log_settings({name: text})
        assert settings == LogSettings()
        (problem,) = problems
        assert problem.startswith(f"{name}={text} must be ")
        assert problem.endswith("using the default")


@pytest.mark.document(56)
def test_a_log_file_without_a_directory_is_reported_and_messages_go_to_the_screen():
    settings, problems = log_settings({"GLOG_logtostderr": "0"})
    assert settings.to_stderr is True
    assert problems == (
        "GLOG_logtostderr=0 asks for a log file, but SONDE_LOG_DIR (or GLOG_log_dir) does not say "
        "where; logging to the screen",
    )


def test_bad_entries_of_sub_modules_are_reported_and_the_good_ones_used():
    settings, problems = log_settings({"SONDE_SUBMODULE_LOG_V": "{CAPTURE:1,NOSUCH:2,DUMP:9,CLI}"})
    assert settings.submodules == {"CAPTURE": logging.INFO}
    assert len(problems) == 3
    assert "there is no sub module NOSUCH; there are CORE, KERNELS, DISPLAY, DUMP" in problems[0]
    assert "'DUMP:9' must be a sub module and a level from 0 to 4" in problems[1]
    assert "'CLI' must be" in problems[2]


@pytest.mark.parametrize("text", ["{}", "{ }", "{,}", "{CAPTURE:1,}"])
def test_nothing_between_commas_is_no_problem(text: str):
    settings, problems = log_settings({"MS_SUBMODULE_LOG_v": text})
    assert problems == ()
    assert settings.submodules == ({"CAPTURE": logging.INFO} if "CAPTURE" in text else {})


def test_the_references_own_sub_modules_are_no_problem_in_its_own_variable():
    settings, problems = log_settings({"MS_SUBMODULE_LOG_v": "{PARSER:2,ANALYZER:2,CAPTURE:0}"})
    assert settings.submodules == {"CAPTURE": logging.DEBUG}
    assert problems == ()
    assert log_settings({"SONDE_SUBMODULE_LOG_V": "{PARSER:2}"})[1] != ()


@given(st.dictionaries(st.sampled_from(SUBMODULES), st.sampled_from(sorted(LEVELS))))
def test_every_set_of_levels_is_read_back(levels: dict[str, str]):
    text = "{" + ",".join(f"{name}:{level}" for name, level in levels.items()) + "}"
    settings, problems = log_settings({"SONDE_SUBMODULE_LOG_V": text} if levels else {})
    assert settings.submodules == {name: LEVELS[level] for name, level in levels.items()}
    assert problems == ()


@given(st.sampled_from(BOTH), st.text())
def test_no_value_of_any_variable_raises(variable: tuple[str, str], text: str):
    settings, _ = log_settings({variable[1]: text})
    assert isinstance(settings, LogSettings)
