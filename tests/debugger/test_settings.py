"""The settings of the debugger in the environment."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from sonde.core.errors import UsageError
from sonde.debugger.settings import options_from_environment, run_id


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


def test_every_setting_is_read_from_the_environment() -> None:
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
        ("SONDE_DEBUGGER_LOST", "-1", "debugger-setting"),
        ("SONDE_DEBUGGER_WAIT", "nan", "debugger-setting"),
        ("SONDE_DEBUGGER_BUDGET", "much", "size"),
        ("SONDE_DEBUGGER_WATCH", "/nowhere.json", "watchpoint-file"),
    ],
)
def test_an_invalid_setting_is_named(name: str, text: str, slug: str) -> None:
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
