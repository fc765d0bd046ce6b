"""Checkpoints compared, checked and converted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from tests.compare.weights.weights import CHECKPOINTS, awkward, checkpoint, eighths

from sonde.adapters.torch.checkpoints.files import read_torch, write_torch
from sonde.compare.weights.check import check_checkpoint
from sonde.compare.weights.checkpoint import Checkpoint, same_bits
from sonde.compare.weights.convert import Format, convert, new_names
from sonde.compare.weights.diff import diff_checkpoints
from sonde.compare.weights.files import open_checkpoint
from sonde.compare.weights.formats.mindspore import read_mindspore, write_mindspore
from sonde.compare.weights.formats.safetensors import read_safetensors, write_safetensors
from sonde.compare.weights.table import compare_parameters, list_parameters
from sonde.core.errors import UsageError
from sonde.core.files.mindspore_ckpt import CheckpointError

TWINS = Path(__file__).parents[1] / "data" / "bn_twins"
MINDSPORE = Format(write_mindspore, read_mindspore)
SAFETENSORS = Format(write_safetensors, read_safetensors)
TORCH = Format(write_torch, read_torch)


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.ModuleDict(
        {
            "conv": torch.nn.Conv2d(1, 2, 3),
            "bn": torch.nn.BatchNorm2d(2),
            "norm": torch.nn.LayerNorm(4),
            "embedding": torch.nn.Embedding(5, 4),
            "lstm": torch.nn.LSTM(3, 4),
            "fc": torch.nn.Linear(4, 3),
        }
    )


def saved(module: torch.nn.Module, path: Path) -> Checkpoint:
    torch.save(module.state_dict(), path)
    return read_torch(path)


def test_a_network_goes_to_mindspore_and_back_and_loads_strictly(tmp_path: Path) -> None:
    source = saved(net(), tmp_path / "a.pt")
    names = new_names(source, "mindspore")
    done = convert(source, tmp_path / "b.ckpt", MINDSPORE, names)
    assert done.dropped == ("bn.num_batches_tracked",)
    assert done.renamed == {
        "bn.weight": "bn.gamma",
        "bn.bias": "bn.beta",
        "bn.running_mean": "bn.moving_mean",
        "bn.running_var": "bn.moving_variance",
        "norm.weight": "norm.gamma",
        "norm.bias": "norm.beta",
        "embedding.weight": "embedding.embedding_table",
    }
    there = read_mindspore(tmp_path / "b.ckpt")
    convert(there, tmp_path / "c.pt", TORCH, new_names(there, "torch"))
    back = torch.load(tmp_path / "c.pt", weights_only=True)
    fresh = net()
    for parameter in fresh.parameters():
        parameter.data.zero_()
    fresh.load_state_dict(back, strict=True)
    for name, tensor in net().state_dict().items():
        assert torch.equal(fresh.state_dict()[name], tensor), name


def test_values_survive_every_conversion_bit_by_bit(tmp_path: Path) -> None:
    source = Checkpoint(Path("made"), "numpy", awkward())
    whole = Checkpoint(Path("made"), "numpy", awkward() | eighths())
    for name, format, start in (
        ("a.ckpt", MINDSPORE, source),
        ("a.safetensors", SAFETENSORS, whole),
        ("a.pt", TORCH, whole),
    ):
        convert(start, tmp_path / name, format, new_names(start, "keep"))
        found = format.read(tmp_path / name)
        assert found.weights.keys() == start.weights.keys()
        assert all(same_bits(found.weights[key], start.weights[key]) for key in start.weights)


@given(
    st.dictionaries(
        st.text("abc.", min_size=1, max_size=6),
        hnp.arrays(
            st.sampled_from([np.float32, np.float16, np.int64, np.bool_]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        ),
        min_size=1,  # a file of no weights is taken for a damaged one
        max_size=4,
    )
)
def test_any_arrays_come_back_the_same_from_any_format(
    tmp_path_factory: pytest.TempPathFactory, arrays: Mapping[str, NDArray[Any]]
) -> None:
    directory = tmp_path_factory.mktemp("any")
    source = checkpoint(arrays)
    for number, format in enumerate((MINDSPORE, SAFETENSORS, TORCH)):
        path = directory / f"{number}.bin"
        convert(source, path, format, new_names(source, "keep"))
        found = format.read(path).weights
        assert found.keys() == arrays.keys()
        assert all(same_bits(found[name], source.weights[name]) for name in arrays)


def test_a_type_the_format_has_not_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    source = Checkpoint(Path("made"), "numpy", eighths())
    with pytest.raises(CheckpointError, match="cannot hold float8_e4m3fn; use --to safetensors"):
        convert(source, tmp_path / "a.ckpt", MINDSPORE, new_names(source, "keep"))
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    source = checkpoint({"w": np.ones(2, np.float32)})
    target = tmp_path / "a.ckpt"
    target.write_text("mine")
    names = new_names(source, "keep")
    with pytest.raises(UsageError, match="exists; --force replaces it"):
        convert(source, target, MINDSPORE, names)
    assert target.read_text() == "mine"
    convert(source, target, MINDSPORE, names, replace_existing=True)
    again = read_mindspore(target)
    with pytest.raises(UsageError, match="is the file to be converted"):
        convert(again, target, MINDSPORE, names, replace_existing=True)
    with pytest.raises(CheckpointError, match="is a directory"):
        convert(source, tmp_path, MINDSPORE, names, replace_existing=True)
    with pytest.raises(CheckpointError, match="cannot be written"):
        convert(source, tmp_path / "no" / "a.ckpt", MINDSPORE, names)
    assert [path.name for path in tmp_path.iterdir()] == ["a.ckpt"]


def test_a_file_that_differs_when_read_back_is_never_renamed(tmp_path: Path) -> None:
    source = checkpoint({"w": np.ones(2, np.float32)})
    broken = Format(write_mindspore, lambda path: checkpoint({"w": np.zeros(2, np.float32)}))
    with pytest.raises(CheckpointError, match="was not read back as it was written"):
        convert(source, tmp_path / "a.ckpt", broken, new_names(source, "keep"))
    assert list(tmp_path.iterdir()) == []


def test_the_map_of_names_wins_and_two_weights_never_share_a_name() -> None:
    source = checkpoint({"a.weight": np.ones((2, 2)), "b": np.ones(1)})
    assert new_names(source, "keep", given={"b": "c"}) == {"a.weight": "a.weight", "b": "c"}
    with pytest.raises(UsageError, match="would both be called 'b'"):
        new_names(source, "keep", given={"a.weight": "b"})
    with pytest.raises(UsageError, match="has no weight 'x'"):
        new_names(source, "keep", given={"x": "y"})


def test_a_diff_says_what_changed_how_much_and_what_did_not() -> None:
    a = {
        "fc.weight": np.array([[3.0, 4.0]]),
        "fc.bias": np.array([1.0]),
        "frozen.weight": np.ones((2, 2)),
        "bad.weight": np.array([1.0, 2.0]),
        "zero": np.array([0.0]),
    }
    b = {
        **a,
        "fc.weight": np.array([[3.0, 4.5]]),
        "bad.weight": np.array([np.nan, np.inf]),
        "zero": np.array([-0.0]),
        "new": np.ones(1),
    }
    found = diff_checkpoints(checkpoint(a), checkpoint(b))
    by_name = {each.pair.a: each for each in found.changes}
    assert by_name["fc.weight"].relative == pytest.approx(0.5 / 5, rel=1e-12)
    assert by_name["fc.weight"].distances.max_abs_error == 0.5
    assert by_name["bad.weight"].non_finite_b == 2
    assert not by_name["zero"].is_same, "another bit"
    assert {name for name, each in by_name.items() if each.is_same} == {"fc.bias", "frozen.weight"}
    assert [each.pair.a for each in found.stuck] == ["fc.bias", "frozen.weight"]
    assert found.pairing.only_b == ("new",)
    assert not found.is_same
    assert diff_checkpoints(checkpoint(b), checkpoint(b)).is_same


def test_a_diff_across_frameworks_sees_the_same_values_as_equal(tmp_path: Path) -> None:
    a = open_checkpoint(CHECKPOINTS / "bn_compare_init.ckpt", read_torch)
    convert(a, tmp_path / "b.pt", TORCH, new_names(a, "torch"))
    b = read_torch(tmp_path / "b.pt")
    assert "bn1.running_var" in b.weights
    assert diff_checkpoints(a, b).is_same
    final = open_checkpoint(CHECKPOINTS / "bn_compare_final.ckpt", read_torch)
    changed = diff_checkpoints(b, final)
    assert not any(each.is_same for each in changed.changes)
    assert "moments.fc.weight" in changed.pairing.state_b


def rules(arrays: Mapping[str, NDArray[Any]]) -> set[tuple[str, str, str]]:
    findings = check_checkpoint(checkpoint(arrays))
    return {(str(each.evidence["name"]), each.rule, each.severity) for each in findings}


@pytest.mark.document(
    100,
    says="abnormal weight",
    how="`sonde ckpt check FILE`; conditions weight_too_large, weight_not_changed, "
    "weight_initialization, ...",
)
def test_a_check_finds_what_is_wrong_and_leaves_the_rest_alone() -> None:
    chance = np.random.default_rng(0)

    def he(*shape: int) -> NDArray[np.float32]:
        fan_in = int(np.prod(shape[1:]))
        return (chance.normal(size=shape) * np.sqrt(2 / fan_in)).astype(np.float32)

    dead = he(8, 30)
    dead[[2, 5]] = 0
    padded = chance.normal(size=(9, 8)).astype(np.float32)
    padded[0] = 0
    assert rules(
        {
            "good.weight": he(16, 9, 3, 3),
            "good.bias": np.zeros(16, np.float32),
            "bn.gamma": np.ones(4, np.float32),
            "bn.moving_mean": np.zeros(4, np.float32),
            "bn.moving_variance": np.ones(4, np.float32),
            "zero_gamma.gamma": np.zeros(4, np.float32),
            "nan.weight": np.array([[1, np.nan]], np.float32),
            "inf.bias": np.array([np.inf, 1], np.float32),
            "zeros.weight": np.zeros((4, 4), np.float32),
            "same.weight": np.full((4, 4), 0.1, np.float32),
            "dead.weight": dead,
            "embedding.weight": padded,
            "wide.weight": chance.normal(size=(64, 100)).astype(np.float32),
            "narrow.weight": he(64, 100) / 100,
            "shifted.weight": he(64, 100) + 1,
            "neg.running_var": np.array([1, -0.1], np.float32),
            "huge.bias": np.array([40000.0, 1], np.float16),
            "moments.zeros.weight": np.zeros((4, 4), np.float32),
            "steps.num_batches_tracked": np.array(0),
        }
    ) == {
        ("zero_gamma.gamma", "zero-init", "info"),
        ("nan.weight", "weight-not-finite", "error"),
        ("inf.bias", "weight-not-finite", "error"),
        ("zeros.weight", "zero-init", "warning"),
        ("same.weight", "constant-init", "warning"),
        ("dead.weight", "dead-rows", "warning"),
        ("embedding.weight", "dead-rows", "info"),
        ("wide.weight", "initial-spread", "warning"),
        ("narrow.weight", "initial-spread", "warning"),
        ("shifted.weight", "initial-mean", "warning"),
        ("neg.running_var", "negative-variance", "error"),
        ("huge.bias", "large-weight", "warning"),
    }


def test_the_networks_torch_and_mindspore_initialize_pass_the_check(tmp_path: Path) -> None:
    source = saved(net(), tmp_path / "a.pt")
    assert check_checkpoint(source) == ()
    init = open_checkpoint(CHECKPOINTS / "bn_compare_init.ckpt", read_torch)
    assert [each.rule for each in check_checkpoint(init)] == []


def test_the_nan_weights_of_a_real_run_are_counted() -> None:
    found = check_checkpoint(open_checkpoint(CHECKPOINTS / "nan_log_final.ckpt", read_torch))
    assert {each.evidence["name"]: each.evidence["count"] for each in found} == {
        "fc1.weight": 24,
        "fc1.bias": 4,
        "fc2.weight": 24,
        "fc2.bias": 3,
    }


def test_parameters_are_listed_with_their_numbers_and_compared() -> None:
    a = checkpoint({"fc.weight": np.array([[1.0, 2], [3, 4]]), "fc.bias": np.array([0.5])})
    rows = list_parameters(a)
    assert rows["fc.weight"].numbers["avg"] == 2.5
    assert rows["fc.weight"].numbers["std"] == pytest.approx(np.std([1, 2, 3, 4]))
    turned = checkpoint({"fc.weight": np.array([[1.0, 3], [2, 4]]), "fc.bias": np.array([0.5])})
    compared = compare_parameters(a, turned)
    weight, bias = compared.rows
    assert (weight.is_same, str(weight.hidden)) == (False, "transposed")
    assert bias.is_same is True
    chance = np.random.default_rng(1)
    narrow = checkpoint({"w": chance.normal(size=400) * 0.02})
    wide = checkpoint({"w": chance.normal(size=400) * 0.1})
    (row,) = compare_parameters(narrow, wide).rows
    assert row.notes[0].startswith("other spread: std 0.0")
    other = checkpoint({"w": chance.normal(size=400) * 0.1})
    assert compare_parameters(wide, other).rows[0].notes == ()


def test_a_flat_lstm_is_compared_with_its_parts(tmp_path: Path) -> None:
    module = torch.nn.LSTM(3, 4, num_layers=2)
    parts = saved(torch.nn.ModuleDict({"lstm": module}), tmp_path / "a.pt")
    weights = [getattr(module, name) for name in module._flat_weights_names]
    matrices = [each for each in weights if each.dim() == 2]
    biases = [each for each in weights if each.dim() == 1]
    whole = torch.cat([each.detach().reshape(-1) for each in (*matrices, *biases)]).numpy()
    flat = checkpoint({"rnn.weight": whole.reshape(-1, 1, 1)})
    ((found, distances),) = compare_parameters(flat, parts).flat
    assert found.flat == "rnn.weight"
    assert distances is not None
    assert distances.is_equal


@pytest.mark.parametrize("twin", ["ok", "wrong_eps", "wrong_momentum"])
def test_the_weights_of_a_mindspore_run_and_of_its_torch_ports_differ_as_known(twin: str) -> None:
    """The numbers were computed with numpy alone, when the runs were made."""
    expected = json.loads((TWINS / "expected.json").read_text())[twin]
    a = open_checkpoint(CHECKPOINTS / "bn_compare_final.ckpt", read_torch)
    found = diff_checkpoints(a, open_checkpoint(TWINS / f"{twin}.npz", read_torch))
    assert found.pairing.is_complete
    assert len(found.pairing.counters) == 2
    measured = {
        each.pair.b: each.distances.max_abs_error
        for each in found.changes
        if each.distances is not None
    }
    assert measured == expected
    apart = {name for name, error in measured.items() if error > 1e-4}
    if twin == "ok":
        assert not apart
    if twin == "wrong_momentum":
        assert apart == {
            f"{norm}.{buffer}"
            for norm in ("bn1", "bn2")
            for buffer in ("running_mean", "running_var")
        }


def whole(file: Path) -> list[tuple[str, str]]:
    found = check_checkpoint(open_checkpoint(file, read_torch))
    return [(each.rule, each.severity) for each in found if each.rule in WHOLE]


WHOLE = ("resume-without-optimizer-state", "broken-weight-tie")


def test_a_checkpoint_to_resume_from_needs_the_state_of_the_optimizer(tmp_path: Path) -> None:
    network = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    weights, state = network.state_dict(), optimizer.state_dict()
    files: dict[str, dict[str, Any]] = {
        "bare": {"model": weights, "step": 7},
        "epochs": {"state_dict": weights, "epoch": 2, "global_step": 40, "loops": {}},
        "weights": weights,
        "published": {"model": weights, "version": "1"},
        "whole": {"model": weights, "optimizer": state, "step": 7},
        "lightning": {"state_dict": weights, "epoch": 2, "optimizer_states": [state]},
        "nested": {"state_dict": weights, "epoch": 2, "training": {"optimizers": {"a": state}}},
    }
    for name, content in files.items():
        torch.save(content, tmp_path / f"{name}.pt")
    found = {name: whole(tmp_path / f"{name}.pt") for name in files}
    warned = [("resume-without-optimizer-state", "warning")]
    assert {name for name, each in found.items() if each} == {"bare", "epochs"}
    assert found["bare"] == found["epochs"] == warned


def test_tied_weights_that_differ_are_found_by_the_configuration(tmp_path: Path) -> None:
    table = torch.randn(10, 4)
    file = tmp_path / "model.pt"
    torch.save({"model.embed_tokens.weight": table, "lm_head.weight": table + 1}, file)
    assert whole(file) == []  # Nothing says that they are tied.
    for text, expected in (
        ('{"tie_word_embeddings": true}', [("broken-weight-tie", "error")]),
        ('{"tie_word_embeddings": false}', []),
        ("not JSON", []),
    ):
        (tmp_path / "config.json").write_text(text)
        assert whole(file) == expected
    (tmp_path / "config.json").write_text('{"tie_word_embeddings": true}')
    torch.save({"model.embed_tokens.weight": table, "lm_head.weight": table.clone()}, file)
    assert whole(file) == []
