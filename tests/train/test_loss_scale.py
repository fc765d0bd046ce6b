"""Loss scale: managers, scalers and scaled steps, by hand and against torch's own GradScaler."""

from __future__ import annotations

import io
import math
import re
from contextlib import redirect_stdout

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sonde.core.errors import SondeError
from sonde.train.loss_scale import (
    DynamicLossScaleManager,
    DynamicLossScaler,
    DynamicLossScaleUpdateCell,
    FixedLossScaleManager,
    FixedLossScaleUpdateCell,
    LossScaleError,
    StaticLossScaler,
    all_finite,
)
from sonde.train.one_step import LossScaling, TrainOneStepWithLossScaleCell, WithLossCell


class LowPrecision(nn.Module):
    """A linear layer computed in a narrow type, as the reference's ``to_float`` does."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype
        self.fc = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=self.dtype):
            return self.fc(x)


def _batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(seed))
    return x, x.sum(1, keepdim=True)


def _half_square(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return ((output.float() - label) ** 2).mean()


@pytest.mark.document(
    192,
    says="nn.TrainOneStepWithLossScaleCell: loss, overflow, scaling_sens = train_net(*data)",
    how="`sonde.train.TrainOneStepWithLossScaleCell`; the example prints the same lines",
)
def test_the_documents_loop_prints_step_loss_overflow_and_scale():
    def get_data(num, w=2.0, b=3.0):
        for _ in range(num):
            x = np.random.uniform(-10.0, 10.0)
            noise = np.random.normal(0, 1)
            y = x * w + b + noise
            yield np.array([x]).astype(np.float32), np.array([y]).astype(np.float32)

    def create_dataset(num_data, batch_size=16):
        return torch.utils.data.DataLoader(list(get_data(num_data)), batch_size, drop_last=True)

    torch.manual_seed(1)
    np.random.seed(1)
    net = nn.Linear(1, 1)
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    net_with_loss = WithLossCell(net, nn.MSELoss())
    scale_sense = FixedLossScaleUpdateCell(1)
    train_net = TrainOneStepWithLossScaleCell(net_with_loss, optimizer=opt, scale_sense=scale_sense)
    shown = io.StringIO()
    with redirect_stdout(shown):
        train_net.train()
        dataset = create_dataset(1600)
        for i, data in enumerate(dataset):
            loss, overflow, scaling_sens = train_net(*data)
            print(
                "step: {}, loss: {}, overflow:{}, scale:{}".format(  # noqa: UP032 - as the document writes it
                    i, loss, overflow, scaling_sens
                )
            )
    lines = shown.getvalue().splitlines()
    assert len(lines) == 100
    for number, line in enumerate(lines):
        assert re.fullmatch(rf"step: {number}, loss: \d+\.\d+, overflow:False, scale:1\.0", line)


@pytest.mark.document(97)
def test_a_fixed_manager_keeps_its_scale():
    manager = FixedLossScaleManager()
    manager.update_loss_scale(True)
    assert manager.get_loss_scale() == 128.0
    assert manager.get_drop_overflow_update() is True
    assert isinstance(manager.get_update_cell(), FixedLossScaleUpdateCell)
    assert manager.get_update_cell().get_loss_scale() == 128.0


def test_a_fixed_manager_may_leave_overflow_alone():
    manager = FixedLossScaleManager(1024.0, drop_overflow_update=False)
    assert manager.get_drop_overflow_update() is False
    assert manager.get_update_cell() is None


@pytest.mark.document(
    97,
    says="dynamic loss_scale: adjusted automatically; static loss_scale: the scale value needs to "
    "be reduced",
    how="`DynamicLossScaleManager` adjusts it, `FixedLossScaleManager` keeps it",
)
def test_a_dynamic_manager_halves_on_overflow_and_doubles_after_the_window():
    manager = DynamicLossScaleManager(init_loss_scale=16, scale_factor=2, scale_window=3)
    scales = []
    for overflow in [False, False, True, False, False, False, False, False, False, True]:
        manager.update_loss_scale(overflow)
        scales.append(manager.get_loss_scale())
    assert scales == [16, 16, 8, 8, 8, 16, 16, 16, 32, 16]
    assert manager.get_drop_overflow_update() is True


@pytest.mark.document(
    187,
    says="ms.DynamicLossScaleManager(): dynamic loss scale",
    how="`sonde.train.DynamicLossScaleManager`, the same defaults",
)
def test_the_dynamic_default_is_the_references():
    manager = DynamicLossScaleManager()
    assert (manager.get_loss_scale(), manager.scale_factor, manager.scale_window) == (
        2**24,
        2,
        2000,
    )


def test_a_dynamic_scale_stays_between_one_and_the_largest_float32():
    manager = DynamicLossScaleManager(2, 2, 1)
    for _ in range(5):
        manager.update_loss_scale(True)
    assert manager.get_loss_scale() == 1
    for _ in range(200):
        manager.update_loss_scale(False)
    assert manager.get_loss_scale() == 2.0**127


@pytest.mark.document(
    195,
    says="if overflow occurs continuously, use the debugger or dump data",
    how="after 1000 overflows in a row the training ends with one line that says so; `sonde run "
    "--overflow` names the op",
)
def test_overflow_without_end_says_that_the_scale_is_not_the_cause():
    manager = DynamicLossScaleManager(4)
    for _ in range(1000):
        manager.update_loss_scale(True)
    with pytest.raises(RuntimeError, match=r"1001 steps in a row.*\[loss-scale-overflow\]"):
        manager.update_loss_scale(True)


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5), st.sampled_from([2.0, 4.0]))
def test_the_dynamic_rule_is_torchs_own_as_long_as_the_scale_is_above_one(history, window, factor):
    scale, tracker = torch.tensor(2.0**100), torch.tensor(0, dtype=torch.int32)
    manager = DynamicLossScaleManager(2.0**100, factor, window)
    scaler = DynamicLossScaler(2.0**100, factor, window)
    for overflow in history:
        found = torch.tensor(float(overflow))
        torch._amp_update_scale_(scale, tracker, found, factor, 1 / factor, window)
        manager.update_loss_scale(overflow)
        assert scaler.adjust(not overflow) is True
        assert manager.get_loss_scale() == float(scale) == scaler.scale_value


@given(st.lists(st.booleans(), max_size=30), st.lists(st.booleans(), max_size=30))
def test_a_restored_manager_continues_as_the_first_would(before, after):
    first = DynamicLossScaleManager(2.0**20, 2, 4)
    for overflow in before:
        first.update_loss_scale(overflow)
    second = DynamicLossScaleManager(8, 2, 4)
    second.load_state_dict(first.state_dict())
    for overflow in after:
        first.update_loss_scale(overflow)
        second.update_loss_scale(overflow)
        assert second.get_loss_scale() == first.get_loss_scale()


@pytest.mark.document(
    191,
    says="nn.FixedLossScaleUpdateCell(1), nn.DynamicLossScaleUpdateCell(loss_scale_value, "
    "scale_factor, scale_window)",
    how="the same names in `sonde.train`",
)
def test_an_update_cell_shares_its_managers_scale():
    manager = DynamicLossScaleManager(1024, 2, 10)
    cell, sense = manager.get_update_cell(), torch.tensor(1024.0)
    assert isinstance(cell, DynamicLossScaleUpdateCell)
    assert cell(sense, torch.tensor(True))
    assert float(sense) == 512 == manager.get_loss_scale() == cell.get_loss_scale()
    fixed = FixedLossScaleUpdateCell(2**12)
    assert fixed(sense, False) is False
    assert float(sense) == 512


def test_the_references_scaler_examples():
    static = StaticLossScaler(scale_value=2**10)
    assert static.scale(torch.tensor([1.0])).tolist() == [1024.0]
    grads = (
        torch.tensor([1.5, 1.0], dtype=torch.float16),
        torch.tensor([1.2], dtype=torch.float16),
    )
    unscaled = static.unscale(grads)
    assert [grad.dtype for grad in unscaled] == [torch.float16, torch.float16]
    assert unscaled[0].tolist() == [1.5 / 1024, 1 / 1024]
    assert static.adjust(torch.tensor(False)) is False
    assert static.scale_value == 1024
    dynamic = DynamicLossScaler(scale_value=2**10, scale_factor=2, scale_window=1)
    bad = (torch.tensor([math.nan, 1.0]), torch.tensor([0.2]))
    assert dynamic.adjust(all_finite(dynamic.unscale(bad))) is True
    assert dynamic.scale_value == 512
    dynamic.adjust(torch.tensor(True))
    assert dynamic.scale_value == 1024


@given(st.floats(-1e30, 1e30), st.integers(0, 20))
def test_unscale_undoes_scale_for_powers_of_two(value: float, power: int):
    scaler = StaticLossScaler(2**power)
    tensor = torch.tensor(value, dtype=torch.float64)
    assert scaler.unscale(scaler.scale([tensor]))[0] == tensor


@pytest.mark.parametrize(
    ("inputs", "finite"),
    [
        ([torch.ones(3), torch.zeros(2)], True),
        ([torch.ones(3), torch.tensor([1.0, math.inf])], False),
        ([torch.tensor([-math.inf])], False),
        ([torch.tensor([math.nan], dtype=torch.bfloat16)], False),
        (torch.tensor([1.0, math.nan]), False),
        ([None, torch.ones(1)], True),
        ([torch.ones(2, dtype=torch.int64)], True),
        ([torch.empty(0)], True),
        ([], True),
    ],
)
def test_all_finite_is_a_tensor_of_one_bool(inputs, finite: bool):
    result = all_finite(inputs)
    assert result.shape == ()
    assert result.dtype == torch.bool
    assert bool(result) is finite


def test_a_scaled_step_equals_the_plain_step():
    nets = [nn.Linear(4, 1) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    plain, scaled = (torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9) for net in nets)
    cell = TrainOneStepWithLossScaleCell(WithLossCell(nets[1], nn.MSELoss()), scaled, 2.0**10)
    for seed in range(5):
        x, y = _batch(seed)
        plain.zero_grad()
        loss = nn.MSELoss()(nets[0](x), y)
        loss.backward()
        plain.step()
        assert cell(x, y) == (loss.detach(), False, 1024.0)
    assert torch.equal(nets[0].weight, nets[1].weight)
    assert torch.equal(nets[0].weight.grad, nets[1].weight.grad)


@pytest.mark.document(191)
def test_float16_overflows_until_the_dynamic_scale_fits_and_then_learns():
    torch.manual_seed(0)
    net = LowPrecision(torch.float16)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    sense = DynamicLossScaleUpdateCell(2.0**24, 2, 1000)
    cell = TrainOneStepWithLossScaleCell(WithLossCell(net, _half_square), optimizer, sense)
    before = net.fc.weight.clone()
    x, y = _batch()
    loss, overflow, scale = cell(x, y)
    assert (overflow, scale) == (True, 2.0**24)
    assert torch.equal(net.fc.weight, before)
    history = [cell(x, y) for _ in range(60)]
    overflows = [overflow for _, overflow, _ in history]
    assert overflows == sorted(overflows, reverse=True)
    fallen = sum(overflows) + 1
    assert history[-1][2] == 2.0 ** (24 - fallen)
    assert history[-1][0] < loss / 10


def test_bfloat16_needs_no_scale_and_does_not_overflow():
    torch.manual_seed(0)
    net = LowPrecision(torch.bfloat16)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    cell = TrainOneStepWithLossScaleCell(WithLossCell(net, _half_square), optimizer, 2.0**24)
    losses = [cell(*_batch()) for _ in range(40)]
    assert not any(overflow for _, overflow, _ in losses)
    assert losses[-1][0] < losses[0][0] / 10


@pytest.mark.document(
    186,
    says="ms.FixedLossScaleManager(drop_overflow_update=False): static loss scale",
    how="`sonde.train.FixedLossScaleManager`, the same arguments",
)
@pytest.mark.parametrize("drop", [True, False])
def test_an_overflow_drops_the_update_or_not_as_configured(drop: bool):
    net = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaling = LossScaling(optimizer, FixedLossScaleManager(4.0, drop_overflow_update=drop))
    before = net.weight.clone()
    assert scaling.step(net(torch.tensor([[math.inf]])).sum()) is True
    assert torch.equal(net.weight, before) is drop
    assert scaling.scale == 4.0


@pytest.mark.parametrize("scale", [3.7, 100.1, 1.0, 65504.0])
def test_a_scale_that_float32_cannot_hold_is_not_taken_for_overflow(scale: float):
    net = nn.Linear(4, 1)
    cell = TrainOneStepWithLossScaleCell(
        WithLossCell(net, nn.MSELoss()), torch.optim.SGD(net.parameters(), lr=0.01), scale
    )
    for _ in range(3):
        _, overflow, used = cell(*_batch())
        assert (overflow, used) == (False, scale)


def test_a_fused_optimizer_skips_an_overflow_too():
    net = nn.Linear(1, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, fused=True)
    scaling = LossScaling(optimizer, DynamicLossScaleManager(8, 2, 10))
    before = net.weight.clone()
    assert scaling.step(net(torch.tensor([[math.nan]])).sum()) is True
    assert torch.equal(net.weight, before)
    optimizer.zero_grad()
    assert scaling.step(net(torch.tensor([[1.0]])).sum()) is False
    assert scaling.scale == 4
    assert not torch.equal(net.weight, before)


def test_the_scale_may_be_a_tensor_and_be_changed():
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    cell = TrainOneStepWithLossScaleCell(
        WithLossCell(net, nn.MSELoss()), optimizer, torch.tensor([1024.0])
    )
    assert cell(*_batch())[2] == 1024
    cell.set_sense_scale(torch.tensor(2.0))
    assert cell(*_batch())[2] == 2


def test_the_state_of_a_step_module_includes_the_scale():
    def make() -> TrainOneStepWithLossScaleCell:
        net = LowPrecision(torch.float16)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        return TrainOneStepWithLossScaleCell(
            WithLossCell(net, _half_square), optimizer, DynamicLossScaleUpdateCell(2.0**24, 2, 100)
        )

    first, second = make(), make()
    for _ in range(6):
        first(*_batch())
    second.load_state_dict(first.state_dict())
    assert second(*_batch())[1:] == first(*_batch())[1:]
    assert torch.equal(
        first.network.backbone_network.fc.weight,
        second.state_dict()["network.backbone_network.fc.weight"],
    )


def test_a_loss_of_several_numbers_is_summed():
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    cell = TrainOneStepWithLossScaleCell(
        WithLossCell(net, nn.MSELoss(reduction="none")), optimizer, 4.0
    )
    x, y = _batch()
    cell(x, y)
    (expected,) = torch.autograd.grad(((net(x) - y) ** 2).sum(), [net.weight])
    torch.testing.assert_close(net.weight.grad, expected)


def test_a_step_that_cannot_be_scaled_says_why():
    half = nn.Linear(1, 1).half()
    scaling = LossScaling(torch.optim.SGD(half.parameters(), lr=0.1), FixedLossScaleManager())
    with pytest.raises(LossScaleError, match="weights are float16"):
        scaling.step(half(torch.ones(1, 1).half()).sum())
    net = nn.Linear(1, 1)
    scaling = LossScaling(torch.optim.SGD(net.parameters(), lr=0.1), FixedLossScaleManager())
    with pytest.raises(LossScaleError, match="no parameter of the optimizer got a gradient"):
        scaling.step(torch.ones(1, requires_grad=True).sum())


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: FixedLossScaleManager(0.5), ValueError),
        (lambda: FixedLossScaleManager("1"), TypeError),
        (lambda: FixedLossScaleManager(drop_overflow_update=1), TypeError),
        (lambda: DynamicLossScaleManager(0), ValueError),
        (lambda: DynamicLossScaleManager(1e39), ValueError),
        (lambda: DynamicLossScaleManager(scale_factor=1), ValueError),
        (lambda: DynamicLossScaleManager(scale_window=0), ValueError),
        (lambda: StaticLossScaler(math.inf), ValueError),
        (lambda: DynamicLossScaler(2, 2, 1.5), TypeError),
        (lambda: TrainOneStepWithLossScaleCell(nn.Linear(1, 1), None, "2"), TypeError),
        (lambda: TrainOneStepWithLossScaleCell(nn.Linear(1, 1), None, torch.ones(2)), ValueError),
    ],
)
def test_arguments_are_checked(make, error):
    with pytest.raises(error) as caught:
        make()
    assert isinstance(caught.value, SondeError)
