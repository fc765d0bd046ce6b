"""Sonde's log messages, to the screen or to a file, as the environment says.

All handlers are on the logger ``sonde``; the root logger and other loggers are never changed, and
records still propagate to the user's own handlers. `say` prints a line for the user. See
``docs/logs.md`` for the variables.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from sonde.core.observation_variables import launched_rank
from sonde.logs.handlers import ScreenHandler, log_path, open_files
from sonde.logs.lines import hand_out
from sonde.logs.settings import SUBMODULES, LogSettings, log_settings

LOGGER = "sonde"


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


def say(text: str) -> None:
    """Print a line for the user: on the screen as ``sonde: text``, and in the log.

    ``text`` may begin with ``sonde: ``; a line about a problem is a `ProblemLine`. Level 3 (ERROR)
    silences it, like a warning.
    """
    hand_out(text, _handlers(), level=logging.WARNING, is_always_shown=False)


def say_result(text: str) -> None:
    """Print a line without which a command is of no use, such as the address of the page."""
    hand_out(text, _handlers(), level=logging.WARNING, is_always_shown=True)


def say_errors(text: str) -> None:
    """Print the error that ends a command, line by line: at every level, since the exit code alone
    does not say what to do."""
    for line in text.splitlines():
        hand_out(line, _handlers(), level=logging.ERROR, is_always_shown=True)


def _handlers() -> list[logging.Handler]:
    if _installed is None:
        configure()
    return [] if _installed is None else _installed.handlers


class _OwnLogger(logging.Logger):
    """A logger that ``logging.config`` does not disable.

    Its functions disable every logger that a configuration does not name, unless
    ``disable_existing_loggers`` says otherwise; programs rarely mean Sonde's.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name != "disabled":
            super().__setattr__(name, value)


def _set_class(logger: logging.Logger, kind: type[logging.Logger]) -> None:
    logger.__class__ = kind


def _own_loggers() -> list[logging.Logger]:
    names = (LOGGER, *(f"{LOGGER}.{module.lower()}" for module in SUBMODULES))
    return [logging.getLogger(name) for name in names]


def _is_current(installed: _Installed, settings: LogSettings, rank: int) -> bool:
    present = logging.getLogger(LOGGER).handlers
    return (installed.settings, installed.rank) == (settings, rank) and all(
        handler in present for handler in installed.handlers
    )


def _install(settings: LogSettings, rank: int) -> _Installed:
    installed = _Installed(settings, rank)
    screen = ScreenHandler()
    installed.handlers.append(screen)
    try:
        files = open_files(settings, rank)
    except OSError as error:
        path = log_path(settings, rank)
        installed.file_problem = (
            f"{path} cannot be written ({error.strerror}); logging to the screen"
        )
        files = []
    if files:
        screen.setLevel(settings.stderr_threshold)
    installed.handlers += files
    logger = logging.getLogger(LOGGER)
    for each in _own_loggers():
        if type(each) is logging.Logger:
            each.disabled = False
            _set_class(each, _OwnLogger)
    for handler in installed.handlers:
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
    for each in _own_loggers():
        if type(each) is _OwnLogger:
            _set_class(each, logging.Logger)


def _warn_once(problem: str, *, slug: str) -> None:
    if problem not in _warned:
        _warned.add(problem)
        logging.getLogger(LOGGER).warning("%s [%s]", problem, slug)


def _rank(environ: Mapping[str, str]) -> int:
    rank = launched_rank(environ)
    if rank is not None:
        return rank
    text = environ.get("RANK_ID", "")
    return int(text) if text.isdecimal() else 0
