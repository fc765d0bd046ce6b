"""The last message of a rank: how its training has ended."""

from __future__ import annotations

import os
import traceback

from sonde.adapters.torch.calling_line import is_program
from sonde.core.text.notebook_cells import shown_file
from sonde.debugger import Terminated
from sonde.ranks.ends import INTERRUPTED
from sonde.wire.rank import JobEnd


def job_end(error: BaseException | None) -> JobEnd:
    """``error``: what ended the training; ``sys.exit`` without a code is an end like any other."""
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return JobEnd()
    if isinstance(error, (KeyboardInterrupt, Terminated)):
        return JobEnd(INTERRUPTED)
    text = str(error).strip().splitlines()
    return JobEnd(type(error).__name__, text[0] if text else "", _source(error))


def _source(error: BaseException) -> str:
    """``train.py:8``, the innermost line of the program; empty without one."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_program(frame.filename):
            return f"{os.path.basename(shown_file(frame.filename))}:{frame.lineno}"
    return ""
