"""Learning rates against the reference's examples, torch's own schedulers and hand work."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from sonde.core.errors import SondeError
from sonde.train import validator
from sonde.train.learning_rate import (
    CosineDecayLR,
    ExponentialDecayLR,
    InverseDecayLR,
    LearningRateError,
    LearningRateSchedule,
    ListedLR,
    NaturalExpDecayLR,
    PiecewiseConstantLR,
    PolynomialDecayLR,
    WarmUpLR,
    cosine_decay_lr,
    exponential_decay_lr,
    inverse_decay_lr,
    natural_exp_decay_lr,
    piecewise_constant_lr,
    polynomial_decay_lr,
    scheduler_for,
    warmup_lr,
)


def _optimizer(groups: int = 1, kind: type = torch.optim.SGD, lr: float = 123.0):
    parameters = [{"params": [torch.nn.Parameter(torch.ones(1))]} for _ in range(groups)]
    return kind(parameters, lr=lr)


def _rates(scheduler: lr_scheduler.LRScheduler, steps: int) -> list[float]:
    rates = []
    for _ in range(steps):
        rates.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.document(92)
def test_the_documents_warm_up_schedule_runs_as_written():
    class WarmUpLR(LearningRateSchedule):
        def __init__(self, learning_rate, warmup_steps):
            super(WarmUpLR, self).__init__()  # noqa: UP008 - as the document writes it
            ## check the input
            if not isinstance(learning_rate, float):
                raise TypeError("learning_rate must be float.")
            validator.check_non_negative_float(learning_rate, "learning_rate", self.cls_name)
            validator.check_positive_int(warmup_steps, "warmup_steps", self.cls_name)
            ## define the operators
            self.warmup_steps = warmup_steps
            self.learning_rate = learning_rate
            self.min = min
            self.cast = torch.tensor

        def construct(self, global_step):
            ## calculate the lr
            warmup_percent = (
                self.cast(self.min(global_step, self.warmup_steps), dtype=torch.float32)
                / self.warmup_steps
            )
            return self.learning_rate * warmup_percent

    scheduler = WarmUpLR(0.5, 4).scheduler(_optimizer())
    assert _rates(scheduler, 6) == [0.0, 0.125, 0.25, 0.375, 0.5, 0.5]
    with pytest.raises(ValueError, match=r"WarmUpLR: learning_rate must be at least 0, not -0\.1"):
        WarmUpLR(-0.1, 4)
    with pytest.raises(ValueError, match="WarmUpLR: warmup_steps must be an integer of at least 1"):
        WarmUpLR(0.1, 0)
    with pytest.raises(TypeError):
        WarmUpLR(1, 4)


@pytest.mark.document(
    90,
    says="some common implementations of dynamic learning rate",
    how="seven schedules and seven functions in `sonde.train`: docs/learning-rates.md",
)
@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        (
            piecewise_constant_lr([2, 5, 10], [0.1, 0.05, 0.01]),
            [0.1, 0.1, 0.05, 0.05, 0.05, 0.01, 0.01, 0.01, 0.01, 0.01],
        ),
        (
            exponential_decay_lr(0.1, 0.9, 6, 2, 1),
            [0.1, 0.1, 0.09, 0.09, 0.081, 0.081],
        ),
        (
            natural_exp_decay_lr(0.1, 0.9, 6, 2, 2, True),
            [0.1, 0.1, 0.1, 0.1, 0.016529888822158657, 0.016529888822158657],
        ),
        (
            inverse_decay_lr(0.1, 0.5, 6, 1, 1, True),
            [0.1, 0.06666666666666667, 0.05, 0.04, 0.03333333333333333, 0.028571428571428574],
        ),
        (
            cosine_decay_lr(0.01, 0.1, 6, 2, 2),
            [0.1, 0.1, 0.05500000000000001, 0.05500000000000001, 0.01, 0.01],
        ),
        (
            polynomial_decay_lr(0.1, 0.01, 6, 2, 2, 0.5),
            [0.1, 0.1, 0.07363961030678928, 0.07363961030678928, 0.01, 0.01],
        ),
        (warmup_lr(0.1, 6, 2, 2), [0.0, 0.0, 0.05, 0.05, 0.1, 0.1]),
    ],
)
def test_the_lists_are_those_of_the_references_examples(rates: list[float], expected: list[float]):
    assert rates == pytest.approx(expected, rel=1e-15)


@pytest.mark.document(90)
@pytest.mark.parametrize(
    ("schedule", "step", "expected"),
    [
        (ExponentialDecayLR(0.1, 0.9, 4), 2, 0.1 * math.sqrt(0.9)),
        (ExponentialDecayLR(0.1, 0.9, 4, True), 7, 0.09),
        (NaturalExpDecayLR(0.1, 0.9, 4), 2, 0.1 * math.exp(-1.8)),
        (NaturalExpDecayLR(0.1, 0.9, 4, True), 7, 0.1 * math.exp(-3.6)),
        (InverseDecayLR(0.1, 0.9, 4), 2, 0.1 / 1.45),
        (InverseDecayLR(0.1, 0.9, 4, True), 7, 0.1 / 1.9),
        (CosineDecayLR(0.01, 0.1, 4), 2, 0.055),
        (CosineDecayLR(0.01, 0.1, 4), 99, 0.01),
        (PolynomialDecayLR(0.1, 0.01, 4, 0.5), 2, 0.01 + 0.09 * math.sqrt(0.5)),
        (PolynomialDecayLR(0.1, 0.01, 4, 2.0), 9, 0.01),
        (PolynomialDecayLR(0.1, 0.01, 4, 1.0, True), 6, 0.01 + 0.09 * 0.25),
        (PolynomialDecayLR(0.1, 0.01, 4, 1.0, True), 0, 0.1),
        (PiecewiseConstantLR([2, 4], [0.1, 0.05]), 1, 0.1),
        (PiecewiseConstantLR([2, 4], [0.1, 0.05]), 2, 0.05),
        (PiecewiseConstantLR([2, 4], [0.1, 0.05]), 400, 0.05),
        (WarmUpLR(0.1, 4), 3, 0.075),
        (ListedLR([0.3, 0.2]), 1, 0.2),
        (ListedLR([0.3, 0.2]), 7, 0.2),
    ],
)
def test_the_rate_of_a_step_is_worked_by_hand(schedule, step: int, expected: float):
    assert schedule(step) == pytest.approx(expected, rel=1e-14)
    assert schedule(torch.tensor(step)) == schedule(step)


@pytest.mark.parametrize(
    ("ours", "theirs", "steps"),
    [
        (CosineDecayLR(0.01, 0.1, 9), lambda o: lr_scheduler.CosineAnnealingLR(o, 9, 0.01), 10),
        (ExponentialDecayLR(0.1, 0.9, 1), lambda o: lr_scheduler.ExponentialLR(o, 0.9), 20),
        (ExponentialDecayLR(0.1, 0.5, 3, True), lambda o: lr_scheduler.StepLR(o, 3, 0.5), 20),
        (
            PolynomialDecayLR(0.1, 0.0, 9, 2.0),
            lambda o: lr_scheduler.PolynomialLR(o, total_iters=9, power=2.0),
            15,
        ),
        (
            PiecewiseConstantLR([2, 5, 9], [0.1, 0.01, 0.001]),
            lambda o: lr_scheduler.MultiStepLR(o, [2, 5], 0.1),
            12,
        ),
    ],
)
def test_the_rates_agree_with_torch_where_it_has_the_same_schedule(ours, theirs, steps: int):
    expected = _rates(theirs(_optimizer(lr=0.1)), steps)
    assert _rates(ours.scheduler(_optimizer()), steps) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop])
def test_any_optimizer_gets_exactly_the_rate_of_the_schedule(kind: type):
    schedule = ExponentialDecayLR(0.1, 0.7, 3)
    scheduler = schedule.scheduler(_optimizer(kind=kind))
    assert _rates(scheduler, 50) == [schedule(step) for step in range(50)]


def test_groups_share_a_schedule_or_have_their_own():
    optimizer = _optimizer(groups=2)
    shared = scheduler_for(optimizer, WarmUpLR(1.0, 2))
    optimizer.step()
    shared.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.5]
    optimizer = _optimizer(groups=2)
    scheduler_for(optimizer, [ListedLR([0.25]), ListedLR([0.75])])
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.75]
    with pytest.raises(ValueError, match="each of 2 groups"):
        scheduler_for(optimizer, [WarmUpLR(1.0, 2)])


def test_a_list_of_rates_is_a_schedule():
    rates = cosine_decay_lr(0.01, 0.1, 6, 2, 2)
    assert _rates(scheduler_for(_optimizer(), rates), 8) == [*rates, 0.01, 0.01]


@given(st.integers(0, 30), st.integers(1, 10))
def test_a_saved_schedule_continues_where_it_was(before: int, after: int):
    schedule = CosineDecayLR(0.0, 0.1, 25)
    first = schedule.scheduler(_optimizer())
    _rates(first, before)
    second = CosineDecayLR(0.0, 0.1, 25).scheduler(_optimizer())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    second.load_state_dict(first.state_dict())
    assert _rates(second, after) == _rates(first, after)


def test_a_schedule_may_start_late():
    schedule = WarmUpLR(1.0, 10)
    assert _rates(schedule.scheduler(_optimizer(), start_step=4), 3) == [0.4, 0.5, 0.6]


@pytest.mark.parametrize("rate", [math.nan, math.inf, -0.1])
def test_a_rate_no_optimizer_can_use_names_the_schedule_and_the_step(rate: float):
    class Broken(LearningRateSchedule):
        def construct(self, global_step):
            return rate if global_step == 2 else 0.1

    with pytest.raises(LearningRateError, match=r"Broken gave .* for step 2.*\[learning-rate\]"):
        _rates(Broken().scheduler(_optimizer()), 4)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ExponentialDecayLR(0.0, 0.9, 4), ValueError, "learning_rate must be greater"),
        (lambda: ExponentialDecayLR("0.1", 0.9, 4), TypeError, "must be a number, not '0.1'"),
        (lambda: ExponentialDecayLR(math.nan, 0.9, 4), ValueError, "must be finite"),
        (lambda: InverseDecayLR(0.1, -1.0, 4), ValueError, "decay_rate must be greater than 0"),
        (lambda: NaturalExpDecayLR(0.1, 0.9, 4.0), TypeError, "decay_steps must be an integer"),
        (lambda: NaturalExpDecayLR(0.1, 0.9, True), TypeError, "decay_steps must be an integer"),
        (lambda: InverseDecayLR(0.1, 0.9, 4, 1), TypeError, "is_stair must be True or False"),
        (lambda: CosineDecayLR(0.1, 0.1, 4), ValueError, "min_lr must be below max_lr"),
        (lambda: CosineDecayLR(-0.1, 0.1, 4), ValueError, "min_lr must be at least 0"),
        (lambda: PolynomialDecayLR(0.1, 0.0, 4, 0.0), ValueError, "power must be greater than 0"),
        (lambda: PiecewiseConstantLR([2], [0.1, 0.2]), ValueError, "1 milestones"),
        (lambda: PiecewiseConstantLR([], []), ValueError, "at least one"),
        (lambda: PiecewiseConstantLR([4, 2], [0.1, 0.2]), ValueError, "milestone must rise"),
        (lambda: PiecewiseConstantLR([0, 2], [0.1, 0.2]), ValueError, r"milestone\[0\]"),
        (lambda: PiecewiseConstantLR([1, 2], [0.1, "x"]), TypeError, r"learning_rates\[1\]"),
        (lambda: PiecewiseConstantLR(3, [0.1]), TypeError, "must be a list or tuple"),
        (lambda: WarmUpLR(0.1, 0), ValueError, "warmup_steps must be an integer of at least 1"),
        (lambda: ListedLR([]), ValueError, "must hold rates"),
        (lambda: warmup_lr(0.1, 0, 1, 1), ValueError, "total_step"),
        (lambda: scheduler_for(_optimizer(), 0.1), TypeError, "a schedule or a list"),
        (lambda: WarmUpLR(0.1, 2)(-1), ValueError, "global_step must be at least 0"),
        (lambda: WarmUpLR(0.1, 2).scheduler(_optimizer(), start_step=-1), ValueError, "start_step"),
    ],
)
def test_arguments_are_checked(make, error, words: str):
    with pytest.raises(error, match=words) as caught:
        make()
    assert isinstance(caught.value, SondeError)


def test_a_schedule_without_construct_cannot_be_made():
    class Empty(LearningRateSchedule):
        pass

    with pytest.raises(TypeError, match="construct"):
        Empty()
