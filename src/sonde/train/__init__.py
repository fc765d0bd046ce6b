"""The training toolkit: Model, callbacks, checkpoints, metrics, loss scale, learning rates."""

from __future__ import annotations

import importlib
from typing import Any

from sonde.core.callback import RunArguments, RunContext
from sonde.train import callback as _callback
from sonde.train.callback import *  # noqa: F403
from sonde.train.checkpoint.checkpoint import (
    load_checkpoint,
    load_param_into_net,
    load_training_state,
    newest_checkpoint,
    save_checkpoint,
    save_checkpoint_async,
)
from sonde.train.checks import check_gradients, check_update, check_weights, compare_weights
from sonde.train.loop.loop import Loop, callbacks
from sonde.train.loop.model import Model
from sonde.train.loop.progress import ProgressBar

__all__ = [
    *_callback.__all__,
    "Loop",
    "Model",
    "ProgressBar",
    "RunArguments",
    "RunContext",
    "callbacks",
    "check_gradients",
    "check_update",
    "check_weights",
    "compare_weights",
    "load_checkpoint",
    "load_param_into_net",
    "load_training_state",
    "newest_checkpoint",
    "save_checkpoint",
    "save_checkpoint_async",
]

# Exported too, but imported on first use: their libraries are slow to import. The same holds for
# the summaries, which are in a layer beside this one.
_LAZY_MODULES = (
    "sonde.train.loss_scale",
    "sonde.train.learning_rate",
    "sonde.train.metrics",
    "sonde.train.one_step",
)


def __getattr__(name: str) -> Any:
    if name.startswith("Summary"):
        return getattr(importlib.import_module("sonde.summary"), name)
    if not name.startswith("_"):
        for path in _LAZY_MODULES:
            found = getattr(importlib.import_module(path), name, None)
            if str(getattr(found, "__module__", "")).startswith(path):
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
