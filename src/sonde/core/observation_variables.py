"""The environment variables that ask for an observation, and whether they took effect here; those
that give a process its rank.

``sonde run`` reads them; so does any program that imports torch after ``sonde enable``, and a
training with ``sonde.train``. The standard library only: ``import sonde`` imports this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

DUMP_CONFIG = ("SONDE_DUMP_CONFIG", "MINDSPORE_DUMP_CONFIG")
"""The file with the dump configuration; the first one that is set is used."""
DEBUGGER_ADDRESS = ("SONDE_DEBUGGER_HOST", "SONDE_DEBUGGER_PORT")
ENABLE_DEBUGGER = "ENABLE_MS_DEBUGGER"
GUARD = "SONDE_GUARD"
"""1, or the directory that the guard writes to."""
SAVE_GRAPHS = "MS_DEV_SAVE_GRAPHS"
"""1, 2 or 3: graphs are written where no dump is asked for, into ``SAVE_GRAPHS_PATH``."""
SAVE_GRAPHS_PATH = "MS_DEV_SAVE_GRAPHS_PATH"
VARIABLES = (*DUMP_CONFIG, *DEBUGGER_ADDRESS, ENABLE_DEBUGGER, GUARD, SAVE_GRAPHS)

CAPTURING = "SONDE_CAPTURING_PROCESS"
"""Set while a capture runs, to the number of its process: programs that it starts are not observed
by themselves, since they would write to the same dump."""

OWN_RANK = "SONDE_RANK"
"""Set by Sonde where a program starts its ranks itself, and does not set ``RANK``."""

NO = ("0", "false")
"""The values by which the switches below ask for nothing."""

_SWITCHES = (ENABLE_DEBUGGER, GUARD, SAVE_GRAPHS)
_captures: list[int] = []


def asking(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that are set and ask for something."""
    return tuple(
        name
        for name in VARIABLES
        if environ.get(name) and not (name in _SWITCHES and environ[name].strip().lower() in NO)
    )


def is_part_of_capture(environ: Mapping[str, str]) -> bool:
    """Whether a process that captures has started this one."""
    return environ.get(CAPTURING, "") not in ("", str(os.getpid()))


@contextmanager
def capturing() -> Iterator[None]:
    """A capture runs in this block; the programs that it starts are told so."""
    before = os.environ.get(CAPTURING)
    own = str(os.getpid())
    _captures.append(os.getpid())
    os.environ[CAPTURING] = own
    try:
        yield
    finally:
        if os.environ.get(CAPTURING) == own:
            if before is None:
                del os.environ[CAPTURING]
            else:
                os.environ[CAPTURING] = before


def has_captured() -> bool:
    """Whether a capture has run in this process."""
    return os.getpid() in _captures


def launched_rank(environ: Mapping[str, str]) -> int | None:
    """The rank that the launcher says; None without a launcher."""
    for name in ("RANK", OWN_RANK):
        text = environ.get(name, "")
        if text.isdecimal():
            return int(text)
    return None


def is_first_rank(environ: Mapping[str, str]) -> bool:
    """Whether this process prints and writes what one rank does for all."""
    return not launched_rank(environ)
