"""The callbacks that come with Sonde, one file per family."""

from sonde.core.callback import Callback
from sonde.train.callback.best import EarlyStopping, SaveBest
from sonde.train.callback.checkpointing import CheckpointConfig, ModelCheckpoint
from sonde.train.callback.diagnosis import Diagnose
from sonde.train.callback.history import History, LambdaCallback
from sonde.train.callback.monitors import (
    GradientMonitor,
    LossMonitor,
    NonFiniteLossError,
    TimeMonitor,
)
from sonde.train.callback.rate import LearningRateScheduler, ReduceLROnPlateau
from sonde.train.callback.stopping import OnRequestExit, StopAtTime

__all__ = [
    "Callback",
    "CheckpointConfig",
    "Diagnose",
    "EarlyStopping",
    "GradientMonitor",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "LossMonitor",
    "ModelCheckpoint",
    "NonFiniteLossError",
    "OnRequestExit",
    "ReduceLROnPlateau",
    "SaveBest",
    "StopAtTime",
    "TimeMonitor",
]
