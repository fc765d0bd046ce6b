"""Lines for the user: on the screen, in the log file, and whatever the program's own logging."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sonde import logs
from sonde.adapters.torch.rank_lines import RankLines
from sonde.core.errors import UsageError
from sonde.core.text.problem_line import ProblemLine

SAY = """
from sonde import logs
from sonde.core.text.problem_line import ProblemLine
logs.say("sonde: a notice")
logs.say(ProblemLine("a warning", slug="op-unmatched"))
"""
BOTH = "sonde: a notice\nsonde: a warning [op-unmatched]\n"


def _run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
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


def _files(folder: Path) -> dict[str, list[str]]:
    """The lines of each log file."""
    return {path.name: path.read_text().splitlines() for path in sorted(folder.rglob("*.*"))}


@pytest.mark.parametrize(
    ("level", "shown"), [("", BOTH), ("0", BOTH), ("1", BOTH), ("2", BOTH), ("3", ""), ("4", "")]
)
def test_lines_are_shown_where_warnings_are(level: str, shown: str) -> None:
    done = _run(SAY, GLOG_v=level)
    assert (done.stdout, done.stderr) == ("", shown)


@pytest.mark.document(
    57,
    says="`GLOG_log_dir`: logs go to a file",
    how="the same; the file also has every line that the screen shows",
)
def test_the_file_has_the_lines_with_their_level_and_place(tmp_path: Path) -> None:
    done = _run(SAY, GLOG_logtostderr="0", GLOG_log_dir=str(tmp_path))
    assert done.stderr == BOTH
    ((name, lines),) = _files(tmp_path).items()
    assert name.startswith("sonde.log.")
    assert [line.partition(" ")[0] for line in lines] == ["[NOTICE]", "[WARNING]"]
    assert [line.partition("] ")[2].partition("] ")[2] for line in lines] == [
        "a notice",
        "a warning [op-unmatched]",
    ]


def _level_of(line: str) -> str:
    """The level that the log has for a line of the second of two ranks."""
    seen: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.levelname)

    handler = Keeping()
    logging.getLogger().addHandler(handler)
    try:
        RankLines(1, has_others=True)(line)
    finally:
        logging.getLogger().removeHandler(handler)
    (level,) = seen
    return level


def test_the_level_is_told_by_the_caller_not_by_the_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _level_of("sonde: found [in-brackets]") == "NOTICE"
    assert _level_of(ProblemLine("sonde: a warning", slug="op-unmatched")) == "WARNING"
    error = UsageError("wrong", slug="usage")
    assert _level_of(ProblemLine.about(error, "sonde: so ")) == "WARNING"
    assert capsys.readouterr().err == (
        "sonde: rank 1: found [in-brackets]\n"
        "sonde: rank 1: a warning [op-unmatched]\n"
        "sonde: rank 1: so wrong [usage]\n"
    )


def test_the_log_names_the_module_and_the_line_that_speaks(clean_handler: list[str]) -> None:
    namespace = {"__name__": "sonde.dump.sinks.steps"}
    exec(compile("def speak(report):\n    report('sonde: a line')", "steps.py", "exec"), namespace)
    namespace["speak"](RankLines(0))  # type: ignore[operator]
    assert clean_handler == ["sonde.dump steps.py:2 a line"]


@pytest.fixture
def clean_handler():
    """What a handler of the program gets."""
    said: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(f"{record.name} {record.filename}:{record.lineno} {record.getMessage()}")

    handler = Keeping()
    logging.getLogger().addHandler(handler)
    yield said
    logging.getLogger().removeHandler(handler)


def test_the_level_of_a_sub_module_holds_for_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    namespace = {"__name__": "sonde.dump.sinks.steps"}
    exec("def speak(say):\n    say('from dump')", namespace)
    logs.reset()
    logs.configure({"MS_SUBMODULE_LOG_v": "{DUMP:3}"})
    try:
        namespace["speak"](logs.say)  # type: ignore[operator]
        logs.say("from elsewhere")
    finally:
        logs.reset()
    assert capsys.readouterr().err == "sonde: from elsewhere\n"


def test_an_error_that_ends_a_command_is_seen_at_every_level(tmp_path: Path) -> None:
    code = "from sonde.cli.main import main; print(main(['rnu']))"
    for level in "034":
        done = _run(code, GLOG_v=level, GLOG_logtostderr="0", GLOG_log_dir=str(tmp_path / level))
        assert done.stdout == "2\n"
        assert done.stderr == "sonde: 'rnu' is not a command; did you mean 'run'? [usage]\n"
        ((_, lines),) = _files(tmp_path / level).items()
        assert [line for line in lines if line.startswith("[ERROR]")] == lines[int(level == "0") :]
        assert bool(lines) == (level != "4")


@pytest.mark.parametrize(
    "setup",
    [
        "logging.basicConfig(level=logging.DEBUG)",
        "logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)",
        "logging.config.dictConfig({'version': 1})",
        "logging.config.dictConfig({'version': 1, 'root': {'level': 'DEBUG', 'handlers': ['h']}, "
        "'handlers': {'h': {'class': 'logging.StreamHandler'}}})",
        "logging.config.dictConfig({'version': 1, 'loggers': {'sonde': {'handlers': ['h']}}, "
        "'handlers': {'h': {'class': 'logging.StreamHandler'}}})",
        "logging.disable()",
        "logging.getLogger().handlers.clear()",
        "logging.setLoggerClass(type('Own', (logging.Logger,), {}))",
        "logging.shutdown()",
    ],
)
@pytest.mark.parametrize("when", ["before", "after", "between"])
def test_the_programs_logging_neither_hides_nor_repeats_a_line(
    setup: str, when: str, tmp_path: Path
) -> None:
    own = {
        "before": f"{setup}\nlogs.configure()",
        "after": f"logs.configure()\n{setup}",
        "between": f"import sonde.logs.lines\nlogging.getLogger('sonde.dump')\n{setup}",
    }[when]
    code = f"import logging, logging.config, sys\nfrom sonde import logs\n{own}\n{SAY}"
    done = _run(code, GLOG_logtostderr="0", GLOG_log_dir=str(tmp_path))
    assert (done.stdout, done.stderr) == ("", BOTH)
    ((_, lines),) = _files(tmp_path).items()
    assert len(lines) == 2


def test_log_messages_survive_a_configuration_that_disables_other_loggers(tmp_path: Path) -> None:
    code = (
        "import logging, logging.config\nfrom sonde import logs\nlogs.configure()\n"
        "log = logging.getLogger('sonde.dump')\nlogging.config.dictConfig({'version': 1})\n"
        "log.info('seen')"
    )
    _run(code, GLOG_v="1", GLOG_logtostderr="0", GLOG_log_dir=str(tmp_path))
    ((_, lines),) = _files(tmp_path).items()
    assert [line.rpartition("] ")[2] for line in lines] == ["seen"]


def test_the_programs_file_gets_the_lines_and_the_screen_too(tmp_path: Path) -> None:
    path = tmp_path / "user.log"
    code = f"import logging; logging.basicConfig(filename={str(path)!r}, format='%(message)s')"
    assert _run(code + SAY).stderr == BOTH
    assert path.read_text() == "a notice\na warning [op-unmatched]\n"


def test_a_handler_of_the_program_that_raises_does_not_end_it() -> None:
    code = (
        "import logging\nclass Bad(logging.Handler):\n    def emit(self, record): raise OSError\n"
        "logging.getLogger().addHandler(Bad())\n"
    )
    assert _run(code + SAY).stderr == BOTH


def test_a_full_disk_is_reported_once(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    code = (
        "from sonde import logs\nlogs.configure()\nimport sonde.logs as state\n"
        "file = state._installed.handlers[1]\nfile.maxBytes = 0\n"
        "file.stream.close()\nfile.stream = open('/dev/full', 'w', buffering=1)\n"
    )
    done = _run(code + SAY, GLOG_logtostderr="0", GLOG_log_dir=str(tmp_path))
    assert "No space left on device [log-file]" in done.stderr
    assert done.stderr.count("[log-file]") == 1
    assert "sonde: a warning" in done.stderr


@pytest.mark.document(
    59,
    says="the file is named `mindspore.log`, or "
    "`mindspore.MachineName.UserName.log.LogLevel.Timestamp`",
    how="`rank_N/logs/sonde.log.PID`; `SONDE_LOG_FILE_NAME` sets either name, with one file for "
    "each level",
)
def test_the_files_can_have_the_names_of_the_document(tmp_path: Path) -> None:
    variables = {"GLOG_logtostderr": "0", "GLOG_v": "1"}
    one = tmp_path / "one"
    name = {"SONDE_LOG_FILE_NAME": "mindspore.log"}
    _run(SAY, GLOG_log_dir=str(one), **variables, **name)
    assert [*_files(one)] == ["mindspore.log"]

    code = SAY + "import logging\nlogging.getLogger('sonde.dump').info('for the curious')"
    pattern = {"SONDE_LOG_FILE_NAME": "mindspore.{machine}.{user}.log.{level}.{time}"}
    many = tmp_path / "many"
    _run(code, GLOG_log_dir=str(many), **variables, **pattern)
    found = _files(many)
    by_level = {name.split(".log.")[1].split(".")[0]: lines for name, lines in found.items()}
    assert {level: len(lines) for level, lines in by_level.items()} == {"INFO": 3, "WARNING": 2}
    machine = os.uname().nodename
    assert all(name.startswith(f"mindspore.{machine}.") for name in found)


@pytest.mark.parametrize("text", ["a/b", "{host}", "{pid", "..", "{0}", "{pid.x}", "{pid:zz}"])
def test_a_name_that_cannot_be_used_is_reported(text: str) -> None:
    from sonde.logs.settings import FILE_NAME, log_settings

    settings, (problem,) = log_settings({"SONDE_LOG_FILE_NAME": text})
    assert settings.file_name == FILE_NAME
    assert problem.startswith(f"SONDE_LOG_FILE_NAME={text} must be a file name")
