"""Logs signals and findings of a training to the tracker that the user already has.

One module for each tracker; `TRACKERS` names them for ``sonde run --log-to``.
"""

from __future__ import annotations

from typing import Final

TRACKERS: Final = {
    "wandb": "wandb",
    "mlflow": "mlflow",
    "trackio": "trackio",
    "tensorboard": "summary",
}
"""The extra of Sonde that installs each."""
