"""Trackio: alerts, artifacts and series under ``sonde/``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sonde.integrations.missing_library import MissingLibraryError
from sonde.integrations.trackers.alerts import Alert

try:
    import trackio
    from trackio import context_vars
except ImportError as _error:
    raise MissingLibraryError("trackio", "trackio", _error) from None


class TrackioTracker:
    """A run of Trackio."""

    def __init__(self, run: Any, *, is_own: bool) -> None:
        self._run = run
        self._is_own = is_own

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def alert(self, alert: Alert) -> None:
        level = trackio.AlertLevel[alert.level]
        self._run.alert(alert.title, alert.text, level=level, step=alert.step)

    def keep(self, directory: Path) -> None:
        artifact = trackio.Artifact(directory.name, type="sonde-step")
        artifact.add_dir(str(directory))
        self._run.log_artifact(artifact)

    def close(self) -> None:
        if self._is_own:
            trackio.finish()


def program_run() -> TrackioTracker | None:
    """The run that the program has opened."""
    active = context_vars.current_run.get()
    return None if active is None else TrackioTracker(active, is_own=False)


def open_run(project: str) -> TrackioTracker:
    """The run that the program has opened, or an own one."""
    if (found := program_run()) is not None:
        return found
    run = trackio.init(project=project, embed=False, auto_log_cpu=False, auto_log_gpu=False)
    return TrackioTracker(run, is_own=True)
