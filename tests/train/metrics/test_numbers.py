"""Errors, tolerance, loss, language, curves and confusion against scikit-learn and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics as truth
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.train.metrics import (
    AUC,
    MAE,
    MSE,
    ROC,
    BleuScore,
    ConfusionMatrix,
    ConfusionMatrixMetric,
    CosineSimilarity,
    Loss,
    MetricInputError,
    Perplexity,
    Tolerance,
    auc,
)

CANDIDATE = ["i", "have", "a", "pen", "on", "my", "desk"]
REFERENCES = [
    ["i", "have", "a", "pen", "in", "my", "desk"],
    ["there", "is", "a", "pen", "on", "the", "desk"],
]
PROBABILITIES = [[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]]


def test_errors_match_the_references_examples():
    x, y = torch.tensor([0.1, 0.2, 0.6, 0.9]), torch.tensor([0.1, 0.25, 0.7, 0.9])
    assert MAE()(x, y) == 0.037499990314245224
    exact = np.array([0.1, 0.2, 0.6, 0.9]), np.array([0.1, 0.25, 0.7, 0.9])
    assert MSE()(*exact) == pytest.approx(0.003125, rel=1e-14)


def test_arrays_read_backwards_or_not_writable_are_taken():
    locked = np.array([1.0, 2.0])
    locked.flags.writeable = False
    assert MSE()(locked[::-1], np.array([2.0, 4.0])) == 4.5


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any), st.integers(0, 2**32 - 1))
def test_errors_are_means_over_elements_as_in_scikit_learn_for_any_batches(
    sizes: list[int], seed: int
):
    rng = np.random.default_rng(seed)
    data = [(rng.normal(size=(size, 3)), rng.normal(size=(size, 3))) for size in sizes]
    x, y = (np.concatenate(side) for side in zip(*data, strict=True))
    for metric, expected in (
        (MAE(), truth.mean_absolute_error(y, x)),
        (MSE(), truth.mean_squared_error(y, x)),
        (Tolerance(0.5, 0.25), np.isclose(x, y, rtol=0.5, atol=0.25).mean()),
    ):
        for batch in data:
            metric.update(*batch)
        assert metric.eval() == pytest.approx(expected, rel=1e-14)


def test_a_million_small_errors_do_not_get_lost():
    errors = torch.full((1_000_000,), 1e-4)
    metric = MAE()
    metric.update(torch.tensor([1e8]), torch.tensor([0.0]))
    metric.update(errors, torch.zeros(1_000_000))
    assert metric.eval() == pytest.approx((1e8 + 1e6 * 1e-4) / 1_000_001, rel=1e-9)


def test_nan_goes_through_errors_and_loss():
    nan = torch.tensor([1.0, math.nan])
    assert math.isnan(MAE()(nan, torch.zeros(2)))
    assert math.isnan(MSE()(nan, torch.zeros(2)))
    loss = Loss()
    loss.update(torch.tensor(1.0))
    loss.update(torch.tensor(math.nan))
    assert math.isnan(loss.eval())
    assert Loss()(torch.tensor(math.inf)) == math.inf


@pytest.mark.document(
    28,
    says="metric `tolerance`",
    how="`Tolerance`",
)
def test_tolerance_counts_elements_and_never_counts_nan():
    predicted = torch.tensor([1.0, 1.0009, 1.003, math.nan, math.inf, math.inf])
    expected = torch.tensor([1.0, 1.0, 1.0, math.nan, math.inf, -math.inf])
    assert Tolerance()(predicted, expected) == 3 / 6
    assert Tolerance(absolute=0.0, relative=0.0)(predicted, expected) == 2 / 6
    with pytest.raises(ValueError, match="relative must be at least 0"):
        Tolerance(-1.0)


def test_shapes_that_only_differ_by_ones_are_compared():
    assert MSE()(torch.ones(4, 1), torch.zeros(4)) == 1
    with pytest.raises(MetricInputError, match="same shape"):
        MSE().update(torch.ones(4), torch.zeros(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64])
def test_numbers_of_any_type_are_computed_in_float64(dtype: torch.dtype):
    values = torch.tensor([3, 300], dtype=dtype)
    assert MSE()(values, torch.zeros(2, dtype=dtype)) == (9 + float(values[1]) ** 2) / 2


@pytest.mark.document(
    27,
    says="metric `loss`",
    how="`Loss`: the mean over the batches",
)
def test_the_loss_is_the_mean_over_batches():
    metric = Loss()
    metric.update(torch.tensor(0.2))
    assert metric.eval() == 0.20000000298023224
    metric.update([1.0, 3.0])
    assert metric.eval() == pytest.approx(1.1)
    metric.update(4.8)
    assert metric.eval() == pytest.approx(7 / 3)
    with pytest.raises(MetricInputError, match="number or a vector"):
        metric.update(torch.ones(2, 2))
    with pytest.raises(MetricInputError, match="takes 1 input "):
        metric.update(1.0, 2.0)


def test_perplexity_of_probabilities_is_worked_by_hand():
    assert Perplexity()(PROBABILITIES, [1, 0, 1]) == pytest.approx(0.09 ** (-1 / 3), rel=1e-14)
    assert Perplexity()(PROBABILITIES, [1, 0, 1]) == 2.231443166940565


def test_perplexity_of_a_certain_mistake_is_bounded():
    assert Perplexity()([[1.0, 0.0]], [1]) == pytest.approx(1e10)


def test_ignored_labels_do_not_count_towards_perplexity():
    metric = Perplexity(ignore_label=0)
    assert metric(PROBABILITIES, [1, 0, 1]) == pytest.approx(0.3**-0.5, rel=1e-14)
    metric.clear()
    metric.update(PROBABILITIES, [0, 0, 0])
    with pytest.raises(RuntimeError, match="metric-empty"):
        metric.eval()
    assert Perplexity(ignore_label=-100)(PROBABILITIES, [1, -100, 1]) == pytest.approx(0.3**-0.5)


def test_perplexity_of_raw_scores_is_the_exponential_of_the_cross_entropy():
    logits, labels = torch.randn(2, 3, 7, dtype=torch.float64), torch.randint(0, 7, (2, 3))
    entropy = torch.nn.functional.cross_entropy(logits.reshape(-1, 7), labels.reshape(-1))
    assert Perplexity(from_logits=True)(logits, labels) == pytest.approx(math.exp(entropy))


def test_perplexity_needs_a_label_for_each_row():
    with pytest.raises(MetricInputError, match="one label for each row of 2 classes"):
        Perplexity().update(PROBABILITIES, [1, 0])


def test_bleu_matches_the_references_example_and_hand_work():
    assert BleuScore()([CANDIDATE], [REFERENCES]) == 0.5946035575013605
    # All 7 words, 5 of 6 pairs, 2 of 3 ... by hand: 7/7 * 5/6 = 0.8333, its root 0.9129.
    assert BleuScore(n_gram=2)([CANDIDATE], [REFERENCES]) == pytest.approx((7 / 7 * 5 / 6) ** 0.5)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor], ids=lambda kind: kind.__name__)
def test_bleu_takes_token_ids_in_any_container(kind):
    # Three of four words and two of three pairs are shared.
    score = BleuScore(n_gram=2)(kind([[1, 2, 3, 4]]), kind([[[1, 2, 3, 5]]]))
    assert score == pytest.approx((3 / 4 * 2 / 3) ** 0.5)


def test_bleu_of_labels_that_are_no_texts_says_what_it_takes():
    with pytest.raises(MetricInputError, match="a list of candidates and, for each, a list"):
        BleuScore().update(torch.rand(2, 3), torch.tensor([0, 1]))


def test_bleu_takes_text_words_with_blanks_and_numbers():
    assert BleuScore()([" ".join(CANDIDATE)], [[" ".join(words) for words in REFERENCES]]) == (
        BleuScore()([CANDIDATE], [REFERENCES])
    )
    assert BleuScore(n_gram=1)([["New York", "is"]], [[["New", "York", "is"]]]) == pytest.approx(
        math.exp(1 - 3 / 2) * 1 / 2
    )
    assert BleuScore()([[1, 2, 3, 4]], [[[1, 2, 3, 4]]]) == 1


def test_bleu_is_zero_without_a_common_n_gram_and_gathers_over_batches():
    assert BleuScore()([["a", "b", "c", "d"]], [[["a", "x", "c", "y"]]]) == 0
    metric = BleuScore(n_gram=1)
    metric.update([["a", "b"]], [[["a", "b"]]])
    metric.update([["c", "d"]], [[["x", "d"]]])
    assert metric.eval() == 3 / 4
    with pytest.raises(MetricInputError, match="1 candidates need as many"):
        metric.update([["a"]], [])
    with pytest.raises(ValueError, match="from 1 to 4"):
        BleuScore(5)


def test_roc_matches_the_references_examples():
    fpr, tpr, thresholds = ROC(pos_label=2)(np.array([3, 1, 4, 2]), np.array([0, 1, 2, 3]))
    assert fpr.tolist() == [0, 0, 1 / 3, 2 / 3, 1]
    assert tpr.tolist() == [0, 1, 1, 1, 1]
    assert thresholds.tolist() == [5, 4, 3, 2, 1]
    scores = np.array([[3, 0, 1], [1, 3, 0], [1, 0, 2]])
    fpr, tpr, _ = ROC(pos_label=2)(scores, np.array([[0, 2, 1], [1, 2, 1], [0, 0, 1]]))
    assert auc(fpr, tpr) == 0.5357142857142857


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 40), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1e-3, 1e6]))
def test_curve_and_area_match_scikit_learn_with_ties_and_scores_of_any_size(samples, seed, scale):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-20, 20, samples) * scale
    labels = np.r_[0, 1, rng.integers(0, 2, samples - 2)]
    metric = ROC()
    metric.update(scores[: samples // 2], labels[: samples // 2])
    metric.update(scores[samples // 2 :], labels[samples // 2 :])
    fpr, tpr, thresholds = metric.eval()
    expected = truth.roc_curve(labels, scores, drop_intermediate=False)
    np.testing.assert_allclose(fpr, expected[0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(tpr, expected[1], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(thresholds[1:], expected[2][1:])
    assert AUC()(scores, labels) == pytest.approx(truth.roc_auc_score(labels, scores), abs=1e-14)


def test_the_area_of_several_classes_is_the_mean_of_one_against_the_rest():
    rng = np.random.default_rng(1)
    scores, labels = rng.random((50, 3)), np.r_[0, 1, 2, rng.integers(0, 3, 47)]
    scores /= scores.sum(1, keepdims=True)
    expected = truth.roc_auc_score(labels, scores, multi_class="ovr")
    assert AUC(class_num=3)(scores, labels) == pytest.approx(expected, abs=1e-14)
    metric = AUC()
    metric.update(scores, labels)
    assert metric.eval(average=False).mean() == pytest.approx(expected, abs=1e-14)


def test_a_curve_without_both_kinds_or_with_nan_is_refused():
    with pytest.raises(MetricInputError, match="no sample is negative for label 1"):
        ROC()([0.1, 0.2], [1, 1])
    with pytest.raises(MetricInputError, match="no sample is positive for label 7"):
        ROC(pos_label=7)([0.1, 0.2], [1, 1])
    with pytest.raises(MetricInputError, match="must not be NaN"):
        ROC().update([math.nan, 0.2], [0, 1])
    with pytest.raises(MetricInputError, match="class_num 4"):
        ROC(class_num=4).update(np.ones((2, 3)), [0, 1])


def test_the_area_follows_the_trapezoidal_rule_in_either_direction():
    x, y = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 2.0])
    assert auc(x, y) == 5
    assert auc(x[::-1], y[::-1]) == 5
    assert auc(x[[2, 0, 1]], y[[2, 0, 1]], reorder=True) == 5
    with pytest.raises(MetricInputError, match="reorder=True"):
        auc(x[[2, 0, 1]], y)
    with pytest.raises(TypeError):
        auc([0, 1], [0, 1])
    with pytest.raises(MetricInputError, match="at least 2"):
        auc(np.zeros(1), np.zeros(1))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 30), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_the_confusion_matrix_is_scikit_learns(samples: int, classes: int, seed: int):
    rng = np.random.default_rng(seed)
    scores, labels = rng.random((samples, classes)), rng.integers(0, classes, samples)
    for ours, theirs in (
        ("no_norm", None),
        ("target", "true"),
        ("prediction", "pred"),
        ("all", "all"),
    ):
        expected = truth.confusion_matrix(
            labels, scores.argmax(1), labels=range(classes), normalize=theirs
        )
        metric = ConfusionMatrix(normalize=ours)
        metric.update(scores, labels)
        np.testing.assert_allclose(metric.eval(), expected, rtol=0, atol=1e-15)


def test_the_confusion_matrix_takes_classes_and_thresholded_scores():
    assert ConfusionMatrix(2)([1, 0, 1, 0], [1, 0, 0, 1]).tolist() == [[1, 1], [1, 1]]
    assert ConfusionMatrix(2)([0.5, 0.4, 0.9], [1, 0, 0]).tolist() == [[1, 1], [0, 1]]
    assert ConfusionMatrix(2, threshold=0.95)([0.5, 0.4, 0.9], [1, 0, 0]).tolist() == (
        [[2, 0], [1, 0]]
    )
    with pytest.raises(MetricInputError, match="give num_classes"):
        ConfusionMatrix().update([1, 0], [1, 0])
    with pytest.raises(MetricInputError, match="labels run from 0 to 2"):
        ConfusionMatrix(2).update([0, 2], [0, 1])
    with pytest.raises(MetricInputError, match="one shape"):
        ConfusionMatrix(2).update([0, 1, 1], [0, 1])


MEASURES = {
    "sensitivity": lambda y, x: truth.recall_score(y, x),
    "specificity": lambda y, x: truth.recall_score(1 - y, 1 - x),
    "precision": lambda y, x: truth.precision_score(y, x),
    "negative predictive value": lambda y, x: truth.precision_score(1 - y, 1 - x),
    "miss rate": lambda y, x: 1 - truth.recall_score(y, x),
    "fall out": lambda y, x: 1 - truth.recall_score(1 - y, 1 - x),
    "false discovery rate": lambda y, x: 1 - truth.precision_score(y, x),
    "false omission rate": lambda y, x: 1 - truth.precision_score(1 - y, 1 - x),
    "threat score": lambda y, x: truth.jaccard_score(y, x),
    "accuracy": lambda y, x: truth.accuracy_score(y, x),
    "balanced accuracy": lambda y, x: truth.balanced_accuracy_score(y, x),
    "f1 score": lambda y, x: truth.f1_score(y, x),
    "matthews correlation coefficient": lambda y, x: truth.matthews_corrcoef(y, x),
    "fowlkes mallows index": lambda y, x: math.sqrt(
        truth.precision_score(y, x) * truth.recall_score(y, x)
    ),
    "informedness": lambda y, x: truth.balanced_accuracy_score(y, x, adjusted=True),
    "markedness": lambda y, x: (
        truth.precision_score(y, x) + truth.precision_score(1 - y, 1 - x) - 1
    ),
    # 20 of 30 hit, 12 of 30 false alarms: (sqrt(2/3 * 2/5) - 2/5) / (2/3 - 2/5) by hand.
    "prevalence threshold": lambda y, x: (math.sqrt(4 / 15) - 2 / 5) / (4 / 15),
}


@pytest.mark.parametrize("name", MEASURES)
def test_each_measure_of_the_confusion_matrix_is_scikit_learns(name: str):
    y = np.r_[np.ones(30, int), np.zeros(30, int)]
    x = np.r_[np.ones(20, int), np.zeros(10, int), np.ones(12, int), np.zeros(18, int)]
    metric = ConfusionMatrixMetric(skip_channel=False, metric_name=name)
    metric.update(x.reshape(4, 1, 15), y.reshape(4, 1, 15))
    assert metric.eval() == pytest.approx(MEASURES[name](y, x), abs=1e-14)


def test_a_measure_skips_the_first_class_and_knows_short_names():
    x = torch.tensor([[[0], [1]], [[1], [0]]])
    y = torch.tensor([[[0], [1]], [[0], [1]]])
    assert ConfusionMatrixMetric(metric_name="tpr")(x, y) == 0.5
    assert ConfusionMatrixMetric(metric_name="fpr")(x, y) != (
        ConfusionMatrixMetric(skip_channel=False, metric_name="fpr")(x, y)
    )
    with pytest.raises(ValueError, match="metric_name"):
        ConfusionMatrixMetric(metric_name="goodness")


def test_a_measure_without_meaning_is_nan():
    zeros = torch.zeros(2, 1, 3)
    assert math.isnan(ConfusionMatrixMetric(metric_name="tpr")(zeros, zeros))


@pytest.mark.parametrize(
    ("decrease", "expected"),
    [
        ("none", [[1.0, 0.5], [0.0, 0.0]]),
        ("mean", 0.375),
        ("sum", 1.5),
        ("mean_batch", [1.0, 0.25]),
        ("sum_batch", [1.0, 0.5]),
        ("mean_channel", [0.75, 0.0]),
        ("sum_channel", [1.5, 0.0]),
    ],
)
def test_measures_of_each_sample_and_class_are_reduced_without_undefined_ones(decrease, expected):
    # Sensitivity by hand: sample 0 has 1/1 and 1/2; sample 1 has no positive in class 0, and 0/1.
    y = torch.tensor([[[1, 0], [1, 1]], [[0, 0], [1, 0]]])
    x = torch.tensor([[[1, 0], [1, 0]], [[1, 0], [0, 1]]])
    metric = ConfusionMatrixMetric(False, "sensitivity", calculation_method=True, decrease=decrease)
    metric.update(x[:1], y[:1])
    metric.update(x[1:], y[1:])
    assert np.asarray(metric.eval()).tolist() == expected


def test_similarity_matches_the_references_example_and_gathers_rows():
    matrix = np.array([[1, 3, 4, 7], [2, 4, 2, 5], [3, 1, 5, 8]])
    expected = truth.pairwise.cosine_similarity(matrix) * (1 - np.eye(3))
    np.testing.assert_allclose(CosineSimilarity()(matrix), expected, rtol=0, atol=1e-15)
    metric = CosineSimilarity()
    metric.update(matrix[:1])
    metric.update(matrix[1:])
    np.testing.assert_allclose(metric.eval(), expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(metric.eval(), expected, rtol=0, atol=1e-15)


def test_similarity_may_be_the_dot_product_reduced_with_its_diagonal():
    matrix = [[1.0, 2.0], [3.0, 4.0]]
    assert CosineSimilarity("dot", zero_diagonal=False)(matrix).tolist() == [[5, 11], [11, 25]]
    assert CosineSimilarity("dot", "sum", False)(matrix).tolist() == [16, 36]
    assert CosineSimilarity("dot", "mean")(matrix).tolist() == [5.5, 5.5]
    with pytest.raises(MetricInputError, match="a matrix is needed"):
        CosineSimilarity().update([1.0])
    with pytest.raises(ValueError, match="similarity must be one of"):
        CosineSimilarity("euclid")
