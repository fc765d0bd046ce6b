"""The dump that the environment variables ask for."""

from __future__ import annotations

from collections.abc import Mapping

from sonde.capture.config import CaptureConfig, load_config
from sonde.core.errors import ConfigError, SondeError
from sonde.core.observation_variables import DUMP_CONFIG, GUARD


def config_from_environment(
    environ: Mapping[str, str], *, memory_budget: int | None = None
) -> tuple[CaptureConfig, str] | None:
    """The configuration in the file that a variable names, and a line that says so; None if no
    variable does. A ConfigError also names the variable."""
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
    return None


def unused_files(environ: Mapping[str, str]) -> list[str]:
    """A line about each variable whose file is not read, because another variable comes first."""
    names = [name for name in DUMP_CONFIG if environ.get(name)]
    return [
        f"{name} has no effect, because {names[0]} is set, which comes first [variable-unused]"
        for name in names[1:]
        if environ[name] != environ[names[0]]
    ]


def unused_guard(environ: Mapping[str, str]) -> list[str]:
    """A line about the variable for the guard."""
    if not environ.get(GUARD):
        return []
    return [
        f"{GUARD} has no effect: this version of Sonde has no guard; 'sonde run --overflow' finds "
        "the first NaN or Inf [variable-unused]"
    ]
