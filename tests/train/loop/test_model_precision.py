"""``Model`` in low precision, with loss scale, schedules and compiled: as the hand-written loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.train.loop.by_hand import Losses, by_hand, train
from tests.train.nets import classifier, data, loader, sgd
from torch import Tensor, nn

from sonde.train import (
    DynamicLossScaleManager,
    FixedLossScaleManager,
    LambdaCallback,
    Model,
    RunContext,
)


class TestPrecision:
    def test_o0_computes_in_float32(self) -> None:
        assert train(loader(), amp_level="O0") == by_hand()[0]

    @pytest.mark.document(
        207,
        says="Using Automatic Mixed Precision",
        how='`Model(amp_level="O1")` to O3, `dtype=`; `sonde profile --try amp` measures it',
    )
    @pytest.mark.parametrize("options", [{"amp_level": "O1"}, {"dtype": "bfloat16"}])
    def test_autocast_computes_as_torch_autocast_does(self, options: dict[str, Any]) -> None:
        network = classifier()
        optimizer = sgd(network)
        expected = []
        for x, y in loader():
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(network(x), y)
            loss.backward()
            optimizer.step()
            expected.append(float(loss.detach()))
        assert train(loader(), **options) == expected
        assert network[0].weight.dtype == torch.float32

    def test_o2_with_float16_brings_a_dynamic_loss_scale(self) -> None:
        network = classifier()
        model = Model(network, nn.CrossEntropyLoss(), sgd(network), amp_level="O2", dtype="float16")
        assert isinstance(model.loss_scale_manager, DynamicLossScaleManager)

    def test_o3_casts_the_whole_network_and_computes_the_loss_in_float32(self) -> None:
        network = classifier()
        seen: list[torch.dtype] = []

        def loss_fn(output: Tensor, target: Tensor) -> Tensor:
            seen.append(output.dtype)
            return nn.functional.cross_entropy(output, target)

        model = Model(network, loss_fn, sgd(network), amp_level="O3", dtype="bfloat16")
        model.train(1, loader())
        assert network[0].weight.dtype == torch.bfloat16
        assert set(seen) == {torch.float32}
        assert model.predict(data()[0]).dtype == torch.float32


class TestLossScale:
    def test_a_power_of_two_changes_no_bit(self) -> None:
        losses = train(loader(), 3, loss_scale_manager=FixedLossScaleManager(1024.0))
        assert losses == by_hand(3)[0]

    @pytest.mark.document(
        96,
        says="checking for loss_scale overflow",
        how="`cb_params.overflow` and `cb_params.loss_scale` of every step",
    )
    def test_overflow_and_scale_are_available_per_step_and_the_update_is_dropped(self) -> None:
        class Explosive(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.ones(1))

            def forward(self, x: Tensor) -> Tensor:
                return (self.weight * x).sum()

        network = Explosive()
        optimizer = torch.optim.SGD(network.parameters(), 0.5)
        told: list[tuple[bool, float, float]] = []

        def look(context: RunContext) -> None:
            arguments = context.original_args()
            weight = float(network.weight.detach())
            told.append((arguments.overflow, arguments.loss_scale, weight))

        scale = DynamicLossScaleManager(init_loss_scale=4, scale_factor=2, scale_window=2)
        model = Model(network, optimizer=optimizer, loss_scale_manager=scale)
        one, bad = torch.ones(1), torch.full((1,), 3e38)
        model.train(1, [one, bad, one, one, one], LambdaCallback(on_train_step_end=look))
        assert told == [
            (False, 4.0, 0.5),
            (True, 4.0, 0.5),
            (False, 2.0, 0.0),
            (False, 2.0, -0.5),
            (False, 4.0, -1.0),
        ]

    def test_a_dropped_update_does_not_move_the_schedule(self) -> None:
        network = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(network.parameters(), 1.0)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        scale = FixedLossScaleManager(1024.0)
        model = Model(
            network, nn.MSELoss(), optimizer, loss_scale_manager=scale, scheduler=scheduler
        )
        good, bad = torch.ones(1, 1), torch.full((1, 1), float("inf"))
        model.train(1, [(good, good), (bad, good), (good, good)])
        assert optimizer.param_groups[0]["lr"] == 0.25


class TestSchedulers:
    @pytest.mark.parametrize(("every", "rates"), [("step", 0.9**8), ("epoch", 0.9**2)])
    def test_any_torch_scheduler_is_stepped(self, every: str, rates: float) -> None:
        network = classifier()
        optimizer = sgd(network, 1.0)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        model = Model(
            network, nn.CrossEntropyLoss(), optimizer, scheduler=scheduler, scheduler_every=every
        )
        model.train(2, loader())
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rates, rel=1e-12)


class TestCompile:
    @pytest.mark.document(
        205,
        says="Using the Static Graph Mode",
        how="`Model(compile=True)`, `torch.compile`; `sonde profile --try compile` measures it",
    )
    def test_a_compiled_network_trains_to_the_same_names_and_numbers(self) -> None:
        expected, weights = by_hand(1)
        network = classifier()
        losses = Losses()
        model = Model(network, nn.CrossEntropyLoss(), sgd(network), compile={"backend": "eager"})
        model.train(1, loader(), losses)
        assert losses.values == expected
        assert network.state_dict().keys() == weights.keys()

    def test_compile_true_uses_torch_s_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[dict[str, Any]] = []

        def compile(network: nn.Module, **options: Any) -> nn.Module:
            asked.append(options)
            return network

        monkeypatch.setattr(torch, "compile", compile)
        Model(classifier(), compile=True)
        assert asked == [{}]
