"""Logging as real processes do it: screens, files, ranks, forks, and the user's own logging."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sonde import logs

LINE = re.compile(
    r"\[(\w+)\] SONDE\((\d+),MainThread\):\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3} "
    r"\[(sonde[\w.]*) [^:]+:\d+\] (.*)"
)
SPEAK = """
import logging
from sonde import logs
logs.configure()
for name in ("capture", "dump", "train"):
    for level in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger("sonde." + name), level)("%s", level)
"""


def _run(code: str = SPEAK, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GLOG", "SONDE", "MS_", "RANK", "logger_"))
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=True,
    )


def _said(text: str) -> list[tuple[str, str]]:
    """Which logger said what, line by line; every line must be of the documented form."""
    matches = [LINE.fullmatch(line) for line in text.splitlines()]
    assert all(matches), text
    return [(match[3].removeprefix("sonde."), match[4]) for match in matches if match]


@pytest.fixture
def clean():
    logs.reset()
    logger = logging.getLogger("sonde")
    before = (list(logger.handlers), logger.level, logger.propagate)
    yield logger
    logs.reset()
    assert (list(logger.handlers), logger.level, logger.propagate) == before


@pytest.mark.document(54)
def test_by_default_warnings_and_errors_go_to_the_screen():
    done = _run()
    assert _said(done.stderr) == [
        (name, level) for name in ("capture", "dump", "train") for level in ("warning", "error")
    ]
    assert done.stdout == ""


@pytest.mark.document(
    54,
    says="`GLOG_v`: the log level, 0: DEBUG; 1: INFO; 2: WARNING; 3: ERROR; default 2",
    how="the same variable, or SONDE_LOG_V",
)
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("0", ["debug", "info", "warning", "error"]),
        ("1", ["info", "warning", "error"]),
        ("2", ["warning", "error"]),
        ("3", ["error"]),
        ("4", []),
    ],
)
@pytest.mark.parametrize("name", ["GLOG_v", "SONDE_LOG_V"])
def test_the_level_is_the_documents(name: str, value: str, shown: list[str]):
    said = _said(_run(**{name: value}).stderr)
    assert [level for module, level in said if module == "dump"] == shown


@pytest.mark.document(
    60,
    says='`MS_SUBMODULE_LOG_v="{SubModule1:LogLevel1,SubModule2:LogLevel2,...}"`',
    how="the same variable, or SONDE_SUBMODULE_LOG_V; sub modules CAPTURE, DUMP, TRAIN, ...: "
    "docs/logs.md",
)
def test_a_sub_modules_level_overrides_the_global_one():
    said = _said(_run(GLOG_v="1", MS_SUBMODULE_LOG_v="{DUMP:3,CAPTURE:0}").stderr)
    assert [level for name, level in said if name == "dump"] == ["error"]
    assert [level for name, level in said if name == "capture"] == [
        "debug",
        "info",
        "warning",
        "error",
    ]
    assert [level for name, level in said if name == "train"] == ["info", "warning", "error"]


@pytest.mark.parametrize("rank", [{}, {"RANK": "3"}, {"RANK_ID": "3"}])
def test_a_file_gets_everything_and_the_screen_the_warnings(tmp_path: Path, rank: dict[str, str]):
    done = _run(GLOG_v="0", GLOG_logtostderr="0", GLOG_log_dir=str(tmp_path), **rank)
    folder = tmp_path / f"rank_{3 if rank else 0}" / "logs"
    (file,) = folder.iterdir()
    said = _said(file.read_text())
    assert len(said) == 12
    pid = LINE.fullmatch(file.read_text().splitlines()[0])[2]
    assert file.name == f"sonde.log.{pid}"
    assert _said(done.stderr) == [one for one in said if one[1] in ("warning", "error")]


def test_the_threshold_of_the_screen_can_be_raised(tmp_path: Path):
    done = _run(
        SONDE_LOG_TO_STDERR="0", SONDE_LOG_DIR=str(tmp_path), SONDE_LOG_STDERR_THRESHOLD="3"
    )
    assert {level for _, level in _said(done.stderr)} == {"error"}


@pytest.mark.document(
    58,
    says="`GLOG_log_dir` specified and `GLOG_logtostderr` 1: to the screen but not to a file",
    how="the same",
)
def test_a_log_directory_without_logging_to_a_file_stays_empty(tmp_path: Path):
    done = _run(GLOG_log_dir=str(tmp_path), GLOG_logtostderr="1")
    assert list(tmp_path.iterdir()) == []
    assert len(_said(done.stderr)) == 6


def test_bad_values_are_reported_once_and_the_default_is_used():
    twice = "from sonde import logs; logs.configure()\n" + SPEAK
    said = _said(_run(twice, GLOG_v="loud").stderr)
    assert said[0] == (
        "sonde",
        "GLOG_v=loud must be 0 (DEBUG), 1 (INFO), 2 (WARNING), 3 (ERROR) or 4 (CRITICAL); "
        "using the default [log-setting]",
    )
    assert len(said) == 7


def test_a_directory_that_cannot_be_written_is_reported_and_the_screen_is_used(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    said = _said(_run(SONDE_LOG_TO_STDERR="0", SONDE_LOG_DIR=str(tmp_path / "file")).stderr)
    assert "cannot be written (Not a directory); logging to the screen [log-file]" in said[0][1]
    assert len(said) == 7


@pytest.mark.document(
    62,
    says="the glog does not support log rotate; use logrotate of Linux",
    how="files turn over by size: logger_maxBytes, logger_backupCount (50 MB, 30 files)",
)
def test_files_turn_over_by_size_and_only_so_many_are_kept(tmp_path: Path):
    code = SPEAK + "\nfor n in range(200): logging.getLogger('sonde.dump').error('%04d', n)"
    _run(
        code,
        SONDE_LOG_TO_STDERR="0",
        SONDE_LOG_DIR=str(tmp_path),
        SONDE_LOG_MAX_BYTES="2000",
        SONDE_LOG_BACKUP_COUNT="3",
    )
    files = sorted((tmp_path / "rank_0" / "logs").iterdir())
    assert len(files) == 4
    assert [file.name.rpartition(".")[2] for file in files[1:]] == ["1", "2", "3"]
    assert all(file.stat().st_size <= 2000 for file in files)
    newest = [message for _, message in _said(files[0].read_text())]
    assert newest[-1] == "0199"


def test_without_old_files_the_one_file_keeps_to_the_size(tmp_path: Path):
    code = """
import logging
from sonde import logs
logs.configure()
for number in range(200):
    logging.getLogger("sonde.dump").error("message %d", number)
"""
    bounds = {"SONDE_LOG_MAX_BYTES": "500", "SONDE_LOG_BACKUP_COUNT": "0"}
    _run(code, SONDE_LOG_TO_STDERR="0", SONDE_LOG_DIR=str(tmp_path), **bounds)
    (path,) = (tmp_path / "rank_0" / "logs").iterdir()
    assert 0 < path.stat().st_size <= 500
    assert path.read_text().endswith("message 199\n")


def test_a_training_run_reads_the_variables():
    code = """
import logging
from sonde.train import callbacks
with callbacks():
    logging.getLogger("sonde.train").info("seen")
"""
    assert _said(_run(code, GLOG_v="1").stderr) == [("train", "seen")]
    assert _said(_run(code).stderr) == []


def test_a_forked_child_writes_a_file_of_its_own(tmp_path: Path):
    code = SPEAK + (
        "\nimport os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    logging.getLogger('sonde.dump').error('from the child')\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "logging.getLogger('sonde.dump').error('from the parent')\n"
        "print(os.getpid(), child)"
    )
    done = _run(code, SONDE_LOG_TO_STDERR="0", SONDE_LOG_DIR=str(tmp_path))
    parent, child = done.stdout.split()
    folder = tmp_path / "rank_0" / "logs"
    assert _said((folder / f"sonde.log.{child}").read_text()) == [("dump", "from the child")]
    said = _said((folder / f"sonde.log.{parent}").read_text())
    assert said[-1] == ("dump", "from the parent")
    assert ("dump", "from the child") not in said


def test_the_users_screen_handler_shows_a_message_once_and_in_the_users_form():
    code = (
        "import logging; logging.basicConfig(format='mine %(message)s')\n"
        "from sonde import logs; logs.configure()\n"
        "logging.getLogger('sonde.dump').warning('hello')\n"
        "logging.getLogger('other').warning('theirs')"
    )
    assert _run(code).stderr == "mine hello\nmine theirs\n"


def test_the_users_file_gets_messages_and_so_does_the_screen(tmp_path: Path):
    path = tmp_path / "user.log"
    code = (
        f"import logging; logging.basicConfig(filename={str(path)!r}, format='mine %(message)s')\n"
        "from sonde import logs; logs.configure()\n"
        "logging.getLogger('sonde.dump').warning('hello')"
    )
    assert _said(_run(code).stderr) == [("dump", "hello")]
    assert path.read_text() == "mine hello\n"


def test_nothing_is_put_on_the_root_logger_or_on_others(clean: logging.Logger):
    root = logging.getLogger()
    before = (list(root.handlers), root.level, logging.getLogger("torch").handlers[:])
    logs.configure({"GLOG_v": "0"})
    assert (list(root.handlers), root.level, logging.getLogger("torch").handlers[:]) == before
    assert clean.propagate is True


def test_configuring_twice_changes_nothing_and_other_variables_replace(clean, tmp_path):
    logs.configure({"GLOG_v": "0"})
    handlers = list(clean.handlers)
    logs.configure({"GLOG_v": "0"})
    assert clean.handlers == handlers
    assert clean.level == logging.DEBUG
    logs.configure({"SONDE_SUBMODULE_LOG_V": "{DUMP:0}"})
    assert len(clean.handlers) == len(handlers)
    assert clean.level == logging.WARNING
    assert logging.getLogger("sonde.dump").level == logging.DEBUG
    logs.configure({})
    assert logging.getLogger("sonde.dump").level == logging.NOTSET


def test_the_users_own_level_stays_unless_a_variable_says_another(clean: logging.Logger):
    clean.setLevel(logging.INFO)
    try:
        logs.configure({})
        assert clean.level == logging.INFO
        logs.configure({"GLOG_v": "3"})
        assert clean.level == logging.ERROR
        logs.reset()
        assert clean.level == logging.INFO
    finally:
        clean.setLevel(logging.NOTSET)


def test_messages_reach_the_users_handlers_further_up(clean, caplog):
    logs.configure({"GLOG_v": "1"})
    logging.getLogger("sonde.train").info("seen by both")
    assert [record.getMessage() for record in caplog.records] == ["seen by both"]


def test_importing_sonde_sets_up_no_logging():
    code = "import logging, sonde, sonde.logs; print(logging.getLogger('sonde').handlers)"
    assert _run(code).stdout == "[]\n"
