"""What the recommended watchpoints look at, and what they leave alone."""

from __future__ import annotations

import pytest

from sonde.conditions import RECOMMENDED
from sonde.debugger.starting_set import recommended_draft
from sonde.debugger.watches import Pattern

DRAFTS = {each.condition: recommended_draft(each) for each in RECOMMENDED}


def looks_at(condition: str, name: str) -> bool:
    (text,) = DRAFTS[condition].ops
    return Pattern.parse(text).matches(name, "", "", is_leaf="/" not in name)


@pytest.mark.parametrize(
    "name", ["fc.bias", "bias", "attention.in_proj_bias", "lstm.bias_ih_l0", "norm.beta"]
)
def test_biases_may_start_as_zeros(name: str) -> None:
    assert not looks_at("weight_initialization", name)


@pytest.mark.parametrize("name", ["fc.weight", "embedding.weight", "lstm.weight_ih_l0", "scale"])
def test_other_weights_may_not(name: str) -> None:
    assert looks_at("weight_initialization", name)


@pytest.mark.parametrize(
    "op", ["zeros-op0", "zeros_like-op12", "new_zeros-op1", "zero_-op3", "_foreach_zero_-op0"]
)
def test_ops_that_make_zeros_may(op: str) -> None:
    assert not looks_at("tensor_all_zero", f"Default/network-Net/{op}")


@pytest.mark.parametrize(
    "name", ["bn.num_batches_tracked", "data-1", "Default/optimizer-Adam/mul_-op0"]
)
def test_counters_inputs_and_optimizer_state_may(name: str) -> None:
    assert not looks_at("tensor_all_zero", name)


@pytest.mark.parametrize("op", ["select-op0", "t-op3", "split_with_sizes-op0", "_unsafe_view-op1"])
def test_ops_that_only_hand_on_zeros_may(op: str) -> None:
    assert not looks_at("tensor_all_zero", f"Default/network-Net/rnn-LSTM/{op}")


@pytest.mark.parametrize(
    "op",
    [
        "relu-op0",
        "tanh-op0",
        "select_backward-op0",
        "view_as_complex-op0",
        "mul-op3",
        "threshold_backward-op1",
    ],
)
def test_other_ops_may_not(op: str) -> None:
    assert looks_at("tensor_all_zero", f"Default/network-Net/{op}")
