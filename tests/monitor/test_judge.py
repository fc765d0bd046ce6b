"""What triggers, and that the signals of healthy trainings do not."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from sonde.core.errors import UsageError
from sonde.monitor.expression import parse_trigger
from sonde.monitor.history import SignalSeries, robust_score
from sonde.monitor.judge import MOST_SKIPPED, Judge
from sonde.monitor.signals import Signals
from sonde.monitor.triggers import Trigger, trigger_text


def _judged(losses: Iterable[float], norms: Iterable[float], judge: Judge) -> list[Trigger]:
    found = []
    for step, (loss, norm) in enumerate(zip(losses, norms, strict=True)):
        found += judge.judge(Signals(step, loss=loss, grad_norm=norm, learning_rate=0.1), ())
    return found


def _noise(count: int = 2000, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(size=count)


def test_a_nan_loss_triggers_at_once() -> None:
    (found,) = Judge().judge(Signals(0, loss=math.nan), ())
    assert (found.kind, found.quantity) == ("non-finite", "loss")
    assert trigger_text(found) == "the loss is nan"


def test_an_unknown_loss_does_not_trigger() -> None:
    assert Judge().judge(Signals(0, loss=math.nan, has_loss=False), ()) == []


def test_a_non_finite_gradient_names_its_parameter() -> None:
    signals = Signals(3, loss=1.0, grad_norm=math.inf, non_finite_gradients=12)
    signals.gradients = np.array([1.0, math.nan, math.inf], np.float32)
    (found,) = Judge().judge(signals, ("a", "b", "c"))
    assert found.parameter == "c"
    assert trigger_text(found) == "the gradient of c has 12 non-finite values"


def test_overflows_that_a_grad_scaler_handles_do_not_trigger_until_they_never_end() -> None:
    judge = Judge()
    found = [
        judge.judge(Signals(step, loss=1.0, non_finite_gradients=5, is_skipped=True), ())
        for step in range(MOST_SKIPPED + 1)
    ]
    assert not any(found[:-1])
    assert found[-1][0].quantity == "gradient"


def test_a_spike_of_the_gradient_triggers_in_its_step_and_has_its_facts() -> None:
    norms = np.exp(0.3 * _noise(500))
    norms[400] = 300.0
    (found,) = _judged(np.ones(500), norms, Judge())
    assert (found.kind, found.quantity, found.step) == ("spike", "gradient", 400)
    assert found.highest == norms[:400].max()
    assert found.threshold is not None
    assert found.threshold < 300 < 1000 * found.threshold
    assert found.history_steps == 400


def test_a_loss_that_stays_high_triggers_at_the_third_step() -> None:
    losses = 2 + 0.1 * _noise(400)
    losses[300:310] = 6.0
    found = _judged(losses, np.ones(400), Judge())
    assert found[0].quantity == "loss"
    assert found[0].step == 302


@pytest.mark.parametrize("seed", range(3))
def test_heavy_tails_drift_and_constants_are_healthy(seed: int) -> None:
    noise = _noise(seed=seed)
    steps = np.arange(2000)
    heavy = np.exp(1.2 * noise)
    decay = 5 * np.exp(-steps / 300) + 0.1 * np.abs(noise)
    negative = -steps / 100 + noise
    converged = 1e-8 * np.exp(2 * noise)
    constant = np.full(2000, 0.7)
    for losses in (decay, negative, converged, constant):
        for norms in (heavy, decay, converged, constant):
            assert _judged(losses, norms, Judge()) == []


def test_another_learning_rate_starts_the_history_anew() -> None:
    judge = Judge()
    for step in range(600):
        rate, norm = (0.001, 1.0) if step < 300 else (0.1, 50.0)
        signals = Signals(step, loss=1.0, grad_norm=norm + 0.01 * step, learning_rate=rate)
        assert judge.judge(signals, ()) == []


def test_each_optimizer_has_its_own_history() -> None:
    judge = Judge()
    for step in range(1000):
        norm = 1.0 + step % 7 if step % 2 else 1e4 + step % 5
        signals = Signals(step, loss=norm, grad_norm=norm, optimizer=step % 2)
        assert judge.judge(signals, ()) == []


def test_an_expression_waits_for_its_history_and_then_triggers() -> None:
    judge = Judge([parse_trigger("grad_norm > 10 * median(grad_norm, 20)")], finds_spikes=False)
    norms = np.full(40, 2.0)
    norms[5] = norms[30] = 21.0
    found = _judged(np.ones(40), norms, judge)
    assert [each.step for each in found] == [30]
    assert trigger_text(found[0]) == "grad_norm > 10 * median(grad_norm, 20) holds"


def test_an_expression_reads_the_step_before() -> None:
    judge = Judge([parse_trigger("loss > 2 * prev.loss and step >= 3")])
    found = _judged([1, 5, 1, 1, 3, 4], np.ones(6), judge)
    assert [each.step for each in found] == [4, 5]  # A step that triggered is not history.


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("grad_nrm > 1", "did you mean 'grad_norm'?"),
        ("median(grad_norm) > 1", "median takes a signal"),
        ("median(grad_norm, 1) > 1", "from 2 to 1000"),
        ("median(grad_norm, 1e2) > 1", "from 2 to 1000"),
        ("median(1, 100) > 1", "median takes a signal"),
        ("loss", "it is a number, not a question"),
        ("", "it is empty"),
        ("__import__('os') > 1", "the functions are"),
        ("prev.nothing > 1", "is not a signal"),
    ],
)
def test_a_bad_expression_is_one_clear_error(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=r"\[trigger-expression\]") as caught:
        parse_trigger(text)
    assert reason in caught.value.message


def test_robust_scores_are_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = _noise(101)
    score, median = robust_score(4.0, values)
    deviation = stats.median_abs_deviation(values, scale="normal")
    assert median == np.median(values)
    assert score == pytest.approx((4.0 - median) / deviation, rel=1e-4)


def test_a_series_keeps_its_last_finite_values() -> None:
    series = SignalSeries(4)
    for value in (1, 2, math.nan, 3, math.inf, 4, 5):
        series.add(value)
    assert series.last(10).tolist() == [2, 3, 4, 5]
    assert series.last(2).tolist() == [4, 5]
    assert series.newest == 5
