"""Metrics of a model's quality, by name, by class, or from torchmetrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torchmetrics

from sonde.core.arguments import wrong_type
from sonde.core.errors import SondeError
from sonde.core.settings import nearest
from sonde.train.metrics.classification import (
    F1,
    Accuracy,
    EvaluationBase,
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
from sonde.train.metrics.gathered import TorchMetric
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
]

_METRICS: dict[str, type[Metric]] = {
    "accuracy": Accuracy,
    "acc": Accuracy,
    "precision": Precision,
    "recall": Recall,
    "F1": F1,
    "Fbeta": Fbeta,
    "topk": TopKCategoricalAccuracy,
    "top_1_accuracy": Top1CategoricalAccuracy,
    "top_5_accuracy": Top5CategoricalAccuracy,
    "confusion_matrix": ConfusionMatrix,
    "confusion_matrix_metric": ConfusionMatrixMetric,
    "roc": ROC,
    "auc": AUC,
    "mae": MAE,
    "mse": MSE,
    "tolerance": Tolerance,
    "loss": Loss,
    "perplexity": Perplexity,
    "bleu": BleuScore,
    "bleu_score": BleuScore,
    "dice": Dice,
    "hausdorff_distance": HausdorffDistance,
    "mean_surface_distance": MeanSurfaceDistance,
    "root_mean_square_distance": RootMeanSquareDistance,
    "cosine_similarity": CosineSimilarity,
    "occlusion_sensitivity": OcclusionSensitivity,
}


class UnknownMetricError(SondeError, KeyError):
    """The name of a metric that does not exist."""

    __str__ = SondeError.__str__


def names() -> list[str]:
    """The names of all metrics, sorted."""
    return sorted(_METRICS)


def get_metric_fn(name: str, *args: Any, **kwargs: Any) -> Metric:
    """Create the metric of this name with these arguments."""
    if name not in _METRICS:
        hint = nearest(name, names(), "there are")
        raise UnknownMetricError(f"there is no metric {name!r}{hint}", slug="metric-unknown")
    return _METRICS[name](*args, **kwargs)


def get_metrics(metrics: Mapping[str, Any] | Iterable[str] | None) -> dict[str, Metric]:
    """Metrics by name, from names or from a dict of metrics and torchmetrics objects.

    A set of names is sorted, so that all ranks evaluate the metrics in the same order; a dict or a
    list keeps its order.
    """
    if metrics is None:
        return {}
    if isinstance(metrics, Mapping):
        return {name: _as_metric(name, metric) for name, metric in metrics.items()}
    if isinstance(metrics, str) or not isinstance(metrics, Iterable):
        raise wrong_type("metrics", None, "must be a set of names or a dict of metrics", metrics)
    chosen = sorted(metrics) if isinstance(metrics, (set, frozenset)) else list(metrics)
    return {name: _by_name(name) for name in chosen}


def _by_name(name: str) -> Metric:
    if name in ("topk", "Fbeta"):
        example = "TopKCategoricalAccuracy(k=3)" if name == "topk" else "Fbeta(beta=2)"
        raise UnknownMetricError(
            f"metric {name!r} needs an argument: write metrics={{{name!r}: {example}}}",
            slug="metric-unknown",
        )
    return get_metric_fn(name)


def _as_metric(name: Any, metric: Any) -> Metric:
    if not isinstance(name, str):
        raise wrong_type("metrics", None, "must have names as keys", name)
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, (torchmetrics.Metric, torchmetrics.MetricCollection)):
        return TorchMetric(metric)
    raise wrong_type(
        f"metrics[{name!r}]", None, "must be a Metric or a torchmetrics object", metric
    )
