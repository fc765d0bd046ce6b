"""Metrics of a model's quality, by name, by class, or from torchmetrics."""

from sonde.train.metrics.classification import (
    F1,
    Accuracy,
    Fbeta,
    Precision,
    Recall,
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
)
from sonde.train.metrics.confusion import ConfusionMatrix, ConfusionMatrixMetric
from sonde.train.metrics.contract import (
    Metric,
    MetricInputError,
    MetricInputTypeError,
    MetricNotReadyError,
    MetricValue,
    rearrange_inputs,
)
from sonde.train.metrics.curves import AUC, ROC, auc
from sonde.train.metrics.foreign import TorchMetric
from sonde.train.metrics.registry import UnknownMetricError, get_metric_fn, get_metrics, names
from sonde.train.metrics.regression import MAE, MSE, Loss, Tolerance
from sonde.train.metrics.segmentation import (
    Dice,
    HausdorffDistance,
    MeanSurfaceDistance,
    RootMeanSquareDistance,
)
from sonde.train.metrics.sensitivity import OcclusionSensitivity
from sonde.train.metrics.similarity import CosineSimilarity
from sonde.train.metrics.text import BleuScore, Perplexity

__all__ = [
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
]
