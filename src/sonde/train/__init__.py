"""The training toolkit: Model, callbacks, checkpoints, metrics, loss scale, learning rates.

``import sonde.train as ms`` has the names that MindSpore's documents take from ``mindspore``.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import torch

from sonde.core.callback import RunArguments, RunContext
from sonde.core.mindspore.absent_names import absent
from sonde.train import callback as _callback
from sonde.train.callback import *  # noqa: F403
from sonde.train.cell import Cell
from sonde.train.checkpoint.checkpoint import (
    load_checkpoint,
    load_param_into_net,
    load_training_state,
    newest_checkpoint,
    save_checkpoint,
    save_checkpoint_async,
)
from sonde.train.checks import check_gradients, check_update, check_weights, compare_weights
from sonde.train.learning_rate import (
    CosineDecayLR,
    ExponentialDecayLR,
    InverseDecayLR,
    LearningRateError,
    LearningRateSchedule,
    ListedLR,
    NaturalExpDecayLR,
    PiecewiseConstantLR,
    PolynomialDecayLR,
    WarmUpLR,
    cosine_decay_lr,
    exponential_decay_lr,
    inverse_decay_lr,
    natural_exp_decay_lr,
    piecewise_constant_lr,
    polynomial_decay_lr,
    scheduler_for,
    warmup_lr,
)
from sonde.train.loop.loop import Loop, callbacks
from sonde.train.loop.model import Model
from sonde.train.loop.progress import ProgressBar
from sonde.train.loss_scale import (
    DynamicLossScaleManager,
    DynamicLossScaler,
    DynamicLossScaleUpdateCell,
    FixedLossScaleManager,
    FixedLossScaleUpdateCell,
    LossScaleError,
    LossScaleManager,
    LossScaler,
    StaticLossScaler,
    all_finite,
)
from sonde.train.one_step import LossScaling, TrainOneStepWithLossScaleCell, WithLossCell
from sonde.train.parameters import list_parameters
from sonde.train.rank_weights import check_ranks
from sonde.train.scheduled_optimizer import follow_schedule

# Exported too, but imported on first use: torchmetrics is slow to import, the summaries are
# in a layer beside this one, and the context, the seed and the choice of a dump are above it.
_METRICS = (
    "AUC",
    "F1",
    "MAE",
    "MSE",
    "ROC",
    "Accuracy",
    "BleuScore",
    "ConfusionMatrix",
    "ConfusionMatrixMetric",
    "CosineSimilarity",
    "Dice",
    "EvaluationBase",
    "Fbeta",
    "HausdorffDistance",
    "Loss",
    "MeanSurfaceDistance",
    "Metric",
    "MetricInputError",
    "MetricInputTypeError",
    "MetricNotReadyError",
    "MetricValue",
    "OcclusionSensitivity",
    "Perplexity",
    "Precision",
    "Recall",
    "RootMeanSquareDistance",
    "Tolerance",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "TorchMetric",
    "UnknownMetricError",
    "auc",
    "get_metric_fn",
    "get_metrics",
    "names",
    "rearrange_inputs",
)
_CONTEXT = (
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "ParallelMode",
    "get_context",
    "set_auto_parallel_context",
    "set_context",
)
_HOMES = {
    **dict.fromkeys(_METRICS, "sonde.train.metrics"),
    **dict.fromkeys(_CONTEXT, "sonde.context"),
    "SummaryCollector": "sonde.summary",
    "set_dump": "sonde.api",
    "set_seed": "sonde.api",
}
# Each of these libraries is an extra.
_NEEDED = {"sonde.train.metrics": "torchmetrics", "sonde.summary": "tensorboard"}

__all__ = [
    *_callback.__all__,
    "Cell",
    "CosineDecayLR",
    "DynamicLossScaleManager",
    "DynamicLossScaleUpdateCell",
    "DynamicLossScaler",
    "ExponentialDecayLR",
    "FixedLossScaleManager",
    "FixedLossScaleUpdateCell",
    "InverseDecayLR",
    "LearningRateError",
    "LearningRateSchedule",
    "ListedLR",
    "Loop",
    "LossScaleError",
    "LossScaleManager",
    "LossScaler",
    "LossScaling",
    "Model",
    "NaturalExpDecayLR",
    "PiecewiseConstantLR",
    "PolynomialDecayLR",
    "ProgressBar",
    "RunArguments",
    "RunContext",
    "StaticLossScaler",
    "TrainOneStepWithLossScaleCell",
    "WarmUpLR",
    "WithLossCell",
    "all_finite",
    "callbacks",
    "check_gradients",
    "check_ranks",
    "check_update",
    "check_weights",
    "compare_weights",
    "cosine_decay_lr",
    "exponential_decay_lr",
    "follow_schedule",
    "inverse_decay_lr",
    "list_parameters",
    "load_checkpoint",
    "load_param_into_net",
    "load_training_state",
    "natural_exp_decay_lr",
    "newest_checkpoint",
    "piecewise_constant_lr",
    "polynomial_decay_lr",
    "save_checkpoint",
    "save_checkpoint_async",
    "scheduler_for",
    "warmup_lr",
]
# A star import leaves out what needs a library that is not installed.
__all__ += [
    name
    for name, home in _HOMES.items()
    if name != "names" and (home not in _NEEDED or find_spec(_NEEDED[home]) is not None)
]

_MODULES = {
    **{name: f"{__name__}.{name}" for name in ("dataset", "metrics", "nn", "validator")},
    "context": "sonde.context",
    "ops": "sonde.ops",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    absent(__name__, name)
    found = getattr(torch, name, None)
    if isinstance(found, torch.dtype):  # float16 of ``import sonde.train as ms``
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
