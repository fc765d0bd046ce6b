"""The guard that the environment variable asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping

from sonde.core.observation_variables import GUARD, NO
from sonde.core.text.problem_line import ProblemLine
from sonde.monitor.options import DEFAULT_DIRECTORY, GuardOptions, guard_options

YES = "1"
"""The value that asks for a guard which writes to the default directory."""
OBSERVED = "a dump or the debugger observes every op"
"""Why there is no guard in a program that is observed otherwise."""


def guard_from_environment(environ: Mapping[str, str]) -> tuple[GuardOptions, str] | None:
    """The guard that ``SONDE_GUARD`` asks for, and a line that says so; None if it does not."""
    directory = guard_directory(environ)
    if directory is None:
        return None
    options = guard_options(directory)
    note = f"guarding every step; one that goes wrong is kept in {options.directory}"
    return options, f"{note} (from {GUARD})"


def guard_directory(environ: Mapping[str, str]) -> str | None:
    """The directory for the guard, as it was written; None if no guard is asked for."""
    value = environ.get(GUARD, "").strip()
    if value == YES:
        return DEFAULT_DIRECTORY
    return value if os.sep in value else None


def unused_guard(environ: Mapping[str, str], *, because: str = "") -> list[str]:
    """A line about the variable, if its value is not accepted, or if it has no effect because of
    something else that is asked for."""
    value = environ.get(GUARD, "").strip()
    if guard_directory(environ) is not None:
        text = f"{GUARD} has no effect, because {because}" if because else ""
    elif value and value.lower() not in NO:
        text = (
            f"{GUARD} must be 1, 0 or a directory such as ./{DEFAULT_DIRECTORY} (got {value!r}); "
            "the program runs without the guard"
        )
    else:
        text = ""
    return [ProblemLine(text, slug="variable-unused")] if text else []
