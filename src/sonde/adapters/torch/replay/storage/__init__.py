"""Writes the record of a step to a directory (a captured step), and reads it again.

The files are described in ``docs/captured-step.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.step_record import StepRecord
from sonde.adapters.torch.replay.storage.captured_step import CapturedStep
from sonde.adapters.torch.replay.storage.collected_step import CollectedStep
from sonde.adapters.torch.replay.storage.object_pickle import first_line
from sonde.adapters.torch.replay.storage.record_writer import RecordWriter
from sonde.core.interruption import pass_on
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
    collected = collect_step(record, trigger, signals, keeps_state=keeps_optimizer_state)
    with private.unobserved(), torch.no_grad():
        return write_collected(collected, directory)


def collect_step(
    record: StepRecord, trigger: Any, signals: Any, *, keeps_state: bool = False
) -> CollectedStep:
    """What `write_step` writes; ReplayError if an object of the program fails."""
    try:
        with private.unobserved(), torch.no_grad():
            return RecordWriter(record).collect(trigger, signals, keeps_state=keeps_state)
    except Exception as error:  # objects of the user may fail in any way
        pass_on(error)
        raise _not_kept(record.step, first_line(error)) from None


def write_collected(collected: CollectedStep, directory: Path) -> StepPlace:
    """Write ``directory/step_N.rank_R`` whole or not at all; ReplayError if that fails. May run in
    any thread if the tensors are copies."""
    try:
        return layout.write_directory(directory, collected.step, collected.rank, collected.write)
    except OSError as error:
        pass_on(error)
        reason = f"{directory} cannot be written: {error.strerror or error}"
    except Exception as error:  # tensors of other devices may fail in any way
        pass_on(error)
        reason = first_line(error)
    raise _not_kept(collected.step, reason)


def _not_kept(step: int, reason: str) -> ReplayError:
    return ReplayError(
        f"step {step} was not kept: {reason}; the training goes on", slug="step-not-written"
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
