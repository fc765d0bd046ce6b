"""Where Sonde's log messages go: the screen, and a file per process.

A message with `IS_LINE` is a line for the user (see `sonde.logs.lines`): the screen shows it as
``sonde: the message``, every other message in the form of the log.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sonde.core.files.atomic_file import without_links
from sonde.core.files.directories import make_directory
from sonde.core.interruption import raise_interruption
from sonde.core.text.terminal_text import printable, write_to_stderr
from sonde.logs.settings import LogSettings

IS_LINE = "is_line_of_sonde"
_FORMAT = (
    "[%(levelname)s] SONDE(%(process)d,%(threadName)s):%(asctime)s.%(msecs)03d "
    "[%(name)s %(filename)s:%(lineno)d] %(message)s"
)
_DATE_FORMAT = "%Y-%m-%d-%H:%M:%S"
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
_STARTED = time.strftime("%Y%m%d-%H%M%S")


class LogFormatter(logging.Formatter):
    """The form of the log. Control characters are escaped: names of ops may have them."""

    def __init__(self) -> None:
        super().__init__(_FORMAT, _DATE_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n\t")


class _ScreenFormatter(LogFormatter):
    def format(self, record: logging.LogRecord) -> str:
        if hasattr(record, IS_LINE):
            return printable(f"sonde: {record.getMessage()}")
        return super().format(record)


if TYPE_CHECKING:
    _TextHandler = logging.StreamHandler[TextIO]
else:
    _TextHandler = logging.StreamHandler


class ScreenHandler(_TextHandler):
    """Writes to what ``sys.stderr`` is at that moment.

    A message, other than a line for the user, goes on to the handlers of the user; if one of them
    shows it on the screen, it is not shown a second time.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(_ScreenFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message; dropped if the program has closed its standard error."""
        if hasattr(record, IS_LINE) or not self._is_shown_by_another(record):
            write_to_stderr(f"{self.format(record)}\n")

    def _is_shown_by_another(self, record: logging.LogRecord) -> bool:
        return any(
            handler is not self and is_screen(handler) and record.levelno >= handler.level
            for handler in handlers_of(logging.getLogger(record.name))
        )


def handlers_of(logger: logging.Logger) -> Iterator[logging.Handler]:
    """The handlers that get the messages of ``logger``."""
    current: logging.Logger | None = logger
    while current is not None:
        yield from current.handlers
        current = current.parent if current.propagate else None


def is_screen(handler: logging.Handler) -> bool:
    """Whether ``handler`` writes to standard output or standard error."""
    screens = (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)
    return isinstance(handler, logging.StreamHandler) and any(
        handler.stream is screen for screen in screens if screen is not None
    )


def log_path(settings: LogSettings, rank: int, level: int = logging.DEBUG) -> Path | None:
    """The log file of this process for ``level``; None when messages go to the screen only."""
    if settings.to_stderr or settings.directory is None:
        return None
    name = settings.file_name.format(
        machine=os.uname().nodename or "localhost",
        user=_user(),
        level=logging.getLevelName(level),
        time=_STARTED,
        pid=os.getpid(),
        rank=rank,
    )
    return Path(settings.directory, f"rank_{rank}", "logs", name)


def _user() -> str:
    import getpass  # slow to import, and rarely needed

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A user id without a name, as in some containers.
        return str(os.getuid())


def open_files(settings: LogSettings, rank: int) -> list[logging.Handler]:
    """The files that the settings ask for; OSError if they cannot be written.

    With ``{level}`` in the name there is a file for each level, which has the messages of this
    level and above, as glog writes them; a file is created with its first message.
    """
    lowest = min([settings.level or logging.WARNING, *settings.submodules.values()])
    first = log_path(settings, rank, lowest)
    if first is None:
        return []
    make_directory(first.parent)
    levels = [lowest]
    if log_path(settings, rank, lowest + 1) != first:
        levels = [level for level in _LEVELS if level >= lowest]
    return [_ProcessFile(settings, rank, level, delay=level != lowest) for level in levels]


class _ProcessFile(RotatingFileHandler):
    """A log file per process: after a fork the child goes on in a file of its own."""

    def __init__(self, settings: LogSettings, rank: int, level: int, *, delay: bool) -> None:
        self._settings = settings
        self._rank = rank
        self._level = level
        self._pid = os.getpid()
        self._has_failed = False
        super().__init__(
            self._path(),
            maxBytes=settings.max_bytes,
            backupCount=settings.backup_count,
            encoding="utf-8",
            errors="backslashreplace",
            delay=delay,
        )
        self.setFormatter(LogFormatter())
        if delay:  # The file of the lowest level has everything that passes the loggers' levels.
            self.setLevel(level)

    def _path(self) -> Path:
        path = log_path(self._settings, self._rank, self._level)
        assert path is not None
        return path

    def _open(self) -> TextIOWrapper:
        return open(
            self.baseFilename,
            "a",
            encoding=self.encoding,
            errors=self.errors,
            opener=without_links,
        )

    def emit(self, record: logging.LogRecord) -> None:
        if os.getpid() != self._pid:
            self._move_to_own_file()
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the parent's name
        """Say once that the file cannot be written; an exception of the program is raised again."""
        error = sys.exc_info()[1]
        if error is not None:
            raise_interruption(error)
        if not self._has_failed:
            self._has_failed = True
            write_to_stderr(f"sonde: {self.baseFilename} cannot be written: {error} [log-file]\n")

    def doRollover(self) -> None:  # noqa: N802 - the name the parent class calls
        if not self.backupCount and self.stream is not None:
            # The parent class would go on in the same file and let it grow without end.
            self.stream.truncate(0)
        super().doRollover()

    def _move_to_own_file(self) -> None:
        self._pid = os.getpid()
        # The parent keeps its file; this process only closes its own descriptor.
        if self.stream is not None:
            self.stream.close()
        self.baseFilename = os.path.abspath(self._path())
        self.stream = self._open()
