"""TensorBoard: series and texts under ``sonde/`` in an event file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sonde.integrations.missing_library import MissingLibraryError
from sonde.integrations.trackers.alerts import EventFileTexts

try:
    import tensorboard  # type: ignore[import-untyped]  # noqa: F401
except ImportError as _error:
    raise MissingLibraryError("tensorboard", "summary", _error) from None

_DIRECTORY: Final = "runs"
"""That of torch's SummaryWriter, so that ``tensorboard --logdir runs`` shows both."""


class TensorboardTracker(EventFileTexts):
    """An event file, which has no artifacts: the text of a finding has the address of the captured
    step."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def keep(self, directory: Path) -> None:
        """The address of the step is in the text of its finding."""

    def close(self) -> None:
        self._writer.close()


def open_run(project: str) -> TensorboardTracker:
    """An own event file: programs do not say where theirs are."""
    from torch.utils.tensorboard import SummaryWriter

    return TensorboardTracker(SummaryWriter(str(Path(_DIRECTORY) / f"sonde_{project}")))
