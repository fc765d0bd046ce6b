"""Sonde's log messages, to the screen or to a file, as the environment says.

All handlers are on the logger ``sonde``; the root logger and other loggers are never changed, and
records still propagate to the user's own handlers. See ``docs/logs.md`` for the variables.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sonde.core.files.atomic_file import without_links
from sonde.logs.settings import LogSettings, log_settings

LOGGER = "sonde"
FILE_NAME = "sonde.log"
_FORMAT = (
    "[%(levelname)s] SONDE(%(process)d,%(threadName)s):%(asctime)s.%(msecs)03d "
    "[%(name)s %(filename)s:%(lineno)d] %(message)s"
)
_DATE_FORMAT = "%Y-%m-%d-%H:%M:%S"


@dataclass(slots=True)
class _Installed:
    """The handlers and levels that ``configure`` has set, so that ``reset`` can undo them."""

    settings: LogSettings
    rank: int
    handlers: list[logging.Handler] = field(default_factory=list)
    levels: dict[str, int] = field(default_factory=dict)
    file_problem: str | None = None


_lock = threading.Lock()
_installed: _Installed | None = None
_warned: set[str] = set()


def configure(environ: Mapping[str, str] | None = None, *, rank: int | None = None) -> LogSettings:
    """Set up Sonde's loggers as the variables (of ``os.environ``) say.

    A second call with the same variables changes nothing, with others it replaces what the first
    did. ``rank`` names the directory of the log file; without it ``RANK`` or ``RANK_ID`` does.
    A level the user has set on the logger ``sonde`` stays unless a variable says another. Problems
    with the variables are logged as warnings, each once in the life of the process.
    """
    global _installed
    environ = os.environ if environ is None else environ
    settings, problems = log_settings(environ)
    number = _rank(environ) if rank is None else rank
    with _lock:
        if _installed is None or not _is_current(_installed, settings, number):
            _uninstall(_installed)
            _installed = _install(settings, number)
        file_problem = _installed.file_problem
    for problem in problems:
        _warn_once(problem, slug="log-setting")
    if file_problem is not None:
        _warn_once(file_problem, slug="log-file")
    return settings


def reset() -> None:
    """Undo what ``configure`` has done to Sonde's loggers."""
    global _installed
    with _lock:
        _uninstall(_installed)
        _installed = None


def log_path(settings: LogSettings, rank: int) -> Path | None:
    """The log file of this process; None when messages go to the screen only."""
    if settings.to_stderr or settings.directory is None:
        return None
    return Path(settings.directory, f"rank_{rank}", "logs", f"{FILE_NAME}.{os.getpid()}")


if TYPE_CHECKING:
    _TextHandler = logging.StreamHandler[TextIO]
else:
    _TextHandler = logging.StreamHandler


class _Screen(_TextHandler):
    """Writes to what ``sys.stderr`` is at that moment, unless the user's handler already does.

    The record goes on to the handlers of the user; a message shown by one of them on the screen
    is not shown a second time.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None and not self._is_shown_by_another(record):
            self.stream = sys.stderr
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the parent's name
        """Say nothing: the program has closed the screen, or put any object in its place."""

    def _is_shown_by_another(self, record: logging.LogRecord) -> bool:
        screens = (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            for handler in logger.handlers:
                if (
                    handler is not self
                    and isinstance(handler, logging.StreamHandler)
                    and handler.stream in screens
                    and record.levelno >= handler.level
                ):
                    return True
            logger = logger.parent if logger.propagate else None
        return False


class _ProcessFile(RotatingFileHandler):
    """A log file per process: after a fork the child goes on in a file of its own."""

    def __init__(self, settings: LogSettings, rank: int, path: Path) -> None:
        self._settings = settings
        self._rank = rank
        self._pid = os.getpid()
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(
            path,
            maxBytes=settings.max_bytes,
            backupCount=settings.backup_count,
            encoding="utf-8",
            errors="backslashreplace",
        )

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

    def doRollover(self) -> None:  # noqa: N802 - the name the parent class calls
        if not self.backupCount and self.stream is not None:
            # The parent class would go on in the same file and let it grow without end.
            self.stream.truncate(0)
        super().doRollover()

    def _move_to_own_file(self) -> None:
        path = log_path(self._settings, self._rank)
        assert path is not None
        self._pid = os.getpid()
        # The parent keeps its file; this process only closes its own descriptor.
        if self.stream is not None:
            self.stream.close()
        self.baseFilename = os.path.abspath(path)
        self.stream = self._open()


def _is_current(installed: _Installed, settings: LogSettings, rank: int) -> bool:
    present = logging.getLogger(LOGGER).handlers
    return (installed.settings, installed.rank) == (settings, rank) and all(
        handler in present for handler in installed.handlers
    )


def _install(settings: LogSettings, rank: int) -> _Installed:
    installed = _Installed(settings, rank)
    screen = _Screen()
    installed.handlers.append(screen)
    path = log_path(settings, rank)
    if path is not None:
        try:
            installed.handlers.append(_ProcessFile(settings, rank, path))
            screen.setLevel(settings.stderr_threshold)
        except OSError as error:
            installed.file_problem = (
                f"{path} cannot be written ({error.strerror}); logging to the screen"
            )
    logger = logging.getLogger(LOGGER)
    for handler in installed.handlers:
        handler.setFormatter(logging.Formatter(_FORMAT, _DATE_FORMAT))
        logger.addHandler(handler)
    if settings.level is not None or logger.level == logging.NOTSET:
        _set_level(installed, LOGGER, settings.level or logging.WARNING)
    for module, level in settings.submodules.items():
        _set_level(installed, f"{LOGGER}.{module.lower()}", level)
    return installed


def _set_level(installed: _Installed, name: str, level: int) -> None:
    logger = logging.getLogger(name)
    installed.levels[name] = logger.level
    logger.setLevel(level)


def _uninstall(installed: _Installed | None) -> None:
    if installed is None:
        return
    for handler in installed.handlers:
        logging.getLogger(LOGGER).removeHandler(handler)
        handler.close()
    for name, level in installed.levels.items():
        logging.getLogger(name).setLevel(level)


def _warn_once(problem: str, *, slug: str) -> None:
    if problem not in _warned:
        _warned.add(problem)
        logging.getLogger(LOGGER).warning("%s [%s]", problem, slug)


def _rank(environ: Mapping[str, str]) -> int:
    for name in ("RANK", "RANK_ID"):
        text = environ.get(name, "")
        if text.isdecimal():
            return int(text)
    return 0
