"""Compiled code has the names, lines and values of eager code; the training is unchanged."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from tests.adapters.torch.compiled import compiled_trainings
from tests.adapters.torch.compiled.compiled_trainings import COMPILED, Plain, batch, fit
from tests.adapters.torch.watching import Watched, same, watch
from torch import nn

import sonde
from sonde.adapters.torch.compiled import variants as compiled_code

pytestmark = [
    pytest.mark.usefixtures("nothing_compiled"),
]


def train(name: str, backend: str) -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)
    return COMPILED[name](backend)


def problems(seen: Watched) -> list[str]:
    return [text for text in seen.reports if "compiled graph" not in text or "[" in text]


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_a_training_is_the_same_bit_for_bit_whichever_steps_are_observed(
    name: str, backend: str
) -> None:
    everything = ("all", "1|3", "99") if name in ("a_model", "a_whole_step") else ("1|3",)
    bare = train(name, backend)
    for steps in everything:
        torch._dynamo.reset()
        with watch(steps=steps) as seen:
            watched = train(name, backend)
        assert same(bare, watched)
        assert problems(seen) == []
        assert list(seen.steps) == {"all": [0, 1, 2, 3], "1|3": [1, 3], "99": []}[steps]


@pytest.mark.parametrize("name", ["a_model", "a_function", "graph_breaks", "a_transformer"])
def test_a_graph_that_runs_as_it_is_has_the_names_and_lines_of_eager_mode(name: str) -> None:
    with watch(compiled="eager") as eager:
        train(name, "eager")
    torch._dynamo.reset()
    with watch() as seen:
        train(name, "eager")
    for step in (1, 2, 3):
        assert seen.names(step) == eager.names(step)
        for one, other in zip(seen.graph(step).ops, eager.graph(step).ops, strict=True):
            assert (one.phase, one.source) == (other.phase, other.source)


def test_forward_and_backward_ops_of_an_aot_graph_have_scopes_phases_and_lines() -> None:
    with watch() as seen:
        train("a_model", "aot_eager")
    graph = seen.graph(1)
    root = "Default/network-Plain"
    line = inspect.getsourcelines(Plain.forward)[1] + 1
    for name, phase in {
        f"{root}/body-Sequential/0-Linear/addmm-op0": "forward",
        f"{root}/body-Sequential/1-LayerNorm/native_layer_norm-op0": "forward",
        f"{root}/relu-op0": "forward",
        f"{root}/head-Linear/addmm-op0": "forward",
        f"Gradients/{root}/head-Linear/mm-op0": "backward",
        f"Gradients/{root}/threshold_backward-op0": "backward",
        f"Gradients/{root}/body-Sequential/1-LayerNorm/native_layer_norm_backward-op0": "backward",
        f"Gradients/{root}/body-Sequential/0-Linear/mm-op0": "backward",
    }.items():
        node = graph.node(name)
        assert node.phase == phase
        assert node.source is not None
        assert (node.source.file, node.source.line) == (compiled_trainings.__file__, line)
        assert node.source.code == "return self.head(torch.relu(self.body(x)))"
    loss = next(node for node in graph.ops if node.type == "mse_loss")
    assert loss.inputs[0].producer == f"{root}/head-Linear/addmm-op0"
    weight = graph.node(f"{root}/head-Linear/t-op0").inputs[0].producer
    assert weight == "head.weight"
    caused = dict(graph.node(f"Gradients/{root}/threshold_backward-op0").attributes)
    assert caused["forward"] == f"{root}/relu-op0"
    frames = graph.node(f"{root}/relu-op0").sources
    assert [frame.function for frame in frames][:3] == ["forward", "fit", "a_model"]


def test_eager_ops_around_a_compiled_graph_are_in_order() -> None:
    with watch() as seen:
        train("graph_breaks", "aot_eager")
    names = [name.rpartition("/")[2] for name in seen.names(1)]
    wanted = ["randn-op0", "addmm-op0", "tanh-op0", "add-op0", "addmm-op0", "mse_loss-op0"]
    places = []
    for name in wanted:
        places.append(names.index(name, places[-1] + 1 if places else 0))
    assert places == sorted(places)
    orders = [call.order for call in seen.calls(1)]
    assert orders == sorted(orders)
    assert len(orders) == len(set(orders))


def test_a_recompilation_is_a_graph_of_its_own() -> None:
    with watch() as seen:
        train("recompilations", "aot_eager")
    first, again = seen.parts[1], seen.parts[2]
    assert len(first) == len(again) == 2  # forward and backward
    assert not {graph.id for graph in first} & {graph.id for graph in again}
    assert seen.parts[0] == first
    assert seen.parts[3] == again
    step = {node.name for node in seen.graph(1).ops}
    for graph in first:
        assert {node.name for node in graph.ops} <= step
    ids = {seen.graph(number).id for number in range(4)}
    assert not ids & {graph.id for graph in (*first, *again)}


def test_one_code_for_all_sizes_shows_each_step_its_own() -> None:
    with watch() as seen:
        train("dynamic_shapes", "aot_eager")
    name = "Default/network-Plain/relu-op0"
    assert [seen.call(name, step).outputs[0].shape[0] for step in range(4)] == [5, 6, 7, 8]
    assert len({graph.id for step in range(1, 4) for graph in seen.parts[step]}) == 2


def test_recomputed_activations_are_distinguished() -> None:
    with watch() as seen:
        train("activation_checkpointing", "aot_eager")
    names = set(seen.names(1))
    inside = "Default/network-Checkpointed/inside-Sequential"
    assert f"{inside}/1-Tanh/tanh-op0" in names
    assert f"recompute_{inside}/1-Tanh/tanh-op0" in names
    assert f"Gradients/{inside}/1-Tanh/tanh_backward-op0" in names


def test_the_ops_of_a_compiled_optimizer_are_the_optimizers() -> None:
    with watch() as seen:
        train("an_optimizer", "aot_eager")
    inside = [node for node in seen.graph(2).ops if node.scope == "Default/optimizer-Adam"]
    assert {"lerp", "addcdiv", "sqrt"} <= {node.type for node in inside}
    assert all(node.phase == "optimizer" for node in inside)


def test_an_input_that_is_an_earlier_output_has_its_token_and_its_bits() -> None:
    with watch() as seen:
        train("a_transformer", "aot_eager")
    tokens: dict[object, bytes] = {}
    shared = 0
    for call in seen.calls(1):
        pairs = [*zip(call.inputs, call.input_tokens, strict=True)]
        pairs += zip(call.outputs, call.output_tokens, strict=True)
        for value, token in pairs:
            if token is not None and value is not None:
                shared += token in tokens
                assert tokens.setdefault(token, value.tobytes()) == value.tobytes()
    assert shared > 200


def test_only_what_is_wanted_is_observed() -> None:
    with watch(ops=("relu",)) as seen:
        train("a_model", "aot_eager")
    assert [call.node.name for call in seen.calls(1)] == ["Default/network-Plain/relu-op0"]
    assert seen.reports == ["sonde: 1 of 6 ops in 1 compiled graph observed"]


def test_a_failure_of_sonde_does_not_affect_compiled_training(monkeypatch: Any) -> None:
    bare = train("a_model", "aot_eager")

    def broken(*_: Any) -> Any:
        raise RuntimeError("planted")

    monkeypatch.setattr(compiled_code, "insert", broken)
    torch._dynamo.reset()
    with watch() as seen:
        watched = train("a_model", "aot_eager")
    assert same(bare, watched)
    (report,) = seen.reports
    assert report == (
        "sonde: a compiled graph cannot be observed and runs as it is: RuntimeError: planted; "
        "--compiled eager may show it [compiled-unobserved]"
    )
    assert list(seen.steps) == [0, 1, 2, 3]


def test_observing_another_op_compiles_only_the_observed_code_again(monkeypatch: Any) -> None:
    made: list[frozenset[int]] = []
    original = compiled_code.CompiledCode._interpret

    def counted(self: Any, wanted: frozenset[int], *rest: Any) -> Any:
        made.append(wanted)
        return original(self, wanted, *rest)

    monkeypatch.setattr(compiled_code.CompiledCode, "_interpret", counted)
    with watch(steps="1-2|5") as seen:
        torch.manual_seed(0)
        net = Plain()
        run = torch.compile(net, backend="aot_eager")
        fit(run, net, batch, steps=7)
    assert list(seen.steps) == [1, 2, 5]
    assert len(made) == 2  # forward and backward, once


def test_code_compiled_before_the_capture_runs_eagerly_in_observed_steps() -> None:
    net = Plain()
    run = torch.compile(net, backend="aot_eager")
    x = torch.ones(2, 4)
    run(x)
    with watch(step_by="manual") as seen:
        run(x)
    assert "Default/network-Plain/relu-op0" in seen.names(0)
    (line,) = seen.reports
    assert line.startswith("sonde: 1 function or part of one was compiled before the capture began")
    assert line.endswith("[compiled-before]")


@pytest.mark.parametrize(("steps", "mode"), [("7", "observe"), ("0", "eager")])
def test_code_compiled_before_is_reported_only_if_it_matters(steps: str, mode: Any) -> None:
    net = Plain()
    run = torch.compile(net, backend="aot_eager")
    run(torch.ones(2, 4))
    with watch(steps=steps, compiled=mode, step_by="manual") as seen:
        run(torch.ones(2, 4))
    assert seen.reports == []


def test_code_compiled_before_that_does_not_run_is_not_reported() -> None:
    torch.compile(Plain(), backend="aot_eager")(torch.ones(2, 4))
    with watch(step_by="manual") as seen:
        Plain()(torch.ones(2, 4))
    assert seen.reports == []


def test_a_compiled_graph_without_ops_works() -> None:
    same_thing = torch.compile(lambda x: x, backend="aot_eager")
    with watch(step_by="manual") as seen:
        nn.Linear(2, 2)(same_thing(torch.ones(1, 2)))
    assert [node.type for node in seen.graph(0).ops][-2:] == ["t", "addmm"]


class Printing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.body(x))
        sonde.print("hidden", hidden, summary=True)
        result: torch.Tensor = self.head(hidden)
        return result


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_a_graph_that_prints_is_observed_without_its_printing(backend: str, capsys: Any) -> None:
    net = Printing()
    with watch() as seen:
        torch.compile(net, backend=backend, fullgraph=True)(torch.ones(2, 4)).sum().backward()
    assert problems(seen) == []
    assert capsys.readouterr().out.count("hidden") == 1
    names = seen.names(0)
    assert not [name for name in names if "print" in name or "effect" in name or "token" in name]
    root = "Default/network-Printing"
    assert f"{root}/head-Linear/addmm-op0" in names
    assert f"Gradients/{root}/body-Linear/mm-op0" in names
    assert seen.graph(0).node(f"{root}/body-Linear/t-op0").inputs[0].producer == "body.weight"
