"""Goes back to the step whose update spoiled the weights, from a snapshot, and keeps that step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.debugging.optimizers import parameters_of
from sonde.adapters.torch.debugging.signals.norms import norms
from sonde.adapters.torch.monitor.snapshots import Past, PastStep, Snapshots, update
from sonde.adapters.torch.replay.optimizer_step import find_bad_update
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.storage import write_step
from sonde.core.errors import SondeError
from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.monitor.triggers import Trigger


@dataclass(frozen=True, slots=True)
class BadUpdate:
    """The update of ``step`` made weights non-finite; ``finding`` names optimizer and parameter.
    ``source``: the line that called the optimizer, None if it is not known."""

    step: int
    finding: Finding
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class WentBack:
    """The step that was gone back to, of ``steps`` steps that were run again.

    ``is_exact``: running the steps again gave the weights of the training, bit for bit.
    ``problem``: why the step was not kept.
    """

    step: int
    steps: int
    bad_update: BadUpdate | None
    is_exact: bool
    path: Path | None = None
    problem: str = ""


def is_late(triggers: Sequence[Trigger]) -> bool:
    """Whether a trigger may have its cause in an earlier step's update."""
    return any(each.quantity == "weight" or each.kind == "spike" for each in triggers)


def go_back(
    snapshots: Snapshots,
    recorder: StepRecorder,
    names: Mapping[int, str],
    facts: Mapping[str, Any],
    *,
    rank: int,
    directory: Path,
) -> WentBack | None:
    """Run the steps since the snapshot again, and keep the first whose update made weights
    non-finite, or else the last; None if there is none. ``facts`` are those of the trigger. The
    training is afterwards as it was."""
    with snapshots.past(recorder) as past:
        if past is None:
            return None
        bad, finding = _first_bad(past, names)
        is_exact = past.is_present()
        chosen = past.all[-1] if bad is None else bad
        past.restart()
        for each in past.all:
            past.prepare(each)
            if each is chosen:
                break
            update(each)
        chosen.record.rank = rank
        path, problem = None, ""
        try:
            path = write_step(chosen.record, directory, facts, {}, keeps_optimizer_state=True).path
        except SondeError as error:
            problem = str(error)
        bad_update = None if finding is None else BadUpdate(chosen.step, finding)
        return WentBack(chosen.step, len(past.all), bad_update, is_exact, path, problem)


def _first_bad(past: Past, names: Mapping[int, str]) -> tuple[PastStep | None, Finding | None]:
    past.restart()
    chosen: PastStep | None = None
    finding: Finding | None = None
    for each in past.all:
        past.prepare(each)
        update(each)
        if chosen is None and not _is_finite(each.optimizer):
            chosen = each
            finding = find_bad_update(each.optimizer, names)
    return chosen, finding


def _is_finite(optimizer: torch.optim.Optimizer) -> bool:
    with private.unobserved(), torch.no_grad():
        return bool(np.isfinite(norms(list(parameters_of(optimizer)))).all())
