"""Creates metrics by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torchmetrics

from sonde.core.errors import SondeError
from sonde.core.settings import nearest
from sonde.train.metrics import classification, confusion, curves, regression, segmentation, text
from sonde.train.metrics.contract import Metric
from sonde.train.metrics.foreign import TorchMetric
from sonde.train.metrics.sensitivity import OcclusionSensitivity
from sonde.train.metrics.similarity import CosineSimilarity
from sonde.train.validator import wrong_type

_METRICS: dict[str, type[Metric]] = {
    "accuracy": classification.Accuracy,
    "acc": classification.Accuracy,
    "precision": classification.Precision,
    "recall": classification.Recall,
    "F1": classification.F1,
    "Fbeta": classification.Fbeta,
    "topk": classification.TopKCategoricalAccuracy,
    "top_1_accuracy": classification.Top1CategoricalAccuracy,
    "top_5_accuracy": classification.Top5CategoricalAccuracy,
    "confusion_matrix": confusion.ConfusionMatrix,
    "confusion_matrix_metric": confusion.ConfusionMatrixMetric,
    "roc": curves.ROC,
    "auc": curves.AUC,
    "mae": regression.MAE,
    "mse": regression.MSE,
    "tolerance": regression.Tolerance,
    "loss": regression.Loss,
    "perplexity": text.Perplexity,
    "bleu": text.BleuScore,
    "bleu_score": text.BleuScore,
    "dice": segmentation.Dice,
    "hausdorff_distance": segmentation.HausdorffDistance,
    "mean_surface_distance": segmentation.MeanSurfaceDistance,
    "root_mean_square_distance": segmentation.RootMeanSquareDistance,
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
