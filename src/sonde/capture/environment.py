"""The dump that the environment variables ask for."""

from __future__ import annotations

from collections.abc import Mapping

from sonde.capture.config import CaptureConfig, load_config
from sonde.capture.options import DEFAULT_DIRECTORY, config_from_options
from sonde.core.errors import ConfigError, SondeError, UsageError
from sonde.core.observation_variables import (
    DUMP_CONFIG,
    NO,
    SAVE_GRAPHS,
    SAVE_GRAPHS_PATH,
)
from sonde.core.text.problem_line import ProblemLine


def config_from_environment(
    environ: Mapping[str, str], *, memory_budget: int | None = None, net_name: str = "Net"
) -> tuple[CaptureConfig, str] | None:
    """The configuration that variables ask for, and a line that says so; None if none does. It is
    the one in the file that a variable names (a ConfigError also names the variable); without a
    file, one that writes graphs of the network ``net_name``."""
    for variable in DUMP_CONFIG:
        if environ.get(variable):
            file = environ[variable]
            try:
                config = load_config(file, environ, memory_budget=memory_budget)
            except ConfigError as error:
                origin = SondeError(
                    f"{file}: this file was read because {variable} names it", slug="config-file"
                )
                raise ConfigError([*error.problems, origin]) from None
            return config, f"dumping as configured in {file} (from {variable})"
    if not _saves_graphs(environ):
        return None
    directory = environ.get(SAVE_GRAPHS_PATH) or DEFAULT_DIRECTORY
    config = config_from_options(directory, environ, graph=True, net_name=net_name)
    return config, f"writing graphs to {config.path} (from {SAVE_GRAPHS})"


def _saves_graphs(environ: Mapping[str, str]) -> bool:
    value = environ.get(SAVE_GRAPHS, "").strip().lower() or NO[0]
    if value not in (*NO, "1", "2", "3"):
        raise UsageError(
            f"{SAVE_GRAPHS} is {value!r}; accepted: 0 (off), or 1, 2 or 3 (write graphs)",
            slug="usage",
        )
    return value not in NO


def unused_files(environ: Mapping[str, str]) -> list[str]:
    """A line about each variable whose file is not read, because another variable comes first."""
    names = [name for name in DUMP_CONFIG if environ.get(name)]
    return [
        ProblemLine(
            f"{name} has no effect, because {names[0]} is set, which comes first",
            slug="variable-unused",
        )
        for name in names[1:]
        if environ[name] != environ[names[0]]
    ]
