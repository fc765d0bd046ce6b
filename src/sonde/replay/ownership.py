"""Whose file it is: code from a captured step is executed only if this user wrote the step.

A pickle executes what its writer put into it, and so does importing a class that a manifest names.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sonde.replay.errors import ReplayError


def refuse_foreign(path: Path, descriptor: int, *, trust: bool) -> None:
    """ReplayError unless the open file belongs to this user and no other user can write to it.

    The open file is examined, not its name, which could be exchanged in between. ``trust``: the
    user has said that the file may be executed.
    """
    if trust:
        return
    status = os.fstat(descriptor)
    reason = None
    if not stat.S_ISREG(status.st_mode):
        reason = "is not a regular file"
    elif status.st_uid != os.geteuid():
        reason = f"belongs to another user (uid {status.st_uid})"
    elif status.st_mode & stat.S_IWOTH:
        reason = "can be written by every user"
    if reason is not None:
        raise ReplayError(
            f"{path} {reason}, and replaying it executes code from it; if you trust whoever wrote "
            "it, add --trust, or build the network yourself with --module package.module:function",
            slug="step-untrusted",
        )
