"""The line of the user's code that raised when a step was executed again."""

from __future__ import annotations

import os
import re
import traceback
import warnings

import torch

import sonde
from sonde.adapters.torch.replay.execution import Execution, execute
from sonde.adapters.torch.replay.step_record import BackwardPass, StepRecord
from sonde.core import own_code
from sonde.core.graph import Source

_SONDE = os.path.dirname(os.path.abspath(sonde.__file__)) + os.sep


def error_source(record: StepRecord, done: Execution) -> Source | None:
    """The line that raised; in a backward pass, the line of the forward pass whose gradient was
    being computed. None if ``done`` raised nothing."""
    if done.error is None:
        return None
    if isinstance(done.failed_at, BackwardPass):
        frames = _forward_frames(record)
    else:
        frames = traceback.extract_tb(done.error.__traceback__)
    for frame in reversed(frames):
        is_own = own_code.is_own(frame.filename) and not frame.filename.startswith(_SONDE)
        if is_own and frame.lineno is not None:
            return Source(frame.filename, frame.lineno, frame.name, frame.line or "")
    return None


def is_same_error(one: BaseException | None, other: BaseException | None) -> bool:
    """Whether two exceptions are of one type and say the same, except for numbers: a message may
    have the sizes of tensors."""
    return type(one) is type(other) and _without_numbers(one) == _without_numbers(other)


def _without_numbers(error: BaseException | None) -> str:
    return re.sub(r"\d+", "0", str(error))


def _forward_frames(record: StepRecord) -> list[traceback.FrameSummary]:
    """Torch's traceback of the forward op whose backward raises: anomaly mode has it as a warning,
    in the form in which Python prints tracebacks."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            execute(record)
    places = re.findall(r'File "(.+)", line (\d+), in (.+)', "".join(str(w.message) for w in said))
    return [
        traceback.FrameSummary(file, int(line), function, lookup_line=True)
        for file, line, function in places
    ]
