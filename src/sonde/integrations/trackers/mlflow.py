"""MLflow: metrics under ``sonde/``, findings as tags and a text, captured steps as artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sonde.integrations.missing_library import MissingLibraryError
from sonde.integrations.trackers.alerts import Alert

try:
    import mlflow
except ImportError as _error:
    raise MissingLibraryError("mlflow", "mlflow", _error) from None

_MOST_TAG = 5000
_TAG = "sonde.finding."


class MlflowTracker:
    """A run of MLflow, which has no alerts: a finding is a tag, which its page shows and searches,
    and ``sonde/findings.txt`` has them all."""

    def __init__(
        self, run_id: str, *, is_own: bool, client: mlflow.MlflowClient | None = None
    ) -> None:
        self._id = run_id
        self._is_own = is_own
        self._client = client or mlflow.MlflowClient()
        self._texts: list[str] | None = None

    def log(self, values: Mapping[str, float], step: int) -> None:
        mlflow.log_metrics(dict(values), step=step, run_id=self._id, synchronous=True)

    def alert(self, alert: Alert) -> None:
        if self._texts is None:  # An earlier training may have written to this run.
            tags = self._client.get_run(self._id).data.tags
            numbers = sum(name.startswith(_TAG) for name in tags)
            self._texts = [tags.get(f"{_TAG}{number + 1}", "") for number in range(numbers)]
        self._texts.append(f"{alert.level} {alert.title}: {alert.text}")
        name = f"{_TAG}{len(self._texts)}"
        self._client.set_tag(self._id, name, self._texts[-1][:_MOST_TAG])
        self._client.log_text(self._id, "\n\n".join(self._texts), "sonde/findings.txt")

    def keep(self, directory: Path) -> None:
        self._client.log_artifacts(self._id, str(directory), f"sonde/{directory.name}")

    def close(self) -> None:
        if self._is_own:
            self._client.set_terminated(self._id)


def program_run() -> MlflowTracker | None:
    """The run that the program has opened."""
    active = mlflow.active_run()
    return None if active is None else MlflowTracker(active.info.run_id, is_own=False)


def open_run(project: str) -> MlflowTracker:
    """The run that the program has opened, or an own one in the experiment ``project``."""
    if (found := program_run()) is not None:
        return found
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name(project)
    number = client.create_experiment(project) if experiment is None else experiment.experiment_id
    return MlflowTracker(client.create_run(number).info.run_id, is_own=True)
