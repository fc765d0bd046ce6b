"""The training toolkit: Model, callbacks, checkpoints, metrics, loss scale, learning rates.

``import sonde.train as ms`` has the names that MindSpore's documents take from ``mindspore``. What
is imported below as ``name as name`` is exported; ``__all__`` is derived from it.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import torch

from sonde.core.mindspore import absent_names as _absent_names

# A statement for each module, where isort would write one for each name.
# isort: off
from sonde.core.callback import RunArguments as RunArguments, RunContext as RunContext
from sonde.train.callback import *  # noqa: F403
from sonde.train.cell import Cell as Cell
from sonde.train.checkpoint.checkpoint import (
    load_checkpoint as load_checkpoint,
    load_param_into_net as load_param_into_net,
    load_training_state as load_training_state,
    newest_checkpoint as newest_checkpoint,
    save_checkpoint as save_checkpoint,
    save_checkpoint_async as save_checkpoint_async,
)
from sonde.train.checks import (
    check_gradients as check_gradients,
    check_update as check_update,
    check_weights as check_weights,
    compare_weights as compare_weights,
)
from sonde.train.learning_rate import (
    CosineDecayLR as CosineDecayLR,
    ExponentialDecayLR as ExponentialDecayLR,
    InverseDecayLR as InverseDecayLR,
    LearningRateError as LearningRateError,
    LearningRateSchedule as LearningRateSchedule,
    ListedLR as ListedLR,
    NaturalExpDecayLR as NaturalExpDecayLR,
    PiecewiseConstantLR as PiecewiseConstantLR,
    PolynomialDecayLR as PolynomialDecayLR,
    WarmUpLR as WarmUpLR,
    cosine_decay_lr as cosine_decay_lr,
    exponential_decay_lr as exponential_decay_lr,
    inverse_decay_lr as inverse_decay_lr,
    natural_exp_decay_lr as natural_exp_decay_lr,
    piecewise_constant_lr as piecewise_constant_lr,
    polynomial_decay_lr as polynomial_decay_lr,
    scheduler_for as scheduler_for,
    warmup_lr as warmup_lr,
)
from sonde.train.loop.loop import Loop as Loop, callbacks as callbacks
from sonde.train.loop.model import Model as Model
from sonde.train.loop.progress import ProgressBar as ProgressBar
from sonde.train.loss_scale import (
    DynamicLossScaleManager as DynamicLossScaleManager,
    DynamicLossScaler as DynamicLossScaler,
    DynamicLossScaleUpdateCell as DynamicLossScaleUpdateCell,
    FixedLossScaleManager as FixedLossScaleManager,
    FixedLossScaleUpdateCell as FixedLossScaleUpdateCell,
    LossScaleError as LossScaleError,
    LossScaleManager as LossScaleManager,
    LossScaler as LossScaler,
    StaticLossScaler as StaticLossScaler,
    all_finite as all_finite,
)
from sonde.train.one_step import (
    LossScaling as LossScaling,
    TrainOneStepWithLossScaleCell as TrainOneStepWithLossScaleCell,
    WithLossCell as WithLossCell,
)
from sonde.train.parameters import list_parameters as list_parameters
from sonde.train.rank_weights import check_ranks as check_ranks
from sonde.train.scheduled_optimizer import follow_schedule as follow_schedule
# isort: on

# Exported too, but imported on first use: torchmetrics is slow to import, the summaries are
# in a layer beside this one, and the context, the seed and the choice of a dump are above it.
_METRICS = "sonde.train.metrics"
_LAZY = {
    "SummaryCollector": "sonde.summary",
    "set_dump": "sonde.api",
    "set_seed": "sonde.api",
}
_LAZY_WHOLE = ("sonde.context", _METRICS)
"""Modules of which every name is exported."""
_NEEDED = {_METRICS: "torchmetrics", "sonde.summary": "tensorboard"}
"""Each of these libraries is an extra."""
_INSTALL = "pip install 'sonde[train]'"
_MODULES = {
    **{name: f"{__name__}.{name}" for name in ("dataset", "metrics", "nn", "validator")},
    "context": "sonde.context",
    "ops": "sonde.ops",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({*_eager_names(), *_lazy_names()} - {"names"})
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    _absent_names.absent(__name__, name)
    found = getattr(torch, name, None)
    if isinstance(found, torch.dtype):  # float16 of ``import sonde.train as ms``
        return found
    lazy = {} if name.startswith("__") else _lazy_names()
    if name in lazy:
        return getattr(importlib.import_module(lazy[name]), name)
    from sonde.core.text.missing_name import missing_name

    more = "" if _is_usable(_METRICS) else f"; metrics need torchmetrics: {_INSTALL}"
    raise missing_name(__name__, name, [*__getattr__("__all__"), *_MODULES], more)


def _eager_names() -> list[str]:
    """The names that are imported above; submodules are imported as attributes, too."""
    return [
        name
        for name, value in globals().items()
        if not name.startswith("_")
        and isinstance(value, type | FunctionType)
        and value.__module__.startswith("sonde.")
    ]


def _lazy_names() -> dict[str, str]:
    """The names that are imported on first use, with the module of each. What needs a library that
    is not installed is left out."""
    names = {name: home for name, home in _LAZY.items() if _is_usable(home)}
    for home in filter(_is_usable, _LAZY_WHOLE):
        names |= dict.fromkeys(importlib.import_module(home).__all__, home)
    return names


def _is_usable(home: str) -> bool:
    return home not in _NEEDED or find_spec(_NEEDED[home]) is not None


def __dir__() -> list[str]:
    return sorted({*globals(), *_lazy_names(), *_MODULES})
