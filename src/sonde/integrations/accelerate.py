"""``SondeTracker`` for the ``Accelerator`` of accelerate.

from sonde.integrations.accelerate import SondeTracker

accelerator = Accelerator(log_with=SondeTracker())
accelerator.init_trackers("project")
"""

from __future__ import annotations

import weakref
from typing import Any

from sonde.core.finding import Finding
from sonde.integrations.missing_library import MissingLibraryError
from sonde.integrations.observed_training import ObservedTraining, calling_object
from sonde.integrations.trackers.alerts import EventFileTexts

try:
    from accelerate import Accelerator
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
        """With ``on_trigger="stop"``: whether the loop should end."""
        return self._training.should_stop

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """There is nothing to store."""

    def start(self) -> None:
        caller = calling_object(Accelerator)
        self._accelerator = None if caller is None else weakref.ref(caller)
        self._training.begin(trackers=self._event_files)

    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        """What the program logs is for the other trackers."""

    def finish(self) -> None:
        self._training.end()

    def _event_files(self) -> list[EventFileTexts]:
        """That of the Accelerator's TensorBoard; other trackers know their current run."""
        accelerator = None if self._accelerator is None else self._accelerator()
        trackers = [] if accelerator is None else accelerator.trackers
        return [EventFileTexts(each.tracker) for each in trackers if each.name == "tensorboard"]
