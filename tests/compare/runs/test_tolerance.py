"""The tolerances of ops, checked against errors that really occur."""

from math import inf, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from sonde.compare.runs.tolerance import OWN, ROUNDOFF, Signal, allow
from sonde.compare.sequence_alignment import align_sequences
from sonde.core.operators.kinds import behaviour_of, kind_of

RNG = np.random.default_rng(0)
Array = NDArray[np.float64]


def signal(a: Array, b: Array) -> Signal:
    difference = np.asarray(a, np.float64) - b
    return Signal(
        float(np.linalg.norm(difference)),
        float(np.linalg.norm(b)),
        b.size,
        float(np.abs(difference).max()),
    )


def nearly(values: Array, error: float) -> Array:
    return values * (1 + error * RNG.standard_normal(values.shape))


@pytest.mark.parametrize("error", [1e-7, 1e-4, 1e-2])
def test_a_matrix_product_passes_on_the_errors_of_its_factors(error: float) -> None:
    x, w = RNG.standard_normal((32, 64)), RNG.standard_normal((64, 16))
    a, b = nearly(x, error), nearly(w, error)
    out = signal(a @ b, x @ w)
    found = allow("product", "matmul", out, [signal(a, x), signal(b, w)], ROUNDOFF["float32"])
    assert out.l2_error < found.total < 20 * out.l2_error + 2 * found.own


def test_a_sum_that_cancels_keeps_the_error_of_its_terms() -> None:
    """The gradient of a bias before a batch norm is zero but for rounding."""
    x = RNG.standard_normal((256, 8))
    x -= x.mean(0)
    a = x.astype(np.float32).astype(np.float64)
    out = signal(a.sum(0), x.sum(0))
    assert out.error > 0.5
    found = allow("reduction", "sum", out, [signal(a, x)], ROUNDOFF["float32"])
    assert out.l2_error < found.total


def test_an_addition_that_cancels_keeps_the_error_of_its_terms() -> None:
    x = RNG.standard_normal(1000)
    y = -x + 1e-6 * RNG.standard_normal(1000)
    a, b = nearly(x, 1e-7), nearly(y, 1e-7)
    out = signal(a + b, x + y)
    assert out.error > 0.05
    found = allow("sum", "add", out, [signal(a, x), signal(b, y)], ROUNDOFF["float32"])
    assert out.l2_error < found.total


def test_a_normalisation_of_a_large_mean_is_badly_conditioned() -> None:
    x = 100 + RNG.standard_normal((64, 32))
    a = nearly(x, 1e-6)

    def normal(values: Array) -> Array:
        return (values - values.mean(-1, keepdims=True)) / values.std(-1, keepdims=True)

    out = signal(normal(a), normal(x))
    inputs, roundoff = [signal(a, x)], ROUNDOFF["float32"]
    plain = allow("normalisation", "layer_norm", out, inputs, roundoff)
    known = allow("normalisation", "layer_norm", out, inputs, roundoff, conditioning=100.0)
    assert plain.total < out.l2_error < known.total


def test_softmax_makes_an_absolute_error_a_relative_one() -> None:
    x = 20 * RNG.standard_normal((8, 16))
    a = x + 1e-3 * RNG.standard_normal(x.shape)

    def softmax(values: Array) -> Array:
        powers = np.exp(values - values.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    out = signal(softmax(a), softmax(x))
    found = allow("exponential", "softmax", out, [signal(a, x)], ROUNDOFF["float32"])
    assert out.l2_error < found.total < 2e-2 * out.norm


def test_a_mask_may_flip_where_rounding_changes_a_sign() -> None:
    x = RNG.standard_normal(10_000)
    a = x + 1e-3 * RNG.standard_normal(x.size)
    gradient = RNG.standard_normal(x.size)
    out = signal(np.where(a > 0, gradient, 0), np.where(x > 0, gradient, 0))
    assert out.error > 10 * signal(a, x).error
    inputs = [signal(gradient, gradient), signal(a, x)]
    found = allow("mask", "relu_backward", out, inputs, ROUNDOFF["float32"])
    assert out.l2_error < found.total


@pytest.mark.parametrize("behaviour", [name for name in OWN if name != "uninitialised"])
def test_without_errors_in_its_inputs_an_op_has_only_its_own_rounding(behaviour: str) -> None:
    one = Signal(0.0, sqrt(100.0), 100, 0.0)
    found = allow(behaviour, "any", one, [one, one], ROUNDOFF["float32"])
    assert found.own == found.total
    assert found.total <= 100 * ROUNDOFF["float32"] * 10 * sqrt(100.0)


def test_non_finite_values_get_an_infinite_tolerance() -> None:
    one = Signal(0.0, float("nan"), 4, 0.0)
    assert allow("sum", "add", one, [], ROUNDOFF["float32"]).total == inf


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("convolution", "Conv2D"),
        ("addmm", "MatMul"),
        ("native_batch_norm", "BatchNorm"),
        ("nll_loss_forward", "SparseSoftmaxCrossEntropyWithLogits"),
        ("threshold_backward", "ReluGrad"),
        ("max_pool2d_with_indices", "MaxPool"),
        ("add_", "Add"),
        ("sum", "BiasAddGrad"),
        ("view", "Flatten"),
        ("embedding", "Gather"),
    ],
)
def test_ops_of_both_frameworks_have_one_kind(ours: str, theirs: str) -> None:
    assert kind_of(ours) == kind_of(theirs)
    assert behaviour_of(ours) == behaviour_of(theirs)


def test_an_unknown_op_is_its_own_kind() -> None:
    assert kind_of("MyOpGrad") == "myopbackward"
    assert behaviour_of("my_op") == "other"


def test_sequences_are_aligned_without_crossing() -> None:
    pairs = align_sequences("xabcy", "abzcd", lambda x, y: float(x == y))
    assert pairs == [("a", "a"), ("b", "b"), ("c", "c")]
    assert align_sequences("", "abc", lambda x, y: 1.0) == []
