"""Masks and pictures: overlap, border distances, occlusion; against scipy and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics as truth
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, directed_hausdorff

from sonde.train.metrics import (
    Dice,
    HausdorffDistance,
    MeanSurfaceDistance,
    MetricInputError,
    OcclusionSensitivity,
    RootMeanSquareDistance,
)

X = torch.tensor([[3, 0, 1], [1, 3, 0], [1, 0, 2]])
Y = torch.tensor([[0, 2, 1], [1, 2, 1], [0, 0, 1]])


def test_dice_of_soft_predictions_is_worked_by_hand():
    x, y = [[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]], [[0, 1], [1, 0], [0, 1]]
    # Overlap 0.5 + 0.3 + 0.6 = 1.4, sizes 1.56 and 3.
    assert Dice()(x, y) == pytest.approx(2 * 1.4 / (1.56 + 3 + 1e-5), rel=1e-14)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_dice_of_masks_is_the_f1_of_scikit_learn_for_any_batches(seed: int, cut: int):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 2, (8, 3)), rng.integers(0, 2, (8, 3))
    metric = Dice(smooth=1e-12)
    metric.update(x[:cut], y[:cut])
    metric.update(x[cut:], y[cut:])
    expected = truth.f1_score(y.ravel(), x.ravel(), zero_division=0.0)
    assert metric.eval() == pytest.approx(expected, abs=1e-11)


def test_dice_of_empty_masks_is_zero_and_smooth_must_be_positive():
    assert Dice()(np.zeros((2, 2)), np.zeros((2, 2))) == 0
    with pytest.raises(ValueError, match="smooth must be greater than 0"):
        Dice(smooth=0.0)


def test_distances_match_the_references_examples():
    assert HausdorffDistance()(X, Y, 0) == math.sqrt(2)
    assert MeanSurfaceDistance()(X, Y, 0) == pytest.approx(0.8047378541243649, abs=1e-15)
    assert RootMeanSquareDistance()(X, Y, 0) == pytest.approx(1.0, abs=1e-15)


def _border(mask: np.ndarray) -> np.ndarray:
    """The border by its definition: a mask pixel with a direct neighbour outside the mask."""
    padded = np.pad(mask, 1)
    inside = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return np.argwhere(mask & ~inside)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(
        [("euclidean", "euclidean"), ("chessboard", "chebyshev"), ("taxicab", "cityblock")]
    ),
)
def test_distances_are_those_of_all_pairs_of_border_pixels(seed: int, kind: tuple[str, str]):
    rng = np.random.default_rng(seed)
    x, y = rng.random((2, 7, 6)) < 0.4
    x[0, 0] = y[6, 5] = True
    ours, theirs = kind
    pairs = cdist(_border(x), _border(y), theirs)
    forth, back = pairs.min(1), pairs.min(0)
    both = np.r_[forth, back]
    expected = {
        HausdorffDistance(ours): both.max(),
        HausdorffDistance(ours, crop=False): both.max(),
        HausdorffDistance(ours, directed=True): forth.max(),
        HausdorffDistance(ours, percentile=90.0): max(
            np.percentile(forth, 90), np.percentile(back, 90)
        ),
        MeanSurfaceDistance(distance_metric=ours): forth.mean(),
        MeanSurfaceDistance(True, ours): both.mean(),
        RootMeanSquareDistance(distance_metric=ours): math.sqrt((forth**2).mean()),
        RootMeanSquareDistance(True, ours): math.sqrt((both**2).mean()),
    }
    for metric, value in expected.items():
        assert metric(x, y, 1) == pytest.approx(value, abs=1e-12), metric
    if ours == "euclidean":
        assert HausdorffDistance(directed=True)(x, y, 1) == pytest.approx(
            directed_hausdorff(_border(x), _border(y))[0]
        )


def test_several_pictures_give_the_mean_of_their_distances():
    metric = HausdorffDistance()
    metric.update(X, Y, 0)
    metric.update(Y, Y, 0)
    assert metric.eval() == pytest.approx(math.sqrt(2) / 2)


def test_volumes_work_as_pictures_do():
    x = np.zeros((5, 5, 5), bool)
    y = x.copy()
    x[2, 2, 2] = y[2, 2, 4] = True
    assert HausdorffDistance()(x, y, 1) == 2


def test_the_distance_to_an_empty_mask_is_infinite():
    for metric in (HausdorffDistance(), MeanSurfaceDistance(), RootMeanSquareDistance(True)):
        assert metric(X, Y, 3) == math.inf
        assert metric(Y, X, 3) == math.inf


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ((X, Y, 9), MetricInputError, "label 9 is in neither"),
        ((X, Y[:2], 0), MetricInputError, "one shape"),
        ((X, Y, "0"), TypeError, "must be a number"),
        ((X, Y), MetricInputError, "takes 3 inputs"),
    ],
)
def test_inputs_are_checked(inputs, error, words):
    with pytest.raises(error, match=words):
        HausdorffDistance().update(*inputs)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="must be 0 to 100"):
        HausdorffDistance(percentile=101.0)
    with pytest.raises(ValueError, match="distance_metric must be one of"):
        MeanSurfaceDistance(distance_metric="manhattan")
    with pytest.raises(TypeError, match="symmetric must be True or False"):
        RootMeanSquareDistance(symmetric=1)


def _dense() -> torch.nn.Linear:
    net = torch.nn.Linear(4, 2)
    net.weight.data = torch.tensor([[0.1, 0.8, 0.1, 0.1], [1, 1, 1, 1]])
    net.bias.data = torch.tensor([0.3, 0.6])
    return net


def test_occlusion_matches_the_references_example():
    picture = np.array([[0.1, 0.2, 0.3, 0.4]], np.float32)
    value = OcclusionSensitivity()(_dense(), picture, np.array(1))
    assert value.tolist() == pytest.approx([0.3, 0.6, 1.0, 0.9], abs=1e-6)


def test_occlusion_of_two_dimensions_in_small_batches_within_a_box():
    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x.sum((1, 2)), -x.sum((1, 2))], 1)

    picture = torch.arange(12.0).reshape(1, 3, 4)
    whole = OcclusionSensitivity(margin=1, n_batch=5)(Sum(), picture, 0)
    expected = [
        [float(picture[0, max(0, i - 1) : i + 1, max(0, j - 1) : j + 1].sum()) for j in range(4)]
        for i in range(3)
    ]
    assert whole.tolist() == expected
    boxed = OcclusionSensitivity(margin=[1, 1], b_box=[1, 2, 2, -1])(Sum(), picture, 0)
    assert boxed.tolist() == [row[2:] for row in expected[1:]]


def test_occlusion_leaves_the_network_as_it_was():
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(), _dense())
    net[1].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    picture = torch.rand(1, 4)
    random_state = torch.get_rng_state()
    OcclusionSensitivity()(net, picture, 0)
    assert [module.training for module in net] == [True, False, True]
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert torch.equal(random_state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("make", "inputs", "words"),
    [
        (OcclusionSensitivity, (_dense(), torch.rand(2, 4), 0), "one picture"),
        (OcclusionSensitivity, (_dense(), torch.rand(1, 4), [0, 1]), "one label"),
        (lambda: OcclusionSensitivity(b_box=[0]), (_dense(), torch.rand(1, 4), 0), "2 numbers"),
        (lambda: OcclusionSensitivity(b_box=[0, 9]), (_dense(), torch.rand(1, 4), 0), "fit"),
        (lambda: OcclusionSensitivity(margin=[1, 1]), (_dense(), torch.rand(1, 4), 0), "1 numb"),
    ],
)
def test_occlusion_checks_what_it_is_given(make, inputs, words):
    with pytest.raises(ValueError, match=words):
        make().update(*inputs)


def test_occlusion_needs_a_module():
    with pytest.raises(TypeError, match="torch module"):
        OcclusionSensitivity().update(lambda x: x, torch.rand(1, 4), 0)
