"""What the environment says of the debugger."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from sonde.core.errors import UsageError
from sonde.debugger.settings import (
    DEFAULT_BUDGET,
    options_from_environment,
    run_id,
    unused_variables,
)


def test_without_settings_there_is_no_debugger() -> None:
    assert options_from_environment({}) is None
    assert options_from_environment({"MS_DEBUGGER_PORT": "1"}) is None
    assert options_from_environment({"ENABLE_MS_DEBUGGER": "0"}) is None


def test_the_short_way() -> None:
    options = options_from_environment({"SONDE_DEBUGGER_PORT": "1234", "SONDE_RUN_ID": "r"})
    assert options is not None
    assert (options.host, options.port, options.run) == ("127.0.0.1", 1234, "r")
    assert options.pause is None


def test_the_names_of_the_document() -> None:
    environ = {
        "ENABLE_MS_DEBUGGER": "1",
        "MS_DEBUGGER_HOST": "10.0.0.1",
        "MS_DEBUGGER_PORT": "50052",
    }
    options = options_from_environment(environ)
    assert options is not None
    assert options.address == "10.0.0.1:50052"


@pytest.mark.document(
    217,
    says="`ENABLE_MS_DEBUGGER=1`, `MS_DEBUGGER_HOST`, `MS_DEBUGGER_PORT`",
    how="the same variables, under `sonde run`, and after `sonde enable` with plain `python`; a "
    "value such as `yes` is reported",
)
@pytest.mark.parametrize("text", ["yes", "on", "2", " maybe"])
def test_another_value_than_1_or_0_is_reported_once_and_enables_nothing(text: str) -> None:
    environ = {"ENABLE_MS_DEBUGGER": text, "MS_DEBUGGER_PORT": "50052"}
    assert options_from_environment(environ) is None
    assert unused_variables(environ) == [
        f"ENABLE_MS_DEBUGGER must be 1 or 0 (got {text.strip()!r}); the program runs without the "
        "debugger [variable-unused]"
    ]


def test_the_address_alone_is_reported_to_have_no_effect() -> None:
    environ = {"MS_DEBUGGER_HOST": "h", "MS_DEBUGGER_PARTIAL_MEM": "1"}
    assert [line.split()[0] for line in unused_variables(environ)] == [*environ]
    for asked in ({"ENABLE_MS_DEBUGGER": "0"}, {"SONDE_DEBUGGER_PORT": "1"}):
        assert unused_variables({**environ, **asked}) == []
    assert unused_variables({"ENABLE_MS_DEBUGGER": "True"}) == []


@pytest.mark.document(
    218,
    says="`MS_DEBUGGER_PARTIAL_MEM=1` saves memory",
    how="the debugger keeps values in 64 MiB instead of 256 MiB; `SONDE_DEBUGGER_BUDGET` sets any "
    "other size",
)
def test_the_mode_for_little_memory_makes_the_budget_smaller() -> None:
    environ = {"ENABLE_MS_DEBUGGER": "1", "MS_DEBUGGER_PARTIAL_MEM": "1"}
    options = options_from_environment(environ)
    assert options is not None
    assert options.budget_bytes == 64 << 20
    options = options_from_environment({**environ, "SONDE_DEBUGGER_BUDGET": "1M"})
    assert options is not None
    assert options.budget_bytes == 1 << 20
    options = options_from_environment({**environ, "MS_DEBUGGER_PARTIAL_MEM": "0"})
    assert options is not None
    assert options.budget_bytes == DEFAULT_BUDGET


def test_everything_that_can_be_set() -> None:
    options = options_from_environment(
        {
            "SONDE_DEBUGGER_HOST": "h",
            "SONDE_DEBUGGER_TOKEN": "t",
            "SONDE_DEBUGGER_PAUSE": "0",
            "SONDE_DEBUGGER_WAIT": "1.5",
            "SONDE_DEBUGGER_LOST": "forever",
            "SONDE_DEBUGGER_BUDGET": "1M",
            "SONDE_DEBUGGER_RECOMMENDED": "1",
        }
    )
    assert options is not None
    assert (options.token, options.pause, options.wait_seconds) == ("t", False, 1.5)
    assert (options.lost_seconds, options.budget_bytes) == (inf, 1 << 20)
    assert [spec.id for spec in options.watchpoints] == list(range(1, len(options.watchpoints) + 1))
    assert len(options.watchpoints) > 5


@pytest.mark.parametrize(
    ("name", "text", "slug"),
    [
        ("SONDE_DEBUGGER_PORT", "none", "debugger-port"),
        ("SONDE_DEBUGGER_PORT", "70000", "debugger-port"),
        ("SONDE_DEBUGGER_PAUSE", "maybe", "debugger-setting"),
        ("MS_DEBUGGER_PARTIAL_MEM", "yes", "debugger-setting"),
        ("SONDE_DEBUGGER_LOST", "-1", "debugger-setting"),
        ("SONDE_DEBUGGER_WAIT", "nan", "debugger-setting"),
        ("SONDE_DEBUGGER_BUDGET", "much", "size"),
        ("SONDE_DEBUGGER_WATCH", "/nowhere.json", "watchpoint-file"),
    ],
)
def test_what_cannot_be_read_is_named(name: str, text: str, slug: str) -> None:
    with pytest.raises(UsageError) as caught:
        options_from_environment({"SONDE_DEBUGGER_HOST": "h", name: text})
    assert caught.value.slug == slug
    assert text in caught.value.message
    assert name in caught.value.message or slug == "watchpoint-file"  # which names the file


@pytest.mark.parametrize(
    "content",
    [
        "{",
        '{"watchpoints": 3}',
        '{"watchpoints": [{"name": "", "conditions": [{"id": "no_such"}]}]}',
        '{"watchpoints": [{"name": "", "conditions": [{"id": "weight_overflow"}],'
        ' "ops": ["name-regex(()"]}]}',
    ],
)
def test_a_wrong_file_of_watchpoints_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "points.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"points\.json"):
        options_from_environment({"SONDE_DEBUGGER_HOST": "h", "SONDE_DEBUGGER_WATCH": str(file)})


def test_the_run_of_a_launcher_is_the_same_for_all_ranks() -> None:
    assert run_id({"TORCHELASTIC_RUN_ID": "job 7/a"}) == "job-7-a"
    torchrun = {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "h", "MASTER_PORT": "29500"}
    assert run_id(torchrun) == "h-29500"
    assert run_id({}) != ""
