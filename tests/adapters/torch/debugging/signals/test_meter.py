"""The signals of a step are what numpy computes in float64."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sonde
from sonde.adapters.torch.debugging.signals.norms import non_finite, norms, whole_norm
from sonde.adapters.torch.debugging.signals.updates import SampledUpdates
from sonde.adapters.torch.monitor.batch_hash import batch_hash


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn]
)
def test_norms_are_those_of_numpy(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(shape).to(dtype) for shape in ((), (7,), (3, 5), (0,))]
    found = norms([*tensors, None])
    wanted = [float(np.linalg.norm(each.double().numpy())) for each in tensors]
    assert found[:-1] == pytest.approx(wanted, rel=1e-6)
    assert math.isnan(found[-1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_norm_of_finite_values_is_finite_where_float32_overflows(dtype: torch.dtype) -> None:
    big = torch.full((1000,), 6e4 if dtype is torch.float16 else 3e38, dtype=dtype)
    (found,) = norms([big])
    assert found == pytest.approx(float(np.linalg.norm(big.double().numpy())))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_norm_is_not_finite_if_one_value_is_not(bad: float) -> None:
    tensor = torch.ones(100)
    tensor[37] = bad
    assert not math.isfinite(norms([tensor])[0])
    assert non_finite([tensor, None, torch.ones(3)]) == 1


def test_unusual_layouts_have_norms() -> None:
    places, values = [[0, 0, 2]], [1.0, 2.0, 4.0]
    sparse = torch.sparse_coo_tensor(places, values, (5,), check_invariants=True)
    strided = torch.randn(6, 8)[::2, ::3].t()
    complexes = torch.tensor([3 + 4j])
    expanded = torch.ones(1).expand(9)
    found = norms([sparse, strided, complexes, expanded, torch.ones(2, dtype=torch.int64)])
    assert found[:4] == pytest.approx([5.0, float(strided.norm()), 5.0, 3.0], rel=1e-6)
    assert math.isnan(found[4])


def test_the_whole_norm_leaves_out_what_has_none() -> None:
    assert whole_norm(np.array([3.0, math.nan, 4.0])) == 5.0
    assert whole_norm(np.array([3.0, math.inf])) == math.inf
    assert math.isnan(whole_norm(np.array([math.nan])))


def test_the_ratio_of_small_parameters_is_exact_and_of_large_ones_estimated() -> None:
    torch.manual_seed(0)
    small, large = nn.Parameter(torch.randn(200)), nn.Parameter(torch.randn(100, 1000))
    sample = SampledUpdates()
    before = [small.detach().clone(), large.detach().clone()]
    sample.before_step([small])
    with torch.no_grad():
        small += 0.01 * torch.randn(200)
    change = float((small.detach() - before[0]).norm() / before[0].norm())
    assert sample.after_step().ratio == pytest.approx(change, rel=1e-6)
    sample.before_step([small, large])
    before = [small.detach().clone(), large.detach().clone()]
    with torch.no_grad():
        small += 0.01 * torch.randn(200)
        large += 0.02 * torch.randn(100, 1000)
    now = [small.detach() - before[0], (large.detach() - before[1]).flatten()]
    changed = torch.cat(now).norm()
    whole = torch.cat([before[0], before[1].flatten()]).norm()
    found = sample.after_step()
    assert found.ratio == pytest.approx(float(changed / whole), rel=0.2)
    ratios = [float(each.norm() / old.norm()) for each, old in zip(now, before, strict=True)]
    assert found.changes / found.weights == pytest.approx(ratios, rel=0.2)


def test_a_parameter_with_new_memory_is_sampled_anew() -> None:
    parameter = nn.Parameter(torch.ones(10))
    sample = SampledUpdates()
    sample.before_step([parameter])
    parameter.data = torch.full((10,), 2.0)
    sample.before_step([parameter])
    with torch.no_grad():
        parameter *= 1.5
    assert sample.after_step().ratio == pytest.approx(0.5)


def test_updates_are_measured_for_each_parameter_with_its_gradients() -> None:
    torch.manual_seed(0)
    narrow = nn.Parameter(torch.full((2, 3), 256.0, dtype=torch.bfloat16))
    image = nn.Parameter(torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last))
    without, counts = nn.Parameter(torch.ones(2)), torch.arange(3)
    narrow.grad = torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 64.0]], dtype=torch.bfloat16)
    image.grad = torch.randn(4, 3, 5, 5)  # Contiguous, unlike the parameter.
    parameters = [narrow, image, without, counts]
    sample = SampledUpdates(1000, with_gradients=True)
    before = image.detach().clone()
    with torch.no_grad():
        sample.before_step(parameters)
        for each in (narrow, image):
            assert each.grad is not None
            each -= 0.1 * each.grad
        image.grad.zero_()
        found = sample.after_step()
    # In bfloat16 256 - 0.1 is 256: only the last element changes.
    assert found.lost.tolist()[:2] == [0.75, 0.0]
    assert found.zeros.tolist()[:2] == [pytest.approx(2 / 6), 0.0]
    assert np.isnan(found.lost[2:]).all()
    assert found.weights[0] == pytest.approx(256 * math.sqrt(6))
    assert found.changes[1] == pytest.approx(float((image.detach() - before).norm()), rel=1e-6)
    assert found.changes[2] == 0
    assert found.is_sampled.tolist() == [True, True, True, False]
    assert np.isnan(found.weights[3])


def test_the_ratio_of_weights_that_are_nan_is_nan() -> None:
    good, bad = nn.Parameter(torch.ones(2)), nn.Parameter(torch.tensor([1.0, math.nan]))
    sample = SampledUpdates()
    sample.before_step([good, bad])
    assert math.isnan(sample.after_step().ratio)


def test_equal_batches_have_equal_hashes_and_others_do_not() -> None:
    x = torch.arange(600_000, dtype=torch.float32)
    assert batch_hash([x, {"y": [x[:3]]}]) == batch_hash([x.clone(), {"y": [x[:3].clone()]}])
    other = x.clone()
    other[-1] += 1
    assert batch_hash([other]) != batch_hash([x])
    assert batch_hash([x[:6].view(2, 3)]) != batch_hash([x[:6].view(3, 2)])
    assert batch_hash(["text", None]) == 0
    assert batch_hash([torch.empty(0)]) != 0
    for odd in (torch.tensor(True), torch.tensor([1 + 2j]), torch.randn(2000, 2000).t()):
        assert batch_hash([odd]) == batch_hash([odd.clone()])


def test_the_signals_of_a_step_are_the_program_s_own_numbers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.25)
    seen = []
    with sonde.guard(tmp_path):
        for _ in range(3):
            x = torch.randn(6, 4)
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            gradients = [p.grad.double().norm() for p in net.parameters() if p.grad is not None]
            weights = torch.cat([p.detach().flatten() for p in net.parameters()]).double()
            optimizer.step()
            after = torch.cat([p.detach().flatten() for p in net.parameters()]).double()
            ratio = (after - weights).norm() / weights.norm()
            seen.append((loss.item(), gradients, float(weights.norm()), float(ratio)))
    found = sonde.signals(tmp_path)
    assert found["step"].tolist() == [0, 1, 2]
    assert found.parameters == ("0.weight", "0.bias", "2.weight", "2.bias")
    for row, (loss_value, gradients, weight, ratio) in enumerate(seen):
        assert found["loss"][row] == loss_value
        assert found.gradients[row] == pytest.approx([float(each) for each in gradients], rel=1e-6)
        assert found["weight_norm"][row] == pytest.approx(weight, rel=1e-6)
        assert found["update_ratio"][row] == pytest.approx(ratio, rel=1e-4)
        assert found["learning_rate"][row] == 0.25
    assert len(set(found["batch_hash"].tolist())) == 3


def test_losses_of_micro_batches_are_added_up(tmp_path: Path) -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with sonde.guard(tmp_path):
        losses = [net(torch.randn(3, 2)).square().mean() for _ in range(4)]
        for each in losses:
            each.backward()
        optimizer.step()
    found = sonde.signals(tmp_path)
    assert found["micro_batches"].tolist() == [4]
    assert found["loss"][0] == pytest.approx(sum(each.item() for each in losses))


def test_an_optimizer_with_a_closure_is_monitored(tmp_path: Path) -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)
    x = torch.randn(8, 2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    with sonde.guard(tmp_path):
        first = optimizer.step(closure).item()
    assert sonde.signals(tmp_path)["loss"][0] == first


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_values_that_are_not_finite_are_counted(dtype: torch.dtype) -> None:
    tensor = torch.ones(6, dtype=dtype)
    tensor[1], tensor[4] = math.nan, -math.inf
    assert non_finite([tensor, None, torch.arange(3), torch.ones(2)]) == 2


def test_a_step_with_nan_weights_is_measured_as_fast_as_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once weights are NaN every step is measured with them: only an overflow is computed again."""
    again: list[torch.Tensor] = []
    exact = torch.linalg.vector_norm

    def counted(tensor: torch.Tensor) -> torch.Tensor:
        again.append(tensor)
        return exact(tensor)

    monkeypatch.setattr(torch.linalg, "vector_norm", counted)
    spoiled, large = torch.full((3,), math.nan), torch.full((4,), 1e30)
    found = norms([spoiled, large, torch.ones(1)])
    assert math.isnan(found[0])
    assert found[1:].tolist() == pytest.approx([2e30, 1.0])
    assert [len(each) for each in again] == [4]
