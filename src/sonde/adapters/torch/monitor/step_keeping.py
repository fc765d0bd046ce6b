"""Keeps the running step in memory, and at a trigger executes it again and writes it to disk."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.debugging.optimizers import parameters_of
from sonde.adapters.torch.monitor.cleared_gradients import cleared_passes, source_at
from sonde.adapters.torch.monitor.explaining import StepExplanation, explain
from sonde.adapters.torch.monitor.going_back import BadUpdate, WentBack, go_back, is_late
from sonde.adapters.torch.monitor.parameter_names import ParameterColumns
from sonde.adapters.torch.monitor.snapshots import Snapshots
from sonde.adapters.torch.replay.averaged_gradients import note_own_gradients
from sonde.adapters.torch.replay.execution import execute
from sonde.adapters.torch.replay.module_calls import line_of
from sonde.adapters.torch.replay.optimizer_step import find_bad_update
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.step_record import GradScaling, StepRecord
from sonde.adapters.torch.replay.storage import write_step
from sonde.core.errors import SondeError
from sonde.core.graph import Source
from sonde.monitor.signals import COLUMNS, Signals
from sonde.monitor.triggers import Trigger, trigger_text

Line = tuple[CodeType, int] | None


@dataclass(frozen=True, slots=True)
class KeptStep:
    """A step that was executed again, and where it was written; ``problem`` says why it was not.

    ``bad_update``: the last update that made weights non-finite. ``update_source``: the line that
    calls the optimizer. ``not_gone_back``: why earlier steps cannot be run again.
    """

    explanation: StepExplanation
    path: Path | None = None
    problem: str = ""
    bad_update: BadUpdate | None = None
    update_source: Source | None = None
    went_back: WentBack | None = None
    not_gone_back: str = ""

    def paths(self, triggers: Sequence[Trigger]) -> list[Path]:
        """The directories that were written, the one to look at first in front: if weights were
        spoiled, that of the earlier step that did it."""
        earlier = None if self.went_back is None else self.went_back.path
        both = (earlier, self.path) if triggers[0].quantity == "weight" else (self.path, earlier)
        return [path for path in both if path is not None]


class StepKeeper:
    """Records the running step. Used from the training thread only.

    ``failed`` gets exceptions of the recorder, which is then off; the monitor goes on.
    ``closure_returned`` and ``raised`` are those of `StepRecorder`.
    """

    def __init__(
        self,
        failed: Callable[[Exception], None],
        *,
        closure_returned: Callable[[torch.optim.Optimizer], None],
        raised: Callable[[Exception], None],
        snapshot_every: int = 0,
        keeps_optimizer_state: bool = False,
    ) -> None:
        self._keeps_state = keeps_optimizer_state
        self._recorder = StepRecorder(failed, closure_returned=closure_returned, raised=raised)
        self._snapshots = Snapshots(snapshot_every) if snapshot_every else None
        self._bad_update: BadUpdate | None = None
        self._update_line: Line = None
        self._record: StepRecord | None = None
        self._scaling: GradScaling | None = None

    def install(self, undo: ExitStack) -> None:
        """Record until ``undo`` is closed."""
        if self._snapshots is not None:
            undo.callback(self._snapshots.close)
        self._recorder.install(undo)

    def optimizer_begins(
        self, step: int, optimizer: torch.optim.Optimizer, scaler: Any, *, has_closure: bool
    ) -> None:
        """Take the record of the step that ``optimizer`` ends; ``scaler``: the GradScaler that
        calls it, if one does."""
        self._recorder.optimizer_begins(optimizer, has_closure=has_closure)
        self._scaling = None
        self._update_line = line_of(sys._getframe(1))
        if isinstance(scaler, torch.amp.GradScaler) and scaler.is_enabled():
            self._scaling = GradScaling(scaler, scaler.get_scale())
        self.take(step, optimizer)

    def take(self, step: int, optimizer: torch.optim.Optimizer | None) -> None:
        """Take what was recorded so far."""
        self._record = self._recorder.take(step, optimizer)
        self._record.scaling = self._scaling

    def before_update(self, step: int, optimizer: torch.optim.Optimizer) -> None:
        """The step was judged, and its optimizer is about to change the weights."""
        if self._snapshots is not None and self._record is not None:
            if self._record.averaged_over > 1:
                self._snapshots.refuse(
                    "ranks average the gradients, and the averages of past steps are not kept"
                )
            self._snapshots.before_update(step, optimizer, self._record)

    def closure_repeated(self, optimizer: torch.optim.Optimizer) -> None:
        """``optimizer`` has called its closure again in one step."""
        if self._snapshots is not None:
            name = type(optimizer).__name__
            self._snapshots.refuse(f"{name} calls its closure several times in a step")

    def after_update(
        self, optimizer: torch.optim.Optimizer, signals: Signals, parameters: ParameterColumns
    ) -> None:
        """Look for weights that the update made non-finite from finite gradients."""
        was_finite = not signals.non_finite_weights and not signals.non_finite_gradients
        if was_finite and not signals.is_skipped and not math.isfinite(signals.update_ratio):
            names = parameters.names_of(parameters_of(optimizer))
            finding = find_bad_update(optimizer, names)
            source = source_at(self._update_line)
            self._bad_update = None if finding is None else BadUpdate(signals.step, finding, source)

    @property
    def passes(self) -> int:
        """The recorded backward passes of the step, also those in a closure."""
        return 0 if self._record is None else len(self._record.backward_passes)

    def lost_passes(self, optimizer: torch.optim.Optimizer) -> int:
        """How many backward passes of the step the program cleared the gradients of."""
        record = self._record
        return 0 if record is None else len(cleared_passes(record, optimizer))

    def repeat(self, step: int) -> list[Trigger]:
        """Execute the step again; a trigger if it computes something else."""
        record = self._record
        if record is None or not record.events:
            return []
        with self._recorder.replaying():
            done = execute(record)
        return [Trigger("nondeterministic", step)] if done.differences else []

    def step_ended(self) -> None:
        self._record = self._scaling = None
        self._recorder.step_ended()
        if self._snapshots is not None:
            self._snapshots.step_ended()

    def has_event_of(self, error: BaseException | None) -> bool:
        """Whether a recorded event raised ``error``, or what ``error`` was raised from."""
        events = () if self._record is None else self._record.events
        while error is not None:
            if any(each.error is error for each in events):
                return True
            error = error.__cause__ or error.__context__
        return False

    @property
    def has_events(self) -> bool:
        return self._record is not None and bool(self._record.events)

    @property
    def loss_scale(self) -> float | None:
        return None if self._scaling is None else self._scaling.scale

    def batch(self) -> Iterator[torch.Tensor]:
        """The tensors that the outermost modules were given and that the step did not compute."""
        for call in () if self._record is None else self._record.calls:
            for kept in call.inputs:
                if not kept.requires_grad and kept.is_known:
                    yield kept.values

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """The outermost modules of the step, with a short name each."""
        seen = set()
        for call in () if self._record is None else self._record.calls:
            if id(call.module) not in seen:
                seen.add(id(call.module))
                yield call.name.rpartition("/")[2].partition("-")[0] or call.name, call.module

    def keep(
        self,
        rank: int,
        triggers: Sequence[Trigger],
        signals: Signals,
        parameters: ParameterColumns,
        directory: Path,
    ) -> KeptStep | None:
        """Execute the step again and write it; None if nothing of it was recorded."""
        record = self._record
        if record is None or not record.events:
            return None
        record.rank = rank
        explanation = explain(record, self._recorder, triggers)
        note_own_gradients(record, explanation.replayed.plain)
        if self._keeps_state:
            self._recorder.find_owners(record)
        facts = _facts(triggers)
        kept = KeptStep(
            explanation, bad_update=self._bad_update, update_source=source_at(self._update_line)
        )
        try:
            place = write_step(
                record,
                directory,
                facts,
                _signal_facts(signals, parameters.names),
                keeps_optimizer_state=self._keeps_state and record.optimizer is not None,
            )
            kept = replace(kept, path=place.path)
        except SondeError as error:
            kept = replace(kept, problem=str(error))
        if self._snapshots is not None and is_late(triggers) and record.optimizer is not None:
            names = parameters.names_of(parameters_of(record.optimizer))
            went = go_back(
                self._snapshots, self._recorder, names, facts, rank=rank, directory=directory
            )
            kept = replace(kept, went_back=went, not_gone_back=self._snapshots.refusal)
        return kept


def _facts(triggers: Sequence[Trigger]) -> dict[str, Any]:
    """The first trigger as the manifest has it, with a sentence; the others as facts."""
    first = triggers[0]
    found = {**dataclasses.asdict(first), "text": trigger_text(first)}
    if first.text:
        found["reason"] = first.text
    if len(triggers) > 1:
        found["also"] = [trigger_text(each) for each in triggers[1:]]
    return found


def _signal_facts(signals: Signals, parameters: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = dict(zip(COLUMNS, signals.numbers(), strict=True))
    found["batch_hash"] = f"{signals.batch_hash:016x}"
    found["gradients"] = dict(zip(parameters, map(float, signals.gradients), strict=False))
    return found
