"""Accuracy, precision, recall, F-scores and top-k against scikit-learn and hand-worked values."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import numpy as np
import pytest
import sklearn.metrics as truth
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sonde.core.errors import SondeError
from sonde.train.metrics import (
    F1,
    Accuracy,
    Fbeta,
    Metric,
    MetricInputError,
    MetricInputTypeError,
    Precision,
    Recall,
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
)

SCORES = torch.tensor([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]])
LABELS = torch.tensor([1, 0, 1])
FIVE_CLASSES = torch.tensor(
    [[0.2, 0.5, 0.3, 0.6, 0.2], [0.1, 0.35, 0.5, 0.2, 0.0], [0.9, 0.6, 0.2, 0.01, 0.3]]
)


def test_the_documents_accuracy_example_prints_as_the_document_shows():
    x = torch.tensor(np.array([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]]))
    y = torch.tensor(np.array([1, 0, 1]))
    shown = io.StringIO()
    with redirect_stdout(shown):
        metric = Accuracy()
        metric.clear()
        metric.update(x, y)
        accuracy = metric.eval()
        print("Accuracy is ", accuracy)
    assert shown.getvalue() == "Accuracy is  0.6667\n"
    assert accuracy == 2 / 3


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (Precision(), [0.5, 1.0]),
        (Recall(), [1.0, 0.5]),
        (F1(), [2 / 3, 2 / 3]),
        (Fbeta(2), [5 / 6, 5 / 9]),
    ],
)
def test_each_class_gets_its_own_value(metric: Metric, value: list[float]):
    assert metric(SCORES, LABELS).tolist() == pytest.approx(value, abs=1e-15)
    assert metric.eval(average=True) == pytest.approx(np.mean(value), abs=1e-15)


def test_one_hot_labels_float_labels_lists_and_arrays_all_mean_the_same():
    one_hot = torch.tensor([[0, 1], [1, 0], [0, 1]])
    for labels in (LABELS, LABELS.float(), LABELS.tolist(), LABELS.numpy(), one_hot):
        assert Accuracy()(SCORES, labels) == 2 / 3
    assert Accuracy()(SCORES.tolist(), LABELS) == 2 / 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_scores_of_any_float_type_are_taken(dtype: torch.dtype):
    assert Accuracy()(SCORES.to(dtype), LABELS) == 2 / 3
    assert TopKCategoricalAccuracy(1)(SCORES.to(dtype), LABELS) == 2 / 3


def test_a_score_of_nan_counts_as_the_largest():
    assert Accuracy()(torch.tensor([[float("nan"), 5.0]]), torch.tensor([0])) == 1


def test_pictures_are_judged_pixel_by_pixel():
    rng = np.random.default_rng(0)
    scores, labels = rng.random((2, 3, 4, 5)), rng.integers(0, 3, (2, 4, 5))
    expected = truth.recall_score(labels.ravel(), scores.argmax(1).ravel(), average=None)
    assert Recall()(scores, labels).tolist() == pytest.approx(expected.tolist(), abs=1e-15)


def test_gradients_are_not_kept_by_a_metric():
    scores = SCORES.clone().requires_grad_()
    metric = Accuracy()
    metric.update(scores * 2, LABELS)
    assert metric.eval() == 2 / 3
    assert scores.grad is None


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, list[tuple[Tensor, Tensor]]]:
    classes = draw(st.integers(2, 5))
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    data = [
        (torch.tensor(rng.random((size, classes))), torch.tensor(rng.integers(0, classes, size)))
        for size in sizes
    ]
    return classes, data


@pytest.mark.document(
    26,
    says="metric `accuracy`",
    how="`Accuracy`, equal to scikit-learn's",
)
@pytest.mark.document(
    29,
    says="metrics `precision`, `recall` and `F1`",
    how="`Precision`, `Recall`, `F1`: a number per class, equal to scikit-learn's",
)
@settings(deadline=None, max_examples=60)
@given(batches())
def test_scikit_learn_agrees_however_the_data_are_cut(given_data):
    classes, data = given_data
    scores = torch.cat([batch for batch, _ in data])
    predicted, labels = scores.argmax(1).numpy(), torch.cat([batch for _, batch in data]).numpy()
    options = {"labels": range(classes), "average": None, "zero_division": 0.0}
    expected = {
        "accuracy": truth.accuracy_score(labels, predicted),
        "precision": truth.precision_score(labels, predicted, **options),
        "recall": truth.recall_score(labels, predicted, **options),
        "f1": truth.f1_score(labels, predicted, **options),
        "f2": truth.fbeta_score(labels, predicted, beta=2, **options),
        "top2": truth.top_k_accuracy_score(labels, scores, k=2, labels=range(classes))
        if classes > 2
        else 1.0,
    }
    metrics = {
        "accuracy": Accuracy(),
        "precision": Precision(),
        "recall": Recall(),
        "f1": F1(),
        "f2": Fbeta(2),
        "top2": TopKCategoricalAccuracy(2),
    }
    for name, metric in metrics.items():
        for batch in data:
            metric.update(*batch)
        np.testing.assert_allclose(metric.eval(), expected[name], rtol=0, atol=1e-15)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_scikit_learn_agrees_on_several_labels_at_once(samples: int, labels: int, seed: int):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 2, (samples, labels)), rng.integers(0, 2, (samples, labels))
    assert Accuracy("multilabel")(x, y) == (x == y).all(1).mean()
    for metric, expected in (
        (Precision("multilabel"), truth.precision_score),
        (Recall("multilabel"), truth.recall_score),
        (F1("multilabel"), truth.f1_score),
    ):
        # scikit-learn takes a single column for the binary case, so a column of zeros is added.
        wide_x, wide_y = (np.hstack([side, np.zeros((samples, 1), int)]) for side in (x, y))
        value = expected(wide_y, wide_x, average=None, zero_division=0.0)[:labels]
        np.testing.assert_allclose(metric(x, y), value, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (TopKCategoricalAccuracy(3), 2 / 3),
        (Top1CategoricalAccuracy(), 0.0),
        (Top5CategoricalAccuracy(), 1.0),
        (TopKCategoricalAccuracy(100), 1.0),
    ],
)
def test_the_label_counts_when_it_is_among_the_k_largest(metric: Metric, value: float):
    assert metric(FIVE_CLASSES, torch.tensor([2.0, 0.0, 1.0])) == value


@pytest.mark.parametrize(
    "metric", [Accuracy(), Precision(), Recall(), F1(), TopKCategoricalAccuracy(2)]
)
def test_a_value_before_any_sample_is_a_runtime_error_that_says_what_to_do(metric: Metric):
    metric.clear()
    with pytest.raises(RuntimeError, match=r"call update\(\).*\[metric-empty\]") as caught:
        metric.eval()
    assert isinstance(caught.value, SondeError)
    metric.update(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))
    with pytest.raises(RuntimeError):
        metric.eval()


def test_clear_resets_the_metric_and_a_call_uses_its_own_batch_only():
    metric = Accuracy()
    metric.update(SCORES, LABELS)
    metric.clear()
    metric.update(SCORES[:1], LABELS[:1])
    assert metric.eval() == 1
    assert metric(SCORES[2:], LABELS[2:]) == 0


def test_a_value_may_be_computed_between_batches():
    metric = Accuracy()
    metric.update(SCORES[:1], LABELS[:1])
    assert metric.eval() == 1
    metric.update(SCORES[1:], LABELS[1:])
    assert metric.eval() == 2 / 3


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((SCORES,), "takes 2 inputs"),
        ((SCORES, torch.zeros(4)), "do not fit"),
        ((SCORES, torch.tensor([0, 1, 2])), "the classes are 0 to 1"),
        ((SCORES, torch.tensor([0, -1, 1])), "labels run from -1 to 1"),
        ((SCORES, torch.tensor([0.5, 1, 1])), "whole numbers"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_with_the_reason(inputs: tuple, words: str):
    for metric in (Accuracy(), Precision(), TopKCategoricalAccuracy(1)):
        with pytest.raises(MetricInputError, match=words):
            metric.update(*inputs)


def test_another_number_of_classes_is_refused():
    metric = Accuracy()
    metric.update(SCORES, LABELS)
    with pytest.raises(MetricInputError, match="5 classes, the ones before had 2"):
        metric.update(FIVE_CLASSES, LABELS)


def test_multilabel_inputs_must_be_zeros_and_ones():
    with pytest.raises(MetricInputError, match="predictions must be 0 or 1"):
        Accuracy("multilabel").update(SCORES, torch.zeros(3, 2))


def test_an_argument_that_is_no_tensor_list_or_array_is_a_type_error():
    with pytest.raises(MetricInputTypeError, match="not str"):
        Accuracy().update("scores", LABELS)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Accuracy("regression"), ValueError),
        (lambda: Accuracy(1), TypeError),
        (lambda: Fbeta(0), ValueError),
        (lambda: TopKCategoricalAccuracy(0), ValueError),
        (lambda: TopKCategoricalAccuracy(1.5), TypeError),
    ],
)
def test_arguments_are_checked(make, error):
    with pytest.raises(error) as caught:
        make()
    assert isinstance(caught.value, SondeError)
