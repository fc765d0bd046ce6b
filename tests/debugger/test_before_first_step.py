"""What is known before the first step has run: modules, initial weights, the forward pass."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from tests.debugger.driving import driven, make_net, train
from tests.debugger.hub import RankConnection, watchpoint
from torch import nn
from torch.nn import functional

from sonde.wire.questions import AskCheck, AskOp, AskSummary, Checked, OpTensors, Summary
from sonde.wire.rank import GraphPart, Notice
from sonde.wire.shapes import Node

ROOT = "Default/network-Net"


def parts(rank: RankConnection, basis: str) -> list[GraphPart]:
    return [part for part in rank.all(GraphPart) if part.basis == basis]


@pytest.mark.document(
    239,
    says="The initial parameters can be compared with those after the first step",
    how="modules and initial weights are there at the pause before the first step; a weight that "
    "was opened there is compared with itself after the step",
)
def test_modules_and_initial_weights_are_there_before_the_first_step() -> None:
    net = make_net()

    def person(rank: RankConnection) -> None:
        assert rank.paused().graph == 0
        (part,) = rank.all(GraphPart)
        assert (part.graph, part.total, part.basis) == (0, None, "modules")
        nodes = {node.name: node for node in part.nodes}
        assert list(nodes) == [
            "fc1.weight",
            "fc1.bias",
            f"{ROOT}/fc1-Linear/forward",
            f"{ROOT}/act-Tanh/forward",
            "fc2.weight",
            "fc2.bias",
            f"{ROOT}/fc2-Linear/forward",
        ]
        assert nodes["fc1.weight"].categories[0] == "weight"
        assert nodes[f"{ROOT}/act-Tanh/forward"].type == "Tanh"
        tensors: OpTensors = rank.answer("fc1.weight", AskOp(), OpTensors)
        assert tensors.tensors[0].kept
        found: Summary = rank.answer("fc1.weight", AskSummary(), Summary)
        assert found.statistics is not None
        assert found.statistics.max == pytest.approx(net.fc1.weight.max().item())
        rank.control("continue")

    debugged, rank = driven(lambda: train(net, 3), person)
    assert debugged == train(make_net(), 3)
    assert not any(name.endswith("/forward") for name in rank.nodes(0))


def test_initial_weights_are_checked_during_the_pause_before_the_first_step() -> None:
    net = make_net()
    nn.init.zeros_(net.fc1.weight)

    def check(rank: RankConnection) -> Checked:
        found: Checked = rank.answer("", AskCheck(), Checked)
        return found

    def person(rank: RankConnection) -> None:
        rank.paused()
        watched = (
            watchpoint(1, "weight_initialization"),
            watchpoint(2, "weight_too_large", max_gt=0),
        )
        rank.watch(*(msgspec.structs.replace(each, break_after=0) for each in watched))
        found = check(rank)
        assert found.later == ()
        assert ("fc1.weight", 1) in {(hit.op, hit.watchpoint) for hit in rank.hits}
        assert ("fc2.weight", 2) in {(hit.op, hit.watchpoint) for hit in rank.hits}
        rank.control("step")
        rank.paused()
        assert check(rank).later == (1,)
        rank.control("terminate")

    driven(lambda: train(net, 3), person)


def test_parameters_stay_in_the_graph_while_the_first_step_is_walked_through() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("next")
        assert rank.paused().graph == 0
        last = rank.all(GraphPart)[-1]
        names = [node.name for node in last.nodes]
        assert names[-3:] == ["fc2.weight", "fc2.bias", f"{ROOT}/fc2-Linear/forward"]
        assert f"{ROOT}/fc1-Linear/forward" not in names  # An op of it has run.
        assert f"{ROOT}/fc1-Linear/t-op0" in names
        assert [node.order for node in last.nodes] == list(range(len(names)))
        rank.control("terminate")

    driven(lambda: train(make_net(), 2), person)


# ---------------------------------------------------------------- forward pass


class Classifier(nn.Module):
    """Has buffers, random numbers, state of its own, views, in-place ops, a module used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(2))
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(16, 4)
        self.calls = 0
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.calls += 1
        self.seen += 1
        x = self.norm(self.conv(x.view(-1, 1, 4, 4)))
        x = functional.relu(x, inplace=True).flatten(1)
        for block in self.blocks:
            x = self.drop(block(x)) * scale
        found: torch.Tensor = self.head(x)
        return found


def classify(net: nn.Module, steps: int = 3) -> tuple[list[float], float]:
    torch.manual_seed(3)
    data, target = torch.randn(8, 16), torch.randint(4, (8,))
    optimizer = torch.optim.Adam(net.parameters())
    losses = []
    for _ in range(steps):
        loss = functional.cross_entropy(net(data, scale=0.5), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, torch.rand(()).item()


def make_classifier() -> Classifier:
    torch.manual_seed(0)
    return Classifier()


def ops_of(nodes: Any) -> list[Node]:
    return [node for node in nodes if node.kind == "op"]


@pytest.mark.document(
    221,
    says="Before the graph is executed, the page shows it",
    how="the modules and parameters at once; the ops of the forward pass as soon as another "
    "process has traced them, without running them",
)
def test_the_forward_pass_is_shown_before_it_runs() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.wait(lambda: bool(parts(rank, "trace") or rank.all(Notice)))
        assert rank.all(Notice) == []
        rank.control("step")
        rank.paused()
        rank.control("continue")

    net = make_classifier()
    debugged, rank = driven(lambda: classify(net), person, trace=True)
    plain = make_classifier()
    assert debugged == classify(plain)
    assert (net.calls, net.seen.item()) == (plain.calls, plain.seen.item()) == (3, 3.0)
    (traced,) = parts(rank, "trace")
    ran = {
        name: node
        for name, node in rank.nodes(0).items()
        if name.startswith("Default/network-Classifier/")
    }
    expected = {node.name: node for node in ops_of(traced.nodes)}
    assert list(expected) == list(ran)
    for name, node in expected.items():
        # Behind them, what an op that ran has written to without returning it.
        assert ran[name].outputs[: len(node.outputs)] == node.outputs, name
        assert [edge.type for edge in node.inputs] == [edge.type for edge in ran[name].inputs], name
        assert node.sources[0].line == ran[name].sources[0].line, name
    leaves = {node.name for node in traced.nodes if node.kind != "op"}
    assert {"data-0", "conv.weight", "norm.running_mean", "head.bias"} <= leaves
    assert expected["Default/network-Classifier/conv-Conv2d/convolution-op0"].inputs[
        1
    ].producer == ("conv.weight")


class Effects(nn.Module):
    """Does what must not be done twice."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.fc = nn.Linear(16, 4)
        self.act = act

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.act()
        found: torch.Tensor = self.fc(x) * scale
        return found


@pytest.mark.parametrize("effect", ["print", "file", "random", "exit"])
def test_nothing_that_a_forward_pass_does_is_done_by_tracing_it(
    effect: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "log"
    drawn: list[float] = []

    def act() -> None:
        if effect == "print":
            print("forward")
        elif effect == "file":
            with written.open("a") as file:
                file.write("forward\n")
        elif effect == "random":
            drawn.append(random.random())
        elif os.getpid() != process:
            os._exit(9)

    process = os.getpid()

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.wait(lambda: bool(parts(rank, "trace") or rank.all(Notice)))
        rank.control("continue")

    torch.manual_seed(0)
    random.seed(5)
    debugged, rank = driven(lambda: classify(Effects(act), 2), person, trace=True)
    assert all(notice.slug == "forward-not-traced" for notice in rank.all(Notice))
    said = capfd.readouterr().out
    lines = written.read_text() if effect == "file" else said
    assert lines.count("forward") == (2 if effect in ("print", "file") else 0)
    was_drawn = list(drawn)
    torch.manual_seed(0)
    random.seed(5)
    assert debugged == classify(Effects(act), 2)
    assert drawn[len(was_drawn) :] == was_drawn


def test_a_training_that_goes_on_does_not_wait_for_the_trace() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("continue")

    debugged, _ = driven(lambda: classify(make_classifier()), person, trace=True)
    assert debugged == classify(make_classifier())
    assert "sonde-trace" not in {thread.name for thread in threading.enumerate()}
