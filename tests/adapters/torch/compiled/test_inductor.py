"""Values observed in Inductor's kernels equal a re-computation; the training is unchanged."""

from __future__ import annotations

import ast
import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.compiled.compiled_trainings import COMPILED, Plain, batch, fit
from tests.adapters.torch.dumping import arrays, config
from tests.adapters.torch.watching import Seen, Watched, same, watch

from sonde.adapters.torch.attach import attach

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("nothing_compiled"),
]

# Kernels keep intermediate values in registers and add in another order than torch's ops.
TOLERANCE = {"rtol": 2e-4, "atol": 2e-5}
# Asked for by the compiler only: as an op of its own it takes other shapes.
NOT_BY_HAND = {"_unsafe_masked_index_put_accumulate"}


def value_of(text: str) -> Any:
    if text.startswith("torch."):
        return getattr(torch, text.removeprefix("torch."))
    if text.startswith("device("):
        return torch.device("cpu")
    return ast.literal_eval(text.replace("inf", "1e999"))


def again(call: Seen) -> list[np.ndarray[Any, Any]] | None:
    """The op by hand, from its observed inputs and its arguments; None if it is random."""
    node = call.node
    namespace, name = ("prims", node.type[6:]) if node.type.startswith("prims_") else ("aten", "")
    packet = getattr(getattr(torch.ops, namespace), name or node.type)
    errors = []
    for overload in [getattr(packet, each) for each in packet.overloads()]:
        tensors = [torch.from_numpy(np.array(each)) for each in call.inputs if each is not None]
        try:
            return _called(overload, tensors, dict(call.attributes), len(node.outputs))
        except (RuntimeError, TypeError, LookupError, ValueError, SyntaxError) as error:
            errors.append(f"{overload}: {error}")
    raise AssertionError(f"{node.name}: {errors}")


def _called(
    overload: Any, left: list[torch.Tensor], given: dict[str, str], outputs: int
) -> list[np.ndarray[Any, Any]]:
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    schema = overload._schema.arguments
    for position, argument in enumerate(schema):
        kind = str(argument.type)
        if argument.name in given:
            value = value_of(given.pop(argument.name))
        elif "List[Tensor]" in kind or "Tensor[]" in kind:
            later = sum("Tensor" in str(other.type) for other in schema[position + 1 :])
            count = len(left) - later
            value, left = left[:count], left[count:]
        elif "Tensor" in kind and left:
            value = left.pop(0)
        elif argument.has_default_value():
            value = argument.default_value
        else:
            raise LookupError(argument.name)
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            arguments.append(value)
    if left or given:
        raise LookupError("left over")
    made = overload(*arguments, **keywords)
    several = made if isinstance(made, (list, tuple)) else (made,)
    results = [each for each in several if isinstance(each, torch.Tensor)]
    if len(results) != outputs:
        raise LookupError("another overload")
    return [each.detach().numpy() for each in results]


def check_against_recomputation(seen: Watched, step: int) -> int:
    """Every op of compiled graphs of ``step`` computes what its inputs say; how many there are."""
    inside = {node.name for part in seen.parts[step] for node in part.ops}
    checked = 0
    for call in seen.calls(step):
        if call.node.name not in inside or any(each is None for each in call.inputs):
            continue
        if len(call.inputs) != len(call.node.inputs) or call.node.type in NOT_BY_HAND:
            continue
        for made, found in zip(again(call) or (), call.outputs, strict=False):
            assert found is not None
            assert made.shape == found.shape, call.node.name
            np.testing.assert_allclose(found, made, **TOLERANCE, err_msg=call.node.name)
        checked += 1
    return checked


def trained(train: Callable[[], Any], **options: Any) -> tuple[Any, Watched]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with watch(**options) as seen:
        result = train()
    return result, seen


def alone(train: Callable[[], Any]) -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)
    return train()


@pytest.mark.parametrize(("name", "ops"), [("a_cnn_with_batch_norm", 75), ("a_model", 40)])
def test_every_observed_value_can_be_recomputed_from_its_inputs(name: str, ops: int) -> None:
    _, seen = trained(lambda: COMPILED[name]("inductor"))
    assert check_against_recomputation(seen, 1) >= ops
    orders = [call.order for call in seen.calls(1)]
    assert orders == sorted(orders)
    assert len([text for text in seen.reports if "[" in text]) == 0


def tiny_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=16,
            hidden_size=8,
            intermediate_size=12,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=8,
        )
    )


def test_every_observed_value_of_a_model_library_is_what_its_inputs_make() -> None:
    def train() -> Any:
        net = tiny_llama()
        run = torch.compile(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        words = torch.randint(16, (2, 6))
        run(input_ids=words, labels=words).loss.backward()
        optimizer.step()

    _, seen = trained(train)
    assert check_against_recomputation(seen, 0) > 100


def test_a_training_of_which_nothing_is_selected_is_the_same_bit_for_bit() -> None:
    train = COMPILED["a_cnn_with_batch_norm"]
    bare = alone(lambda: train("inductor"))
    far, _ = trained(lambda: train("inductor"), steps="99")
    none, _ = trained(lambda: train("inductor"), ops=("name-regex(nothing)",))
    assert same(bare, far)
    assert same(bare, none)


def test_a_training_with_all_ops_observed_in_some_steps_is_the_same_bit_for_bit() -> None:
    bare = alone(lambda: COMPILED["a_model"]("inductor"))
    some, seen = trained(lambda: COMPILED["a_model"]("inductor"), steps="1|3")
    assert same(bare, some)
    assert list(seen.steps) == [1, 3]


class Split(torch.nn.Module):
    """Saves a part of a larger tensor for backward."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = torch.nn.Linear(4, 12)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two, three = self.wide(x).split(4, dim=-1)
        return self.head(one @ two.transpose(-1, -2) @ three)


def test_inputs_of_backward_have_the_expected_strides() -> None:
    def train() -> Any:
        net = Split()

        def make(_: int) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.randn(2, 4, 4), torch.randn(2, 4, 2)

        return fit(torch.compile(net), net, make)

    bare = alone(train)
    for steps in ("1|3", "0"):
        made, seen = trained(train, steps=steps)
        assert torch.allclose(bare[1][0], made[1][0], rtol=1e-5)
        assert len(seen.steps) == len(steps.split("|"))


def test_the_parts_that_a_layer_norm_became_are_selected_by_its_name() -> None:
    _, seen = trained(
        lambda: COMPILED["a_model"]("inductor"), steps="1", ops=("native_layer_norm",)
    )
    types = {call.node.type for call in seen.calls(1) if call.node.phase == "forward"}
    assert {"var_mean", "rsqrt", "mul"} <= types
    assert all("1-LayerNorm" in call.node.name for call in seen.calls(1))


def test_interpreted_code_shows_every_op_of_the_graph() -> None:
    bare = alone(lambda: COMPILED["a_model"]("inductor"))
    made, seen = trained(lambda: COMPILED["a_model"]("inductor"), steps="2", compiled="interpret")
    assert torch.allclose(bare[1][0], made[1][0], rtol=1e-4)
    inside = {node.name for part in seen.parts[2] for node in part.ops}
    assert inside <= {call.node.name for call in seen.calls(2)}
    assert seen.reports[-1].endswith("differ in the last bits from the compiled code's")


def test_interpreted_dropout_is_the_same_in_forward_and_backward() -> None:
    def train() -> list[Any]:
        net = torch.nn.Sequential(torch.nn.Linear(4, 64, bias=False), torch.nn.Dropout(0.5))
        run = torch.compile(net)
        x = torch.ones(1, 4)
        out = run(x)
        out.sum().backward()
        gradient = net[0].weight.grad
        assert gradient is not None
        return [(out != 0).flatten(), (gradient[:, 0] != 0)]

    (kept, moved), _ = trained(train, compiled="interpret", step_by="manual")
    assert 10 < int(kept.sum()) < 54
    assert torch.equal(kept, moved)


def test_statistics_of_compiled_ops_are_those_of_the_dumped_tensors(tmp_path: Path) -> None:
    for kind in ("tensors", "statistics"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        changes = {} if kind == "tensors" else {"saved_data": "statistic"}
        made = config(tmp_path / kind, steps="1", **changes)
        with attach(made, starts_at_once=True):
            net = Plain()
            fit(torch.compile(net), net, batch, steps=2)
    values = arrays(tmp_path / "tensors")
    (path,) = (tmp_path / "statistics").rglob("statistic.csv")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    checked = 0
    for row in rows:
        value = values[(1, row["Op Name"], row["IO"], int(row["Slot"]))]
        if "Float" in row["Data Type"]:
            exact = value.astype(np.float64)
            assert float(row["Max Value"]) == exact.max()
            assert float(row["Min Value"]) == exact.min()
            assert float(row["Avg Value"]) == pytest.approx(exact.mean(), rel=1e-9, abs=1e-12)
            norm = np.linalg.norm(exact.ravel())
            assert float(row["L2Norm Value"]) == pytest.approx(norm, rel=1e-9)
            checked += 1
    assert checked > 120
    assert len(rows) == len(values)
