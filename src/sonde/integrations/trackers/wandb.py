"""Weights & Biases: alerts, artifacts and series under ``sonde/``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sonde.integrations.missing_library import MissingLibraryError
from sonde.integrations.trackers.alerts import Alert

try:
    import wandb
except ImportError as _error:
    raise MissingLibraryError("wandb", "wandb", _error) from None

_MOST_TITLE = 63


class WandbTracker:
    """A run of wandb. Values for a run of the program are written with its own next values, so that
    its steps stay as they are; ``sonde/step`` is the axis of ours."""

    def __init__(self, run: Any, *, is_own: bool) -> None:
        self._run = run
        self._is_own = is_own
        run.define_metric("sonde/step", hidden=True)
        run.define_metric("sonde/*", step_metric="sonde/step")

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log({**values, "sonde/step": step}, commit=self._is_own)

    def alert(self, alert: Alert) -> None:
        self._run.alert(alert.title[:_MOST_TITLE], alert.text, level=alert.level)

    def keep(self, directory: Path) -> None:
        artifact = wandb.Artifact(directory.name, type="sonde-step")
        artifact.add_dir(str(directory))
        self._run.log_artifact(artifact)

    def close(self) -> None:
        if self._is_own:
            self._run.finish()


def program_run() -> WandbTracker | None:
    """The run that the program has opened."""
    return None if wandb.run is None else WandbTracker(wandb.run, is_own=False)


def open_run(project: str) -> WandbTracker:
    """The run that the program has opened, or an own one."""
    return program_run() or WandbTracker(wandb.init(project=project), is_own=True)
