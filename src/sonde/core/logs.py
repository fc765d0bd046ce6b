"""The logging settings in the environment, parsed once into values.

Every setting has a name of Sonde's own and, where the reference has one, the reference's name;
Sonde's own wins. An empty variable counts as not set. An unusable value is one problem, and the
default is used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

LEVELS = {
    "0": logging.DEBUG,
    "1": logging.INFO,
    "2": logging.WARNING,
    "3": logging.ERROR,
    "4": logging.CRITICAL,
}
"""glog's numbers as levels of Python's logging."""

SUBMODULES = (
    "CORE",
    "KERNELS",
    "DUMP",
    "WATCH",
    "WIRE",
    "CAPTURE",
    "DEBUGGER",
    "COMPARE",
    "DIAGNOSE",
    "ADAPTERS",
    "TRAIN",
    "TUNE",
    "PROFILE",
    "SUMMARY",
    "REPORT",
    "SERVER",
    "INTEGRATIONS",
    "CLI",
)
"""Sonde's sub modules; ``CAPTURE`` is the logger ``sonde.capture``, and so on."""

REFERENCE_SUBMODULES = frozenset(
    {
        *("ANALYZER", "COMMON", "CORE", "DEBUG", "DEVICE", "EXPRESS", "GE_ADPT", "KERNEL", "MD"),
        *("ME", "OPTIMIZER", "PARALLEL", "PARSER", "PIPELINE", "PRE_ACT", "PROFILER", "PYNATIVE"),
        *("SESSION", "UTILS", "VM"),
    }
)
"""The reference's own sub modules, which its variable may name without a complaint from Sonde."""

VARIABLES = {
    "level": ("SONDE_LOG_V", "GLOG_v"),
    "to_stderr": ("SONDE_LOG_TO_STDERR", "GLOG_logtostderr"),
    "directory": ("SONDE_LOG_DIR", "GLOG_log_dir"),
    "submodules": ("SONDE_SUBMODULE_LOG_V", "MS_SUBMODULE_LOG_v"),
    "stderr_threshold": ("SONDE_LOG_STDERR_THRESHOLD", "GLOG_stderrthreshold"),
    "max_bytes": ("SONDE_LOG_MAX_BYTES", "logger_maxBytes"),
    "backup_count": ("SONDE_LOG_BACKUP_COUNT", "logger_backupCount"),
}
"""Sonde's name and the reference's name of each setting."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How Sonde logs. Levels are those of Python's logging.

    ``level`` is None when no variable sets it. When messages go to a file, those from
    ``stderr_threshold`` on go to the screen too. ``max_bytes`` 0 never begins a new file.
    """

    level: int | None = None
    to_stderr: bool = True
    directory: str | None = None
    submodules: Mapping[str, int] = field(default_factory=dict)
    stderr_threshold: int = logging.WARNING
    max_bytes: int = 50 * 1024 * 1024
    backup_count: int = 30


def log_settings(environ: Mapping[str, str]) -> tuple[LogSettings, tuple[str, ...]]:
    """The settings in these variables, and their problems, one sentence each."""
    reader = _Reader(environ)
    default = LogSettings()
    directory = reader.text("directory")
    to_stderr = reader.parsed("to_stderr", _switch, "0 (a file) or 1 (the screen)", True)
    if not to_stderr and directory is None:
        name = reader.name("to_stderr")
        reader.problems.append(
            f"{name}=0 asks for a log file, but {VARIABLES['directory'][0]} (or "
            f"{VARIABLES['directory'][1]}) does not say where; logging to the screen"
        )
        to_stderr = True
    level_rule = "0 (DEBUG), 1 (INFO), 2 (WARNING), 3 (ERROR) or 4 (CRITICAL)"
    settings = LogSettings(
        level=reader.parsed("level", _level, level_rule, None),
        to_stderr=to_stderr,
        directory=directory,
        submodules=reader.submodules(),
        stderr_threshold=reader.parsed(
            "stderr_threshold", _level, level_rule, default.stderr_threshold
        ),
        max_bytes=reader.parsed(
            "max_bytes", _count, "a number of bytes, 0 for no bound", default.max_bytes
        ),
        backup_count=reader.parsed(
            "backup_count", _count, "how many old files are kept", default.backup_count
        ),
    )
    return settings, tuple(reader.problems)


class _Reader:
    """Reads the variables and collects their problems."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.problems: list[str] = []

    def name(self, setting: str) -> str:
        """The variable that has this setting, or Sonde's own name for it when none has."""
        own, reference = VARIABLES[setting]
        return own if self._environ.get(own) or not self._environ.get(reference) else reference

    def text(self, setting: str) -> str | None:
        return self._environ.get(self.name(setting), "").strip() or None

    def parsed(self, setting: str, parse: Callable[[str], T], rule: str, default: T) -> T:
        text = self.text(setting)
        if text is None:
            return default
        try:
            return parse(text)
        except (KeyError, ValueError):
            self.problems.append(f"{self.name(setting)}={text} must be {rule}; using the default")
            return default

    def submodules(self) -> dict[str, int]:
        """``{CAPTURE:1,DUMP:0}``; unusable entries are left out and reported as problems."""
        name, text = self.name("submodules"), self.text("submodules")
        if text is None:
            return {}
        levels: dict[str, int] = {}
        entries = text.removeprefix("{").removesuffix("}").split(",")
        for entry in filter(str.strip, entries):
            module, colon, number = (part.strip() for part in entry.partition(":"))
            module = module.upper()
            if not colon or number not in LEVELS:
                self.problems.append(
                    f"{name}: {entry.strip()!r} must be a sub module and a level from 0 to 4, as "
                    "in {CAPTURE:1,DUMP:0}; left out"
                )
            elif module in SUBMODULES:
                levels[module] = LEVELS[number]
            elif name != VARIABLES["submodules"][1] or module not in REFERENCE_SUBMODULES:
                self.problems.append(
                    f"{name}: there is no sub module {module}; there are {', '.join(SUBMODULES)}; "
                    "left out"
                )
        return levels


def _level(text: str) -> int:
    return LEVELS[text]


def _switch(text: str) -> bool:
    return {"0": False, "1": True}[text]


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value
