"""Pairing parameters by name, by the other framework's name, by shape and order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.compare.parameter_names import is_trainable, renamed, role_of, tokens
from sonde.compare.weights.fit import Fit, fit
from sonde.compare.weights.pair import pair_parameters

MINDSPORE = {
    "conv1.weight": (4, 2, 3, 3),
    "conv1.bias": (4,),
    "bn1.moving_mean": (4,),
    "bn1.moving_variance": (4,),
    "bn1.gamma": (4,),
    "bn1.beta": (4,),
    "emb.embedding_table": (10, 4),
    "ln.gamma": (4,),
    "ln.beta": (4,),
    "fc.weight": (5, 96),
    "fc.bias": (5,),
}
TORCH = {
    "conv1.weight": (4, 2, 3, 3),
    "conv1.bias": (4,),
    "bn1.weight": (4,),
    "bn1.bias": (4,),
    "bn1.running_mean": (4,),
    "bn1.running_var": (4,),
    "bn1.num_batches_tracked": (),
    "emb.weight": (10, 4),
    "ln.weight": (4,),
    "ln.bias": (4,),
    "fc.weight": (5, 96),
    "fc.bias": (5,),
}
PAIRS = {
    "conv1.weight": "conv1.weight",
    "conv1.bias": "conv1.bias",
    "bn1.moving_mean": "bn1.running_mean",
    "bn1.moving_variance": "bn1.running_var",
    "bn1.gamma": "bn1.weight",
    "bn1.beta": "bn1.bias",
    "emb.embedding_table": "emb.weight",
    "ln.gamma": "ln.weight",
    "ln.beta": "ln.bias",
    "fc.weight": "fc.weight",
    "fc.bias": "fc.bias",
}


def pairs_of(a: dict[str, tuple[int, ...]], b: dict[str, tuple[int, ...]]) -> dict[str, str]:
    return {pair.a: pair.b for pair in pair_parameters(a, b).pairs}


@pytest.mark.document(
    182,
    says="gamma, beta, moving_mean, moving_variance are weight, bias, running_mean, running_var",
    how="`sonde params A B` pairs them; `sonde ckpt convert` renames them",
)
def test_the_names_of_the_document_are_paired_and_the_counter_is_left_out() -> None:
    found = pair_parameters(MINDSPORE, TORCH)
    assert {pair.a: pair.b for pair in found.pairs} == PAIRS
    assert found.is_complete
    assert found.counters == ("bn1.num_batches_tracked",)
    assert {pair.how for pair in found.pairs if pair.a == "bn1.gamma"} == {"other name"}
    assert all(pair.fit.is_plain for pair in found.pairs)


def test_pairing_is_symmetric() -> None:
    assert pairs_of(TORCH, MINDSPORE) == {b: a for a, b in PAIRS.items()}


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "_backbone.", "model.encoder.", "x."])
def test_a_prefix_that_all_names_of_a_side_have_does_not_matter(prefix: str) -> None:
    wrapped = {f"{prefix}{name}": shape for name, shape in TORCH.items()}
    assert pairs_of(MINDSPORE, wrapped) == {a: f"{prefix}{b}" for a, b in PAIRS.items()}


def test_a_module_moved_into_another_is_found_by_the_end_of_its_names() -> None:
    moved = dict(TORCH)
    moved["head.fc.weight"] = moved.pop("fc.weight")
    moved["head.fc.bias"] = moved.pop("fc.bias")
    found = pairs_of(MINDSPORE, moved)
    assert (found["fc.weight"], found["fc.bias"]) == ("head.fc.weight", "head.fc.bias")


def test_other_names_are_paired_by_shape_and_order() -> None:
    a = {
        "layer1.0.conv1.weight": (8, 3, 3, 3),
        "layer1.0.down_sample_layer.0.weight": (8, 3, 1, 1),
        "layer1.0.down_sample_layer.1.moving_mean": (8,),
        "layer1.0.down_sample_layer.1.gamma": (8,),
        "layer1.0.down_sample_layer.1.beta": (8,),
        "end_point.weight": (10, 8),
        "end_point.bias": (10,),
    }
    b = {
        "layer1.0.conv1.weight": (8, 3, 3, 3),
        "layer1.0.downsample.0.weight": (8, 3, 1, 1),
        "layer1.0.downsample.1.weight": (8,),
        "layer1.0.downsample.1.bias": (8,),
        "layer1.0.downsample.1.running_mean": (8,),
        "fc.weight": (10, 8),
        "fc.bias": (10,),
    }
    found = pair_parameters(a, b)
    assert found.is_complete
    assert {pair.a: pair.b for pair in found.pairs} == {
        "layer1.0.conv1.weight": "layer1.0.conv1.weight",
        "layer1.0.down_sample_layer.0.weight": "layer1.0.downsample.0.weight",
        "layer1.0.down_sample_layer.1.moving_mean": "layer1.0.downsample.1.running_mean",
        "layer1.0.down_sample_layer.1.gamma": "layer1.0.downsample.1.weight",
        "layer1.0.down_sample_layer.1.beta": "layer1.0.downsample.1.bias",
        "end_point.weight": "fc.weight",
        "end_point.bias": "fc.bias",
    }
    assert {pair.how for pair in found.pairs if pair.a.startswith("end")} == {"order"}


def test_missing_extra_and_misshaped_ones_are_listed_and_never_paired_with_others() -> None:
    b = dict(TORCH)
    del b["fc.bias"]
    b["fc.weight"] = (5, 100)
    b["extra.weight"] = (7, 7, 7, 7)
    found = pair_parameters(MINDSPORE, b)
    assert not found.is_complete
    assert found.only_a == ("fc.bias",)
    assert found.only_b == ("extra.weight",)
    (wrong,) = found.misshaped
    assert (wrong.a, wrong.b, wrong.shape_a, wrong.shape_b) == (
        *("fc.weight", "fc.weight"),
        *((5, 96), (5, 100)),
    )


def test_the_state_of_an_optimizer_is_kept_apart() -> None:
    names = {**MINDSPORE, "moments.fc.weight": (5, 96), "global_step": (1,), "learning_rate": ()}
    found = pair_parameters(names, TORCH)
    assert found.is_complete
    assert set(found.state_a) == {"moments.fc.weight", "global_step", "learning_rate"}
    assert role_of("moments.fc.weight", names) == "state"
    assert role_of("moments.other.weight", names) == "weight"


def test_lstm_weights_are_paired_under_either_spelling() -> None:
    shapes = {"weight_ih_l0": (16, 3), "weight_hh_l0": (16, 4), "bias_ih_l0": (16,)}
    torch = {f"lstm.{name}": shape for name, shape in shapes.items()}
    short = {
        "lstm.w_ih_l0": (16, 3),
        "lstm.w_hh_l0": (16, 4),
        "lstm.b_ih_l0": (16,),
    }
    assert pairs_of(torch, torch) == {name: name for name in torch}
    assert pairs_of(short, torch) == {
        "lstm.w_ih_l0": "lstm.weight_ih_l0",
        "lstm.w_hh_l0": "lstm.weight_hh_l0",
        "lstm.b_ih_l0": "lstm.bias_ih_l0",
    }


def test_a_flat_lstm_weight_is_paired_with_its_parts_in_their_order() -> None:
    torch = {
        "lstm.weight_ih_l0": (16, 3),
        "lstm.weight_hh_l0": (16, 4),
        "lstm.bias_ih_l0": (16,),
        "lstm.bias_hh_l0": (16,),
        "lstm.weight_ih_l1": (16, 4),
        "lstm.weight_hh_l1": (16, 4),
        "lstm.bias_ih_l1": (16,),
        "lstm.bias_hh_l1": (16,),
    }
    total = 16 * (3 + 4 + 1 + 1 + 4 + 4 + 1 + 1)
    found = pair_parameters({"rnn.weight": (total, 1, 1)}, torch)
    assert found.is_complete
    (flat,) = found.flat
    assert flat.flat_is_a
    assert flat.parts == (
        "lstm.weight_ih_l0",
        "lstm.weight_hh_l0",
        "lstm.weight_ih_l1",
        "lstm.weight_hh_l1",
        "lstm.bias_ih_l0",
        "lstm.bias_hh_l0",
        "lstm.bias_ih_l1",
        "lstm.bias_hh_l1",
    )
    assert pair_parameters(torch, {"rnn.weight": (total, 1, 1)}).flat[0].flat_is_a is False


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((3, 4), (3, 4), Fit()),
        ((3, 4), (4, 3), Fit((1, 0))),
        ((8, 3, 5, 5), (8, 5, 5, 3), Fit((0, 3, 1, 2))),
        ((8, 5, 5, 3), (8, 3, 5, 5), Fit((0, 2, 3, 1))),
        ((8, 3, 5, 5), (5, 5, 3, 8), Fit((3, 2, 0, 1))),
        ((8, 3, 1, 5), (8, 3, 5), Fit(reshaped=True)),
        ((8, 3, 1, 1), (8, 3), Fit(reshaped=True)),
        ((3, 4), (2, 6), None),
        ((3, 4), (12,), None),
        ((), (1,), Fit(reshaped=True)),
    ],
)
def test_shapes_fit_in_the_ways_frameworks_lay_weights_out(
    a: tuple[int, ...], b: tuple[int, ...], expected: Fit | None
) -> None:
    assert fit(a, b) == expected


def test_transposed_weights_are_paired_and_say_so() -> None:
    a = {"c_attn.weight": (8, 24), "c_attn.bias": (24,)}
    b = {"c_attn.weight": (24, 8), "c_attn.bias": (24,)}
    found = pair_parameters(a, b)
    assert found.is_complete
    assert str(found.pairs[0].fit) == "transposed"


names = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "layer.0", "layer.1", "deep.er.x"]),
        st.sampled_from(["weight", "bias", "gamma", "beta", "moving_mean", "thing"]),
    ).map(".".join),
    unique=True,
    max_size=8,
)
shapes = st.lists(st.integers(1, 4), max_size=3).map(tuple)


@given(st.data(), names, names)
def test_every_parameter_is_named_exactly_once_whatever_the_names(
    data: st.DataObject, left: list[str], right: list[str]
) -> None:
    a = {name: data.draw(shapes) for name in left}
    b = {name: data.draw(shapes) for name in right}
    found = pair_parameters(a, b)
    seen_a = [pair.a for pair in found.pairs] + [each.a for each in found.misshaped]
    seen_b = [pair.b for pair in found.pairs] + [each.b for each in found.misshaped]
    seen_a += [*found.only_a, *found.state_a]
    seen_b += [*found.only_b, *found.state_b]
    assert sorted(seen_a) == sorted(a)
    assert sorted(seen_b) == sorted(b)
    for pair in found.pairs:
        assert fit(a[pair.a], b[pair.b]) is not None


@given(names, st.integers(0, 2**32))
def test_a_network_pairs_with_itself_in_any_order(left: list[str], seed: int) -> None:
    chance = random.Random(seed)
    a = {name: (chance.randrange(1, 5),) for name in left}
    shuffled = list(a.items())
    chance.shuffle(shuffled)
    assert pairs_of(a, dict(shuffled)) == {name: name for name in a}


def test_a_large_network_with_other_names_is_paired_in_bounded_time() -> None:
    a = {f"a{k}.weight": (k % 7 + 1, 3) for k in range(20_000)}
    b = {f"b{k}.weight": (k % 7 + 1, 3) for k in range(20_000)}
    found = pair_parameters(a, b)
    assert found.is_complete
    assert [(pair.a, pair.b) for pair in found.pairs[:2]] == [
        ("a0.weight", "b0.weight"),
        ("a1.weight", "b1.weight"),
    ]


@pytest.mark.document(
    183,
    says="MindSpore does not have parameters corresponding to `num_batches_tracked`",
    how="left out of pairs and conversions, and that is said",
)
def test_renaming_goes_both_ways_and_counters_have_no_counterpart() -> None:
    there = renamed(TORCH, "mindspore")
    assert {old: new for old, new in there.items() if new is not None} == {
        b: a for a, b in PAIRS.items()
    }
    assert there["bn1.num_batches_tracked"] is None
    assert renamed(MINDSPORE, "torch") == PAIRS
    kept = renamed(TORCH, "mindspore", keep_counters=True)
    assert kept["bn1.num_batches_tracked"] == "bn1.num_batches_tracked"


def test_a_linear_layer_without_bias_is_no_embedding() -> None:
    shapes = {"lm_head.weight": (100, 8), "wte.weight": (100, 8), "prelu.weight": (1,)}
    assert renamed(shapes, "mindspore") == {
        "lm_head.weight": "lm_head.weight",
        "wte.weight": "wte.embedding_table",
        "prelu.weight": "prelu.weight",
    }


@pytest.mark.document(
    181,
    says="`requires_grad=False` or `buffer` is used for PyTorch untrainable parameters",
    how="column `train` of `sonde params`: buffers and counters are not trainable",
)
def test_roles_and_trainability_are_derived_from_names() -> None:
    for name, role, trainable in (
        ("bn1.gamma", "weight", True),
        ("bn1.moving_mean", "buffer", False),
        ("bn1.running_var", "buffer", False),
        ("bn1.num_batches_tracked", "counter", False),
        ("lstm.weight_ih_l0", "weight", True),
        ("temperature", "weight", None),
        ("global_step", "state", False),
    ):
        assert role_of(name, {name}) == role
        assert is_trainable(name, role) is trainable


def test_names_without_parts_are_accepted() -> None:
    assert tokens("") == ("",)
    assert tokens("...") == ("...",)
    assert pair_parameters({"": (1,), ".": (2,)}, {"": (1,), ".": (2,)}).is_complete


def test_a_name_of_endless_parts_costs_nothing() -> None:
    name = ".".join(["a"] * 200_000)
    assert len(tokens(name)) == 64
    assert pair_parameters({name: (1,)}, {f"x.{name}": (1,)}).is_complete
