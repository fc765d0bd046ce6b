"""The logging settings in the environment, parsed once into values.

Every setting has a variable of Sonde and one of MindSpore; Sonde's takes precedence. An empty
variable counts as not set. An unusable value is reported as a problem, and the default is used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

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
    "DISPLAY",
    "DUMP",
    "WATCH",
    "WIRE",
    "CAPTURE",
    "MONITOR",
    "DEBUGGER",
    "COMPARE",
    "DIAGNOSIS",
    "REPLAY",
    "RANKS",
    "ADAPTERS",
    "TRAIN",
    "TUNE",
    "PROFILE",
    "SUMMARY",
    "REPORT",
    "WORKERS",
    "SERVER",
    "TRENDS",
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
"""MindSpore's own sub modules: its variable may name them, without effect."""

VARIABLES = {
    "level": ("SONDE_LOG_V", "GLOG_v"),
    "to_stderr": ("SONDE_LOG_TO_STDERR", "GLOG_logtostderr"),
    "directory": ("SONDE_LOG_DIR", "GLOG_log_dir"),
    "submodules": ("SONDE_SUBMODULE_LOG_V", "MS_SUBMODULE_LOG_v"),
    "stderr_threshold": ("SONDE_LOG_STDERR_THRESHOLD", "GLOG_stderrthreshold"),
    "max_bytes": ("SONDE_LOG_MAX_BYTES", "logger_maxBytes"),
    "backup_count": ("SONDE_LOG_BACKUP_COUNT", "logger_backupCount"),
    "file_name": ("SONDE_LOG_FILE_NAME", ""),
}
"""Sonde's variable and MindSpore's variable for each setting; MindSpore has none for the name."""

FILE_NAME = "sonde.log.{pid}"
FILE_NAME_FIELDS = ("machine", "user", "level", "time", "pid", "rank")
"""What may stand in braces in the name of the log file."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How Sonde logs. Levels are those of Python's logging.

    ``level`` is None when no variable sets it. When messages go to a file, those from
    ``stderr_threshold`` on go to the screen too. ``max_bytes`` 0 never begins a new file.
    ``file_name`` may have `FILE_NAME_FIELDS`; with ``{level}`` there is a file for each level.
    """

    level: int | None = None
    to_stderr: bool = True
    directory: str | None = None
    submodules: Mapping[str, int] = field(default_factory=dict)
    stderr_threshold: int = logging.WARNING
    max_bytes: int = 50 * 1024 * 1024
    backup_count: int = 30
    file_name: str = FILE_NAME


def log_settings(environ: Mapping[str, str]) -> tuple[LogSettings, tuple[str, ...]]:
    """The settings in these variables, and their problems, one sentence each."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    for setting, (parse, rule) in _PARSERS.items():
        name, text = _variable(environ, setting)
        if text:
            try:
                found[setting] = parse(text)
            except (KeyError, ValueError):
                problems.append(f"{name}={text} must be {rule}; using the default")
    name, text = _variable(environ, "submodules")
    found["submodules"] = _submodules(name, text, problems)
    if not found.get("to_stderr", True) and "directory" not in found:
        problems.append(
            f"{_variable(environ, 'to_stderr')[0]}=0 asks for a log file, but "
            f"{VARIABLES['directory'][0]} (or {VARIABLES['directory'][1]}) does not say where; "
            "logging to the screen"
        )
        del found["to_stderr"]
    return LogSettings(**found), tuple(problems)


def _variable(environ: Mapping[str, str], setting: str) -> tuple[str, str]:
    """The variable that is set (Sonde's if neither is), and its text."""
    own, reference = VARIABLES[setting]
    name = own if environ.get(own) or not (reference and environ.get(reference)) else reference
    return name, environ.get(name, "").strip()


def _submodules(name: str, text: str, problems: list[str]) -> dict[str, int]:
    """``{CAPTURE:1,DUMP:0}``; unusable entries are left out and reported as problems."""
    levels: dict[str, int] = {}
    for entry in filter(str.strip, text.removeprefix("{").removesuffix("}").split(",")):
        module, colon, number = (part.strip() for part in entry.partition(":"))
        module = module.upper()
        if not colon or number not in LEVELS:
            problems.append(
                f"{name}: {entry.strip()!r} must be a sub module and a level from 0 to 4, as "
                "in {CAPTURE:1,DUMP:0}; left out"
            )
        elif module in SUBMODULES:
            levels[module] = LEVELS[number]
        elif name != VARIABLES["submodules"][1] or module not in REFERENCE_SUBMODULES:
            problems.append(
                f"{name}: there is no sub module {module}; there are {', '.join(SUBMODULES)}; "
                "left out"
            )
    return levels


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _file_name(text: str) -> str:
    """``text``, if it is a name without a directory whose fields are known."""
    fields = {field for _, field, _, _ in Formatter().parse(text) if field is not None}
    if "/" in text or text in (".", "..") or not fields <= set(FILE_NAME_FIELDS):
        raise ValueError(text)
    text.format(**dict.fromkeys(FILE_NAME_FIELDS, ""))
    return text


_LEVEL_RULE = "0 (DEBUG), 1 (INFO), 2 (WARNING), 3 (ERROR) or 4 (CRITICAL)"
_PARSERS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "to_stderr": ({"0": False, "1": True}.__getitem__, "0 (a file) or 1 (the screen)"),
    "level": (LEVELS.__getitem__, _LEVEL_RULE),
    "directory": (str, "a directory"),
    "stderr_threshold": (LEVELS.__getitem__, _LEVEL_RULE),
    "max_bytes": (_count, "a number of bytes, 0 for no bound"),
    "backup_count": (_count, "how many old files are kept"),
    "file_name": (
        _file_name,
        "a file name, which may have {machine}, {user}, {level}, {time}, {pid} and {rank}",
    ),
}
"""How a setting is parsed, and what it must be; KeyError or ValueError if it is something else."""
