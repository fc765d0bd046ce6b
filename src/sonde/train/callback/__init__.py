"""The callbacks that come with Sonde, one file per family."""

from sonde.core.callback import Callback
from sonde.train.callback.best import SaveBest
from sonde.train.callback.checkpointing import CheckpointConfig, ModelCheckpoint
from sonde.train.callback.gradients import GradientMonitor
from sonde.train.callback.history import History, LambdaCallback
from sonde.train.callback.loss import LossMonitor, NonFiniteLossError
from sonde.train.callback.plateau import EarlyStopping, ReduceLROnPlateau
from sonde.train.callback.rate import LearningRateScheduler
from sonde.train.callback.stopping import OnRequestExit, StopAtTime
from sonde.train.callback.time import TimeMonitor

__all__ = [
    "Callback",
    "CheckpointConfig",
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
