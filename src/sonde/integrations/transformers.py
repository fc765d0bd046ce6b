"""``SondeCallback`` for the ``Trainer`` of transformers, and for those of trl, which are Trainers.

from sonde.integrations.transformers import SondeCallback

trainer = Trainer(..., callbacks=[SondeCallback(guard=True, diagnose=True)])
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from sonde.adapters.torch.living_objects import calling_objects
from sonde.core.finding import Finding
from sonde.integrations.missing_library import MissingLibraryError
from sonde.integrations.observed_training import ObservedTraining, on_any_rank
from sonde.integrations.trackers.alerts import EventFileTexts

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ImportError as _error:
    raise MissingLibraryError("transformers", "transformers", _error) from None


class SondeCallback(TrainerCallback):  # type: ignore[misc]
    """Guards and diagnoses what a Trainer trains.

    The options are those of `ObservedTraining`: ``guard``, ``diagnose``, ``on_trigger`` and the
    others of ``sonde.guard``. ``findings`` has what was found. Each finding goes to the Trainer's
    log with the step in which it was found, and to its trackers as an alert or a text, beside
    ``sonde_findings``, their number.
    """

    def __init__(self, **options: Any) -> None:
        self._training = ObservedTraining(**options)
        self._trainer: weakref.ref[Any] | None = None

    @property
    def findings(self) -> list[Finding]:
        """What was found in the last training, in the order in which it was found."""
        return list(self._training.findings)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        # Events do not say which Trainer it is.
        trainer = next(calling_objects(sys.modules["transformers"].Trainer), None)
        self._trainer = None if trainer is None else weakref.ref(trainer)
        self._training.begin(
            steps_done=state.global_step,
            step_name=lambda step: f" (the Trainer's step {step + 1})",
            trackers=self._event_files,
        )

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._log(state, control)
        if self._training.stops_any_rank(on_any_rank(args.device)):
            control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._training.end()
        self._log(state, control)

    def _event_files(self) -> list[EventFileTexts]:
        """Those that the Trainer writes for TensorBoard; other trackers know their current run."""
        trainer = None if self._trainer is None else self._trainer()
        callbacks = [] if trainer is None else trainer.callback_handler.callbacks
        writers = [getattr(each, "tb_writer", None) for each in callbacks]
        return [EventFileTexts(each) for each in writers if each is not None]

    def _log(self, state: TrainerState, control: TrainerControl) -> None:
        """Write new findings to the Trainer's log."""
        found = self._training.take()
        if not found:
            return
        for each in found:
            entry = {"sonde_finding": each.message, "sonde_rule": each.rule}
            state.log_history.append({**entry, "step": state.global_step})
        trainer = None if self._trainer is None else self._trainer()
        if trainer is not None:
            # Trainer.log resets this flag, and the Trainer would not log the loss of this step.
            should_log = control.should_log
            trainer.log({"sonde_findings": len(self._training.findings)})
            control.should_log = should_log
