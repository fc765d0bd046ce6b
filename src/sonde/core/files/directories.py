"""Makes directories in the training thread."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sonde.core.interruption import pass_on


def make_directory(path: Path, *, mode: int = 0o777) -> None:
    """Make the directory, and with the usual mode those above it, unless they are there.

    ``Path.mkdir`` with ``exist_ok`` and ``os.makedirs`` take a ``TimeoutError`` that a signal
    handler of the program raises inside them for a directory that is there, and ignore it.
    """
    try:
        os.mkdir(path, mode)
    except FileNotFoundError as error:
        pass_on(error)
        if path.parent == path:
            raise
        make_directory(path.parent)
        make_directory(path, mode=mode)
    except OSError as error:
        pass_on(error)
        if not _is_directory(path):
            raise


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except OSError as error:  # A link to nothing.
        pass_on(error)
        return False
