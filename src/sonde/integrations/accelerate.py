"""``SondeTracker`` for the ``Accelerator`` of accelerate.

from sonde.integrations.accelerate import SondeTracker

accelerator = Accelerator(log_with=SondeTracker())
accelerator.init_trackers("project")
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from sonde.adapters.torch.living_objects import calling_objects
from sonde.core.finding import Finding
from sonde.core.patching import wrap
from sonde.integrations.missing_library import MissingLibraryError
from sonde.integrations.observed_training import ObservedTraining, on_any_rank
from sonde.integrations.trackers.alerts import EventFileTexts

try:
    from accelerate import Accelerator
    from accelerate.optimizer import AcceleratedOptimizer
    from accelerate.tracking import GeneralTracker
except ImportError as _error:
    raise MissingLibraryError("accelerate", "accelerate", _error) from None


class SondeTracker(GeneralTracker):  # type: ignore[misc]
    """Guards and diagnoses the training from ``init_trackers`` to ``end_training``, on every rank.

    The options are those of `ObservedTraining`; ``findings`` has what was found.
    """

    name = "sonde"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._training = ObservedTraining(**options)
        self._accelerator: weakref.ref[Any] | None = None
        self._undo = ExitStack()
        wrap(Accelerator, "init_trackers", self._starting, self._undo)

    @property
    def tracker(self) -> ObservedTraining:
        """What ``accelerator.get_tracker("sonde", unwrap=True)`` returns."""
        return self._training

    @property
    def findings(self) -> list[Finding]:
        """What was found, in the order in which it was found."""
        return list(self._training.findings)

    @property
    def should_stop(self) -> bool:
        """With ``on_trigger="stop"``: whether the loop should end, since a step triggered on this
        or another rank. The ranks agree on it when the optimizers of the Accelerator step."""
        return self._training.should_stop

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """There is nothing to store."""

    def start(self) -> None:
        caller = next(calling_objects(Accelerator), None)
        self._accelerator = None if caller is None else weakref.ref(caller)
        self._undo.close()
        wrap(AcceleratedOptimizer, "step", self._agreeing, self._undo)
        self._training.begin(trackers=self._event_files)

    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        """What the program logs is for the other trackers."""

    def finish(self) -> None:
        self._undo.close()
        self._training.end()

    def _starting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Accelerate starts trackers on the main process only."""

        def init_trackers(this: Accelerator, *args: Any, **kwargs: Any) -> Any:
            result = original(this, *args, **kwargs)
            is_here = any(each is self for each in this.log_with)
            if is_here and not this.is_main_process:
                this.trackers.append(self)
                self.start()
            return result

        return init_trackers

    def _agreeing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(this: AcceleratedOptimizer, *args: Any, **kwargs: Any) -> Any:
            result = original(this, *args, **kwargs)
            if this.gradient_state.sync_gradients:  # else it accumulates gradients
                self._training.stops_any_rank(on_any_rank(this.accelerator_state.device))
            return result

        return step

    def _event_files(self) -> list[EventFileTexts]:
        """That of the Accelerator's TensorBoard; other trackers know their current run."""
        accelerator = None if self._accelerator is None else self._accelerator()
        trackers = [] if accelerator is None else accelerator.trackers
        return [EventFileTexts(each.tracker) for each in trackers if each.name == "tensorboard"]
