"""``check_update``, ``check_gradients``, ``check_weights``: each against numbers worked by hand."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.train.nets import classifier, loader, sgd
from torch import nn

from sonde.core.errors import UsageError
from sonde.train import (
    CheckpointConfig,
    Model,
    ModelCheckpoint,
    check_gradients,
    check_update,
    check_weights,
    compare_weights,
    save_checkpoint,
)


def _step(
    network: nn.Module, rate: float = 1.0, scale: float = 1.0, *, clear: bool = False
) -> None:
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    (network(torch.ones(1, 2)) * scale).sum().backward()
    if clear:
        optimizer.zero_grad()
    optimizer.step()


def _half_step(network: nn.Module) -> None:
    network.half()
    out = network(torch.full((1, 2), 1e-4, dtype=torch.float16))
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    (out * 1e-5).sum().backward()
    optimizer.step()


def _without_optimizer(network: nn.Module) -> None:
    network(torch.ones(1, 2)).sum().backward()


STEPS: dict[str, Callable[[nn.Module], None]] = {
    "cleared": functools.partial(_step, clear=True),
    "no-step": _without_optimizer,
    "not-finite": _step,
    "rate-0": functools.partial(_step, rate=0.0),
    "rate-too-small-for-the-precision": functools.partial(_step, rate=1e-12),
    "underflow": _half_step,
    "zero": functools.partial(_step, scale=0.0),
}
"""A step that leaves the weight as it was, by the reason."""

KINDS = {
    "cleared": "zero-grad-before-step",
    "no-step": "no-optimizer-step",
    "not-finite": "weight-not-finite",
    "rate-0": "learning-rate-zero",
    "rate-too-small-for-the-precision": "low-precision-update-lost",
    "underflow": "half-gradient-underflow",
    "zero": "gradient-zero",
}
"""The rule of the catalogue of each reason."""


class Parts(nn.Module):
    """One weight for each way to be or not to be updated."""

    def __init__(self) -> None:
        super().__init__()
        self.good = nn.Parameter(torch.tensor([3.0, 4.0]))
        self.detached = nn.Parameter(torch.ones(2))
        self.dead = nn.Parameter(torch.ones(2))
        self.forgotten = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.empty = nn.Parameter(torch.empty(0))

    def forward(self) -> torch.Tensor:
        return (
            self.good.sum()
            + self.detached.detach().sum()
            + torch.relu(-self.dead).sum()
            + self.forgotten.sum()
            + self.empty.sum()
        )


def trained(directory: Path) -> tuple[Path, Path]:
    """The checkpoints of two consecutive steps; one of the weights is frozen."""
    network = classifier()
    network[3].bias.requires_grad_(False)
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    config = CheckpointConfig(save_checkpoint_steps=1)
    model.train(1, loader(), ModelCheckpoint("net", directory, config))
    return directory / "net-1_1.ckpt", directory / "net-1_2.ckpt"


class TestUpdates:
    @pytest.mark.document(
        63,
        says="execute a step completely, normal completion of parameter update",
        how="`sonde.train.check_update(network, step)`: which weights changed, and why others did "
        "not",
    )
    def test_a_step_that_updates_and_its_gradients(self) -> None:
        network = classifier()
        optimizer = sgd(network)
        x, y = next(iter(loader()))

        def step() -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()

        report = check_update(network, step)
        assert report
        assert report.changed == ("0.weight", "0.bias", "3.weight", "3.bias")
        assert check_gradients(network)

    @pytest.mark.document(
        68,
        says="compare the weight values of Checkpoint files: `same value`, `All params num`, `same "
        "params num`",
        how="`sonde.train.compare_weights(ckpt1, ckpt2)`, the same words; `sonde ckpt diff A B`",
    )
    def test_two_checkpoints_in_the_words_of_the_document(self, tmp_path: Path) -> None:
        report = compare_weights(*trained(tmp_path))
        assert report.unchanged == ("3.bias",)
        assert not report
        assert str(report).splitlines() == [
            "same value: 3.bias is the same in both",
            "All params num: 4",
            "same params num: 1",
        ]

    @pytest.mark.document(63)
    def test_each_weight_that_does_not_move_has_its_reason(self) -> None:
        network = Parts()
        given = [network.good, network.detached, network.dead, network.empty]
        optimizer = torch.optim.SGD(given, 0.5)

        def step() -> None:
            optimizer.zero_grad()
            network().backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        report = check_update(network, step)
        assert not report
        assert report.changed == ("good",)
        assert report.unchanged == ("detached", "dead", "forgotten", "empty")
        assert report.frozen == ("frozen",)
        assert [finding.message for finding in report.findings] == [
            "detached is unchanged: a module runs and is to be trained, but the loss does not "
            "reach its parameters",
            "dead is unchanged: the gradient of a weight is exactly zero",
            "forgotten is unchanged: a weight has a gradient, but no optimizer that steps holds it",
        ]
        assert [finding.rule for finding in report.findings] == [
            *("detached-graph", "gradient-zero", "weight-not-in-optimizer")
        ]
        assert {finding.status for finding in report.findings} == {"established"}
        assert [finding.parameter for finding in report.findings] == [
            *("detached", "dead", "forgotten")
        ]
        assert all(finding.advice for finding in report.findings)
        assert [finding.detail for finding in report.findings] == [
            *("missing", "zero", "not-in-the-optimizer")
        ]

    @pytest.mark.parametrize("cause", sorted(STEPS))
    def test_the_reasons_are_told_apart(self, cause: str) -> None:
        network = nn.Linear(2, 1, bias=False)
        with torch.no_grad():
            network.weight.fill_(math.nan if cause == "not-finite" else 1.0)
        report = check_update(network, functools.partial(STEPS[cause], network))
        assert [finding.detail for finding in report.findings] == [cause]
        assert [finding.rule for finding in report.findings] == [KINDS[cause]]
        assert not any(network.weight._backward_hooks or ())
        assert not network._forward_pre_hooks

    def test_a_module_that_never_ran_is_told_from_one_behind_a_detach(self) -> None:
        network = nn.ModuleDict({"used": nn.Linear(2, 1), "idle": nn.Linear(2, 1)})
        optimizer = torch.optim.SGD(network.parameters(), lr=0.5)

        def step() -> None:
            network["used"](torch.ones(1, 2)).sum().backward()
            optimizer.step()

        found = check_update(network, step).findings
        assert [each.rule for each in found] == ["unused-parameters"] * 2
        assert [each.parameter for each in found] == ["idle.weight", "idle.bias"]

    def test_the_size_of_a_change_is_in_float64(self) -> None:
        before = {"w": torch.tensor([3.0, 4.0]), "z": torch.zeros(2), "n": torch.tensor([1.0])}
        after = {
            "w": torch.tensor([3.0, 4.5]),
            "z": torch.tensor([0.0, 2.0]),
            "n": torch.tensor([math.nan]),
            "only here": torch.ones(1),
        }
        w, z, n = compare_weights(before, after).changes
        assert (w.changed, w.largest, w.ratio) == (True, 0.5, 0.1)
        assert (z.changed, z.largest, z.ratio) == (True, 2.0, math.inf)
        assert n.changed
        assert math.isnan(n.largest)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.complex64])
    def test_every_element_type_is_compared(self, dtype: torch.dtype) -> None:
        before = {"w": torch.tensor([1, 2]).to(dtype)}
        assert compare_weights(before, before).unchanged == ("w",)
        changed = compare_weights(before, {"w": torch.tensor([1, 4]).to(dtype)})
        assert changed.changes[0].largest == 2.0

    def test_nan_that_stays_nan_is_unchanged(self) -> None:
        weights = {"w": torch.tensor([math.nan, 1.0])}
        assert not compare_weights(weights, weights)

    def test_another_shape_is_a_change_without_a_size(self) -> None:
        (change,) = compare_weights({"w": torch.ones(2)}, {"w": torch.ones(3)}).changes
        assert change.changed
        assert math.isnan(change.ratio)

    def test_files_and_networks_can_be_mixed(self, tmp_path: Path) -> None:
        network = nn.Linear(2, 2)
        path = save_checkpoint(network, tmp_path / "before.safetensors")
        with torch.no_grad():
            network.bias.add_(1.0)
        report = compare_weights(path, network)
        assert (report.changed, report.unchanged) == (("bias",), ("weight",))
        largest = {change.name: change.largest for change in report.changes}
        assert largest == {"bias": pytest.approx(1.0, rel=1e-6), "weight": 0.0}

    def test_nothing_in_common_is_an_error(self) -> None:
        with pytest.raises(UsageError, match="no weight name in common"):
            compare_weights({"a": torch.ones(1)}, {"b": torch.ones(1)})


class TestGradients:
    def report(self, **gradients: torch.Tensor | None) -> tuple[dict[str, str], float]:
        network = nn.Module()
        for name, gradient in gradients.items():
            like = torch.zeros(1) if gradient is None else torch.zeros_like(gradient)
            parameter = nn.Parameter(like)
            parameter.grad = gradient
            network.register_parameter(name, parameter)
        report = check_gradients(network)
        assert bool(report) == (not report.findings)
        return {state.name: state.verdict for state in report.gradients}, report.total_norm

    @pytest.mark.document(
        99,
        says="gradient of 0, gradient disappearance and gradient explosion",
        how="`sonde.train.check_gradients(network)`; conditions gradient_vanishing, "
        "gradient_exploding, gradient_too_large",
    )
    def test_every_verdict(self) -> None:
        verdicts, total = self.report(
            ok=torch.tensor([3.0, 4.0]),
            missing=None,
            zero=torch.zeros(3),
            vanishing=torch.full((4,), 9e-10),
            exploding=torch.tensor([600.0, 900.0]),
            empty=torch.empty(0),
        )
        assert verdicts == {
            "ok": "ok",
            "missing": "missing",
            "zero": "zero",
            "vanishing": "vanishing",
            "exploding": "exploding",
            "empty": "ok",
        }
        assert total == pytest.approx(math.sqrt(25 + 600**2 + 900**2), rel=1e-12)

    def test_half_precision_zeros_are_an_underflow(self) -> None:
        verdicts, _ = self.report(w=torch.zeros(3, dtype=torch.float16))
        assert verdicts == {"w": "underflow"}

    def test_an_optimizer_must_hold_the_weight_with_a_rate_that_it_can_resolve(self) -> None:
        network = nn.Linear(2, 1)
        with torch.no_grad():
            network.weight.fill_(1.0)
        network(torch.ones(1, 2)).sum().backward()
        for rate, verdict in ((1e-3, "ok"), (1e-12, "too small for the precision"), (0.0, "ok")):
            optimizer = torch.optim.SGD([network.weight], lr=rate)
            states = check_gradients(network, optimizer=optimizer).gradients
            assert [each.verdict for each in states] == [verdict, "not in the optimizer"]

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_one_bad_element_is_enough(self, bad: float) -> None:
        verdicts, total = self.report(w=torch.tensor([1.0, bad, 0.0]))
        assert verdicts == {"w": "not finite"}
        assert not math.isfinite(total)

    def test_large_finite_half_precision_gradients_explode_but_do_not_overflow(self) -> None:
        verdicts, total = self.report(w=torch.full((100,), 60000.0, dtype=torch.float16))
        assert verdicts == {"w": "exploding"}
        assert total == pytest.approx(600_000.0, rel=1e-3)

    def test_thresholds_and_messages(self) -> None:
        network = nn.Linear(1, 1, bias=False)
        network.weight.grad = torch.tensor([[2.0]])
        assert check_gradients(network)
        report = check_gradients(network, exploding_norm=1.0)
        assert report.named("exploding") == ("weight",)
        (found,) = report.findings
        assert (found.rule, found.status) == ("exploding-gradient", "hypothesis")
        assert str(report).splitlines() == [
            "1 gradients, total norm 2",
            "weight: gradient exploding (norm 2, mean 2, zeros 0.0%)",
        ]
        assert check_gradients(network, vanishing_mean=3.0).named("vanishing") == ("weight",)

    def test_sparse_gradients_count_all_elements(self) -> None:
        table = nn.Embedding(10, 2, sparse=True)
        table(torch.tensor([1, 1])).sum().backward()
        (state,) = check_gradients(table).gradients
        assert state.norm == pytest.approx(math.sqrt(8.0))
        assert state.mean == pytest.approx(4.0 / 20)
        assert state.zeros == pytest.approx(0.9)

    def test_gradients_of_frozen_weights_are_not_checked(self) -> None:
        network = nn.Linear(1, 1)
        network.requires_grad_(False)
        assert check_gradients(network).gradients == ()


class TestWeights:
    @pytest.mark.document(
        69,
        says="checking whether there is NAN, INF abnormal data in the weight value",
        how="`sonde.train.check_weights(ckpt)`, `sonde ckpt check FILE`",
    )
    def test_nan_and_inf_in_a_checkpoint_of_mindspore(self) -> None:
        report = check_weights(Path(__file__).parent / "data" / "nan_log_final.ckpt")
        assert not report
        messages = [finding.message for finding in report.findings]
        assert messages[:4] == [
            "fc1.weight: 24 NaN, 0 Inf of 48",
            "fc1.bias: 4 NaN, 0 Inf of 8",
            "fc2.weight: 24 NaN, 0 Inf of 24",
            "fc2.bias: 3 NaN, 0 Inf of 3",
        ]

    def test_nan_and_inf_are_counted_by_name(self) -> None:
        report = check_weights(
            {
                "a": torch.tensor([1.0, math.nan, math.inf, -math.inf]),
                "b": torch.ones(2, dtype=torch.bfloat16),
                "c": torch.tensor([1, 2]),
                "d": torch.tensor([complex(math.nan, 0.0)]),
                "text": "ignored",
            }
        )
        assert [finding.message for finding in report.findings] == [
            "a: 1 NaN, 2 Inf of 4",
            "d: 1 NaN, 0 Inf of 1",
        ]
        assert {finding.severity for finding in report.findings} == {"error"}
        assert str(report).startswith("4 weights, 2 with NaN or Inf")

    def test_buffers_of_a_network_are_checked(self) -> None:
        network = nn.BatchNorm1d(2)
        assert check_weights(network)
        assert network.running_var is not None
        network.running_var[0] = math.nan
        assert check_weights(network).findings[0].message == "running_var: 1 NaN, 0 Inf of 2"
