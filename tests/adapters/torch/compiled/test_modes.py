"""Whatever mode and options a program compiles with, and in low precision: order and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.compiled.compiled_trainings import Plain, batch, fit
from tests.adapters.torch.watching import Watched, watch
from torch import nn
from torch._inductor import config

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("nothing_compiled"),
]


def is_in_order(seen: Watched, step: int) -> bool:
    """Whether ops were seen in the order they have in the graph."""
    orders = [call.order for call in seen.calls(step)]
    names = {node.name: position for position, node in enumerate(seen.graph(step).ops)}
    places = [names[call.node.name] for call in seen.calls(step) if call.node.name in names]
    return orders == sorted(orders) and places == sorted(places)


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "max-autotune"},
        {"mode": "reduce-overhead"},
        {"options": {"triton.cudagraphs": True, "fx_graph_cache": True}},
    ],
    ids=lambda each: str(next(iter(each.values()))),
)
def test_in_every_mode_each_op_is_seen_in_order(settings: dict[str, Any]) -> None:
    def train() -> Any:
        torch.manual_seed(0)
        net = Plain()
        return fit(torch.compile(net, **settings), net, batch, steps=3)

    with watch(steps="1") as seen:
        train()
    (tally,) = seen.reports
    assert tally.startswith("sonde: 44 of 44 ops in 2 compiled graphs observed; ")
    assert is_in_order(seen, 1)
    call = seen.call("Default/network-Plain/relu-op0", 1)
    (before,), (after,) = call.inputs, call.outputs
    assert before is not None
    np.testing.assert_array_equal(after, np.maximum(before, 0))


def test_a_pass_of_the_program_runs_beside_that_of_sonde() -> None:
    passed: list[torch.fx.Graph] = []
    net = Plain()
    options = {"post_grad_custom_post_pass": passed.append}
    with watch(steps="0", ops=("relu",)) as seen:
        fit(torch.compile(net, options=options), net, batch, steps=1)
    assert len(passed) >= 2, "forward and backward; once more to count kernels"
    assert seen.call("Default/network-Plain/relu-op0").outputs[0] is not None


def test_a_graph_with_frozen_parameters_runs_unobserved_and_is_reported() -> None:
    net = Plain().eval()
    x = torch.ones(3, 4)
    with torch.no_grad(), config.patch(freezing=True), watch(step_by="manual") as seen:
        run = torch.compile(net)
        first, second = run(x), run(x)
        torch.testing.assert_close(first, net(x))
    assert torch.equal(first, second)
    assert "runs as it is" in seen.reports[0]
    assert seen.reports[0].endswith("[compiled-unobserved]")


def transformer() -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.Sequential(layer, nn.Linear(8, 2)), torch.randn(2, 5, 8)


def cnn() -> tuple[nn.Module, torch.Tensor]:
    body = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(36, 2)), torch.randn(4, 1, 8, 8)


@pytest.mark.parametrize(("make", "way"), [(transformer, "throughout"), (cnn, "autocast")])
def test_in_bfloat16_each_op_is_seen_in_order(make: Any, way: str) -> None:
    net, x = make()
    if way == "throughout":
        net, x = net.bfloat16(), x.bfloat16()
    with watch(steps="0") as seen:
        run = torch.compile(net)
        with torch.autocast("cpu", torch.bfloat16, way == "autocast"):
            loss = run(x).square().mean()
        loss.backward()
        torch.optim.SGD(net.parameters(), lr=0.1).step()
    kinds = [spec.dtype for node in seen.graph(0).ops for spec in node.outputs]
    assert kinds.count("bfloat16") > 20
    assert len(seen.calls(0)) > 60
    assert is_in_order(seen, 0)
    assert "[" not in seen.reports[0]
