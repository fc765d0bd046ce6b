"""Every metric over two gloo ranks equals the same metric over all the data in one process."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torchmetrics

from sonde.train.metrics import (
    AUC,
    F1,
    MAE,
    MSE,
    ROC,
    Accuracy,
    BleuScore,
    ConfusionMatrix,
    ConfusionMatrixMetric,
    CosineSimilarity,
    Dice,
    HausdorffDistance,
    Loss,
    MeanSurfaceDistance,
    Metric,
    MetricNotReadyError,
    Perplexity,
    Precision,
    Recall,
    RootMeanSquareDistance,
    Tolerance,
    TopKCategoricalAccuracy,
    TorchMetric,
)

CASES = [
    "accuracy",
    "exact",
    "precision",
    "recall",
    "f1",
    "topk",
    "matrix",
    "measure",
    "roc",
    "auc",
    "auc3",
    "mae",
    "mse",
    "tolerance",
    "loss",
    "perplexity",
    "logits",
    "bleu",
    "dice",
    "hausdorff",
    "mean_surface",
    "root_mean",
    "cosine",
    "torchmetrics",
]


def _cases() -> dict[str, tuple[Metric, list[tuple[Any, ...]]]]:
    """Each metric with three batches of uneven size: two for rank 0, one for rank 1."""
    rng = np.random.default_rng(7)
    sizes = (5, 3, 9)
    scores = [rng.random((size, 3)) for size in sizes]
    labels = [np.r_[0, 1, 2, rng.integers(0, 3, size - 3)] for size in sizes]
    binary = [(labels_of > 0).astype(int) for labels_of in labels]
    classes = list(zip(scores, labels, strict=True))
    reals = [(rng.normal(size=(size, 2)), rng.normal(size=(size, 2))) for size in sizes]
    sets = [(rng.integers(0, 2, (size, 4)), rng.integers(0, 2, (size, 4))) for size in sizes]
    ones = [(left[:, 0], right) for (left, _), right in zip(reals, binary, strict=True)]
    masks = [(rng.random((6, 6)) < 0.5, rng.random((6, 6)) < 0.5, 1) for _ in sizes]
    words = [([list("abcd")], [[list("abce"), list("xbcd")]])] * 3
    tensors = [tuple(torch.tensor(side) for side in pair) for pair in reals]
    return {
        "accuracy": (Accuracy(), classes),
        "exact": (Accuracy("multilabel"), sets),
        "precision": (Precision(), classes),
        "recall": (Recall(), classes),
        "f1": (F1("multilabel"), sets),
        "topk": (TopKCategoricalAccuracy(2), classes),
        "matrix": (ConfusionMatrix(), classes),
        "measure": (ConfusionMatrixMetric(calculation_method=True, decrease="none"), sets),
        "roc": (ROC(), ones),
        "auc": (AUC(), ones),
        "auc3": (AUC(), classes),
        "mae": (MAE(), reals),
        "mse": (MSE(), reals),
        "tolerance": (Tolerance(0.5, 0.5), reals),
        "loss": (Loss(), [(0.5,), (0.25,), (4.0,)]),
        "perplexity": (Perplexity(), classes),
        "logits": (Perplexity(from_logits=True), classes),
        "bleu": (BleuScore(n_gram=2), words),
        "dice": (Dice(), reals),
        "hausdorff": (HausdorffDistance(), masks),
        "mean_surface": (MeanSurfaceDistance(), masks),
        "root_mean": (RootMeanSquareDistance(), masks),
        "cosine": (CosineSimilarity(), [(left,) for left, _ in reals]),
        "torchmetrics": (TorchMetric(torchmetrics.MeanSquaredError()), tensors),
    }


def _rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    results: dict[str, Any] = {}
    for name, (metric, batches) in _cases().items():
        for batch in batches[:2] if rank == 0 else batches[2:]:
            metric.update(*batch)
        results[name] = metric.eval()
        results[f"{name} again"] = metric.eval()
    results["idle"] = _with_an_idle_rank(rank)
    results["empty"] = _of_nothing()
    Path(folder, f"rank_{rank}").write_bytes(pickle.dumps(results))
    dist.destroy_process_group()


def _with_an_idle_rank(rank: int) -> float:
    metric = Accuracy()
    if rank == 1:
        metric.update([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], [1, 0, 0])
    return metric.eval()


def _of_nothing() -> str:
    try:
        Accuracy().eval()
    except MetricNotReadyError as error:
        return error.slug
    return "no error"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    mp.start_processes(_rank, (str(folder),), nprocs=2, start_method="spawn")
    return [pickle.loads((folder / f"rank_{rank}").read_bytes()) for rank in range(2)]


def test_every_case_is_tested():
    assert set(CASES) == set(_cases())


@pytest.mark.parametrize("name", CASES)
def test_both_ranks_get_the_value_of_all_the_data(name: str, ranks: list[dict[str, Any]]):
    metric, batches = _cases()[name]
    for batch in batches:
        metric.update(*batch)
    expected = metric.eval()
    for results in ranks:
        for key in (name, f"{name} again"):
            for ours, theirs in zip(_parts(results[key]), _parts(expected), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-6 if "torch" in key else 1e-13)


def test_a_rank_without_data_takes_part(ranks: list[dict[str, Any]]):
    assert [results["idle"] for results in ranks] == [2 / 3, 2 / 3]


def test_if_no_rank_has_data_all_ranks_raise(ranks: list[dict[str, Any]]):
    assert [results["empty"] for results in ranks] == ["metric-empty", "metric-empty"]


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
