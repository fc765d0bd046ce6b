"""Whether a dump can be written to a place, found out without leaving anything there."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def why_not_writable(path: Path) -> str | None:
    """Why no directory could be made or filled at the absolute ``path``, or None.

    The nearest existing directory is really written to, with a file that has no name where the
    system has such files, so that nothing is left even by a kill.
    """
    existing = path
    try:
        existing, mode = _nearest_existing(path)
        if not stat.S_ISDIR(mode):
            return f"{existing} is not a directory"
        longest = os.pathconf(existing, "PC_NAME_MAX")
        for part in path.relative_to(existing).parts:
            if len(os.fsencode(part)) > longest:
                return f"{part[:20]}... is longer than the {longest} bytes a name may have there"
        with tempfile.TemporaryFile(dir=existing, prefix=".sonde-"):
            return None
    except OSError as error:
        reason = error.strerror or str(error)
        return reason if existing == path else f"in {existing}: {reason}"
    except ValueError as error:  # also a NUL, or a character the file system cannot spell
        return str(error)


def _nearest_existing(path: Path) -> tuple[Path, int]:
    """The path or the first of its parents that is there, and its mode."""
    for candidate in (path, *path.parents):
        try:
            return candidate, os.stat(candidate).st_mode
        except (FileNotFoundError, NotADirectoryError):
            if candidate.is_symlink():
                raise ValueError(f"{candidate} is a link to nothing") from None
    raise ValueError(f"{path} is not absolute")
