"""What the page can show of a training: its graph, its tensors, kept values."""

from __future__ import annotations

import threading
from io import BytesIO

import numpy as np
import pytest
import torch
from tests.debugger.driving import TANH, Net, driven, make_net, train
from tests.debugger.hub import WAIT, Hub, RankConnection, watchpoint

from sonde.adapters.torch.attach import running_debugger
from sonde.core.keys import Io
from sonde.wire.questions import (
    AskCompare,
    AskFile,
    AskOp,
    AskSummary,
    AskTable,
    Compared,
    OpTensors,
    Summary,
    Table,
)
from sonde.wire.rank import StepDone
from sonde.wire.shapes import TensorName


@pytest.mark.document(
    233,
    says="node types: weight, gradient, activation, tensor",
    how="`Kind` in the node list; conditions of watchpoints are about one of them",
)
def test_the_graph_has_weights_gradients_and_activations() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step")
        rank.paused()
        rank.control("continue")

    _, rank = driven(lambda: train(make_net(), 2), person)
    nodes = rank.nodes(0)
    kinds = {name: node.categories[0] for name, node in nodes.items()}
    names = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
    assert [kinds[name] for name in names] == ["weight"] * 4
    assert [kinds[f"{name}.grad"] for name in names] == ["gradient"] * 4
    assert kinds[TANH] == "activation"
    assert [node.order for node in nodes.values()] == list(range(len(nodes)))
    for name in names:
        (edge,) = nodes[f"{name}.grad"].inputs
        assert edge.producer is not None
        assert nodes[edge.producer].phase == "backward"
    assert nodes[TANH].sources[0].code == "hidden: torch.Tensor = self.act(self.fc1(x))"


@pytest.mark.document(
    234,
    says="`Tensor Value Overview`: input nodes and outputs of a node, with `Type`, `Shape` and "
    "`Value`",
    how="the details of the selected op; `sonde ctl tensor OP`",
)
def test_the_tensors_of_the_op_where_it_stands_can_be_seen() -> None:
    net = make_net()
    seen: dict[str, np.ndarray] = {}
    net.act.register_forward_hook(
        lambda module, inputs, output: seen.update(
            input=np.array(inputs[0].tolist()), output=np.array(output.tolist())
        )
    )

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("to", op=TANH)
        rank.paused()
        output = rank.answer(TANH, AskTable("[:, :]"), Table)
        taken = rank.answer(TANH, AskTable("[:, :]"), Table, io="input")
        tensors = rank.answer(TANH, AskOp(), OpTensors)
        rank.control("to", op="Default/network-Net/fc2-Linear/")  # the hook runs only now
        rank.paused()
        assert np.array_equal(np.array(output.values), seen["output"].reshape(-1))
        assert np.array_equal(np.array(taken.values), seen["input"].reshape(-1))
        assert [(each.io, each.kept) for each in tensors.tensors] == [
            ("input", True),
            ("output", True),
        ]
        kept = rank.answer(TANH, AskTable("[0, 0:2]"), Table)
        assert kept.tensor.step == 0
        rank.control("continue")

    driven(lambda: train(net, 1), person)


def test_a_weight_is_compared_with_the_step_before() -> None:
    net = make_net()
    values: list[np.ndarray] = []

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.answer("fc2.weight", AskSummary(), Summary)  # from now on its last value is kept
        for _ in range(2):
            values.append(net.fc2.weight.detach().numpy().copy())
            rank.control("step")
            rank.paused()
        values.append(net.fc2.weight.detach().numpy().copy())
        (refused,) = rank.ask("fc2.weight", AskSummary(), step=0)
        assert refused.slug == "tensor-not-kept"
        before = TensorName("fc2.weight", step=1)
        compared = rank.answer("fc2.weight", AskCompare(before), Compared, step=2)
        expected = values[2].astype(np.float64) - values[1].astype(np.float64)
        assert np.array_equal(np.array(compared.difference.values), expected.reshape(-1))
        rank.control("continue")

    driven(lambda: train(net, 3), person)


def test_a_gradient_is_there_when_the_step_is_over() -> None:
    net = make_net()

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step")
        rank.paused()
        table = rank.answer("fc2.bias.grad", AskTable(), Table)
        assert net.fc2.bias.grad is not None
        assert np.array_equal(np.array(table.values, np.float32), net.fc2.bias.grad.numpy())
        assert table.tensor.step == 0
        (maker,) = rank.nodes(0)["fc2.bias.grad"].inputs
        assert maker.producer is not None
        same = rank.answer(maker.producer, AskTable(), Table, slot=maker.slot)
        assert same.values == table.values
        rank.control("continue")

    driven(lambda: train(net, 2), person)


def test_a_tensor_is_downloaded_whole() -> None:
    net = make_net()

    def person(rank: RankConnection) -> None:
        rank.paused()
        parts = rank.ask("fc1.weight", AskFile())
        assert [each.more for each in parts] == [True] * (len(parts) - 1) + [False]
        data = b"".join(each.body for each in parts)
        assert np.array_equal(np.load(BytesIO(data)), net.fc1.weight.detach().numpy())
        rank.control("terminate")

    driven(lambda: train(net, 2), person)


@pytest.mark.parametrize(
    ("op", "slug", "words"),
    [
        ("nonsense", "tensor-not-kept", "no op 'nonsense'"),
        (TANH, "tensor-not-kept", "run to this op"),
        ("fc1.weight", "tensor-index", "neither a number nor a slice"),
    ],
)
def test_what_cannot_be_answered_is_explained(op: str, slug: str, words: str) -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step")
        rank.paused()
        (answer,) = rank.ask(op, AskTable("[x]"))
        assert answer.slug == slug
        assert words in answer.error
        rank.control("terminate")

    driven(lambda: train(make_net(), 2), person)


def test_values_that_are_kept_are_there_for_so_many_steps() -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.keep("tanh", "fc1.bias", steps=2)
        rank.control("step", steps=4)
        rank.paused()
        tensors = rank.answer(TANH, AskOp(), OpTensors)
        (output,) = [each for each in tensors.tensors if each.io == "output"]
        assert output.steps == (2, 3)
        assert rank.answer("fc1.bias", AskSummary(), Summary, step=3).statistics is not None
        (gone,) = rank.ask("fc1.bias", AskSummary(), step=1)
        assert gone.slug == "tensor-not-kept"
        rank.control("terminate")

    driven(lambda: train(make_net(), 9), person)


def test_inputs_are_kept_with_their_op_as_they_were() -> None:
    addmm = "Default/network-Net/fc2-Linear/addmm-op0"
    weights: list[torch.Tensor] = []

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.keep(addmm, TANH, steps=2)
        rank.control("step", steps=4)
        rank.paused()
        tensors = rank.answer(addmm, AskOp(), OpTensors)
        assert [(each.io, each.steps) for each in tensors.tensors] == [
            ("input", (2, 3)),
            ("input", (2, 3)),
            ("input", (2, 3)),
            ("output", (2, 3)),
        ]
        tables = {
            (io, slot): rank.answer(addmm, AskTable(), Table, step=2, io=io, slot=slot)
            for io, slot in (("input", 1), ("input", 2))
        }
        hidden = rank.answer(TANH, AskTable(), Table, step=2)
        assert tables["input", 1].values == hidden.values
        assert tables["input", 2].values == tuple(weights[2].T.reshape(-1).tolist())
        rank.control("terminate")

    class Remembering(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights.append(self.fc2.weight.detach().clone())
            return super().forward(x)

    torch.manual_seed(0)
    net = Remembering()
    net.__class__.__name__ = "Net"
    driven(lambda: train(net, 9), person)


@pytest.mark.parametrize(
    ("op", "io", "slot", "words"),
    [
        ("fc1.weight", "input", 0, "fc1.weight has no input 0: it is a parameter without inputs"),
        ("fc1.weight", "output", 1, "fc1.weight has no output 1: it has 1 output, counted from 0"),
        (TANH, "input", 3, f"{TANH} has no input 3: it has 1 input, counted from 0"),
    ],
)
def test_an_input_that_an_op_does_not_have_is_said(op: str, io: Io, slot: int, words: str) -> None:
    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step")
        rank.paused()
        (answer,) = rank.ask(op, AskSummary(), io=io, slot=slot)
        assert answer.slug == "no-such-tensor"
        assert answer.error.startswith(words)
        rank.control("terminate")

    driven(lambda: train(make_net(), 2), person)


def test_a_question_while_it_runs_is_answered_when_a_step_ends() -> None:
    def person(rank: RankConnection) -> None:
        rank.wait(lambda: any(isinstance(each, StepDone) for each in rank.seen))
        summary = rank.answer("fc1.weight", AskSummary(), Summary)
        assert summary.type.shape == (16, 8)
        rank.control("terminate")

    driven(lambda: train(make_net(), 1_000_000), person, hub=Hub(paused=False))


def _two_networks(steps: int) -> None:
    torch.manual_seed(0)
    maker = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    critic = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    with torch.no_grad():
        critic[0].weight.fill_(7.0)
    optimizer = torch.optim.SGD([*maker.parameters(), *critic.parameters()], lr=0.0)
    for _ in range(steps):
        optimizer.zero_grad()
        critic(maker(torch.randn(16, 4))).mean().backward()
        optimizer.step()


def test_equal_names_of_two_networks_are_distinguished() -> None:
    other = "critic-Sequential.0.weight"

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.control("step")
        rank.paused()
        nodes = rank.nodes(0)
        assert {"0.weight", other, "0.weight.grad", f"{other}.grad"} <= nodes.keys()
        assert nodes["0.weight"].scope != nodes[other].scope
        assert rank.answer(other, AskSummary(), Summary).statistics.max == 7.0
        assert rank.answer("0.weight", AskSummary(), Summary).statistics.max < 1.0
        rank.watch(watchpoint(1, "weight_too_large", "0.weight", other, max_gt=6.0))
        rank.control("continue")
        rank.paused()
        rank.control("terminate")

    _, rank = driven(lambda: _two_networks(5), person)
    assert {hit.op for hit in rank.hits} == {other}


def summary_while_running(name: str, *watched: str) -> Summary:
    """The answer to a question that comes in the middle of step 4, between two ops."""

    def wait(step: int, hidden: torch.Tensor) -> torch.Tensor:
        if step == 4:
            is_there.set()
            debugging = running_debugger()
            assert debugging is not None
            assert debugging.debugger.session.wait()
        return hidden

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.watch(watchpoint(1, "expression", *watched, expression="max > 1e9"))
        rank.control("continue")
        assert is_there.wait(WAIT)
        answers.append(rank.answer(name, AskSummary(), Summary))

    is_there = threading.Event()
    answers: list[Summary] = []
    driven(lambda: train(make_net(wait), 6), person)
    return answers[0]


def test_a_running_training_answers_when_the_step_is_over_with_the_weights_of_the_next() -> None:
    weight = summary_while_running("fc1.weight", "nothing-op0")
    trained = make_net()
    train(trained, 5)
    assert weight.tensor.step == 5
    assert weight.statistics is not None
    assert weight.statistics.max == float(trained.fc1.weight.detach().max())
    assert summary_while_running("fc1.weight.grad", "nothing-op0").tensor.step == 4


def test_a_running_training_whose_ops_are_looked_at_answers_at_an_op() -> None:
    op = "Default/network-Net/fc2-Linear/addmm-op0"
    assert summary_while_running(op, op).tensor.step == 4
    assert summary_while_running("fc1.weight", op).tensor.step == 4
