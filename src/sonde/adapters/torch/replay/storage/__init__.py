"""Writes the record of a step to a directory (a captured step), and reads it again.

The files are described in ``docs/captured-step.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.step_record import StepRecord
from sonde.adapters.torch.replay.storage.captured_step import CapturedStep
from sonde.adapters.torch.replay.storage.object_pickle import first_line
from sonde.adapters.torch.replay.storage.record_writer import RecordWriter
from sonde.replay import layout
from sonde.replay.errors import ReplayError
from sonde.replay.layout import StepPlace


def write_step(
    record: StepRecord,
    directory: Path,
    trigger: Any,
    signals: Any,
    *,
    keeps_optimizer_state: bool = False,
) -> StepPlace:
    """Write ``directory/step_N.rank_R`` whole or not at all; ReplayError if that fails.

    ``trigger`` (None: none) and ``signals`` are dataclasses or mappings. Call it before the
    optimizer changes the weights. Only reads: the training's tensors stay as they are.
    """
    with private.unobserved(), torch.no_grad():
        write = partial(
            RecordWriter(record).write,
            trigger=trigger,
            signals=signals,
            keeps_state=keeps_optimizer_state,
        )
        try:
            return layout.write_directory(directory, record.step, record.rank, write)
        except OSError as error:
            reason = f"{directory} cannot be written: {error.strerror or error}"
        except Exception as error:  # objects of the user may fail in any way
            reason = first_line(error)
    raise ReplayError(
        f"step {record.step} was not kept: {reason}; the training goes on", slug="step-not-written"
    )


def read_step(
    directory: Path, modules: Sequence[nn.Module] | None = None, *, trust: bool = False
) -> StepRecord:
    """The record of a captured step; ``modules`` are those of its manifest, in its order.

    None: the pickled ones, which executes code from the step: see ``replay/ownership``.
    """
    step = CapturedStep(directory, trust=trust)
    if modules is not None:
        return step.record(modules)
    found = [module for module in step.pickled_modules() if module is not None]
    missing = [each for each in step.manifest.modules if each.object is None]
    if missing:
        raise ReplayError(
            f"{step.path} has no pickle of {missing[0].name} ({missing[0].problem})",
            slug="module-missing",
        )
    return step.record(found)
