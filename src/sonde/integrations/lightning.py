"""``SondeCallback`` for Lightning's ``Trainer``, and ``SondeFabricCallback`` for Fabric.

from sonde.integrations.lightning import SondeCallback

trainer = Trainer(..., callbacks=[SondeCallback()])
"""

from __future__ import annotations

import sys
from typing import Any

from sonde.core.finding import Finding
from sonde.integrations.missing_library import MissingLibraryError
from sonde.integrations.observed_training import ObservedTraining, on_any_rank
from sonde.integrations.trackers.alerts import Alerting, EventFileTexts, is_logged_to

try:
    # The two packages have the same classes, and each accepts only its own.
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        from pytorch_lightning import Callback, LightningModule, Trainer
    else:
        from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as _error:
    raise MissingLibraryError("lightning", "lightning", _error) from None

_COUNT = "sonde_findings"


class SondeCallback(Callback):  # type: ignore[misc]
    """Guards and diagnoses what a Trainer fits.

    The options are those of `ObservedTraining`: ``guard``, ``diagnose``, ``on_trigger`` and the
    others of ``sonde.guard``. ``findings`` has what was found; ``sonde_findings``, their number, is
    logged and goes to the loggers, which get each finding as an alert or a text. The sanity check
    before the training is not observed.
    """

    def __init__(self, **options: Any) -> None:
        self._training = ObservedTraining(**options)

    @property
    def findings(self) -> list[Finding]:
        """What was found in the last training, in the order in which it was found."""
        return list(self._training.findings)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._training.begin(
            steps_done=trainer.global_step,
            step_name=lambda step: f" (Lightning's step {step + 1})",
            trackers=lambda: _alerting(trainer.loggers),
        )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *_: Any, **__: Any
    ) -> None:
        if self._log(trainer):
            pl_module.log(_COUNT, float(len(self._training.findings)), logger=False)
        reduced = trainer.strategy.reduce_boolean_decision
        if self._training.stops_any_rank(lambda mine: reduced(mine, all=False)):
            trainer.should_stop = True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._training.end()
        self._log(trainer)

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._training.end(exception)
        self._log(trainer)

    def _log(self, trainer: Trainer) -> bool:
        """Write new findings to the loggers; whether there are any."""
        found = self._training.take()
        if found:
            _log_count(trainer.loggers, len(self._training.findings), trainer.global_step)
        return bool(found)


class SondeFabricCallback:
    """Guards and diagnoses a loop with Fabric: ``Fabric(callbacks=[SondeFabricCallback()])``.

    It begins when ``fabric.setup`` has set up the model, and ends with
    ``fabric.call("on_train_end")`` or with the program. With ``on_trigger="stop"`` the loop has to
    look at ``should_stop``.
    """

    def __init__(self, **options: Any) -> None:
        self._training = ObservedTraining(**options)
        self._fabric: Any = None
        self._updates = 0

    @property
    def findings(self) -> list[Finding]:
        """What was found, in the order in which it was found."""
        return list(self._training.findings)

    @property
    def should_stop(self) -> bool:
        """Whether the loop should end: a step triggered on this or another rank, and its update was
        skipped there."""
        return self._training.should_stop

    def on_after_setup(self, fabric: Any, module: Any) -> None:
        if self._fabric is None:  # Of several models the first one begins.
            self._fabric, self._updates = fabric, 0
            self._training.begin(trackers=lambda: _alerting(fabric.loggers))

    def on_after_optimizer_step(self, strategy: Any, optimizer: Any) -> None:
        self._updates += 1
        self._log()
        self._training.stops_any_rank(on_any_rank(strategy.root_device))

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._training.end()
        self._log()
        self._fabric = None

    def _log(self) -> None:
        found = self._training.take()
        if found and self._fabric is not None:
            _log_count(self._fabric.loggers, len(self._training.findings), self._updates)


def _log_count(loggers: Any, count: int, step: int) -> None:
    for logger in loggers:
        logger.log_metrics({_COUNT: float(count)}, step=step)


def _alerting(loggers: Any) -> list[Alerting]:
    """The loggers that take texts and are not the current run of a tracker."""
    found: list[Alerting] = []
    for logger in loggers:
        experiment = logger.experiment
        if hasattr(experiment, "add_text"):
            found.append(EventFileTexts(experiment))
        elif type(logger).__name__ == "MLFlowLogger" and not is_logged_to("mlflow"):
            from sonde.integrations.trackers.mlflow import MlflowTracker

            found.append(MlflowTracker(logger.run_id, is_own=False, client=experiment))
    return found
