"""The files of a dump contain what the ops computed, also if the writer is behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.dumping import arrays, dump_of, dumping, equal, files
from tests.adapters.torch.fitting import batch, mlp, weights
from tests.adapters.torch.trainings import TRAININGS
from tests.adapters.torch.watching import bare_and_watched, same
from torch import nn
from torch.nn import functional

from sonde.adapters.torch.attach import Capture

TINY = 4096


@pytest.fixture(autouse=True)
def _no_garbage() -> Iterator[None]:
    """Memory that no op has filled yet holds NaN, not whatever lay there."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def both_ways(tmp_path: Path, train: Callable[[], Any], **options: Any) -> dict[Any, Any]:
    """The dump of ``train``, written behind its back in little memory and at once: they agree."""
    dump_of(tmp_path / "at_once", train, asynchronous=False, **options)
    dump_of(tmp_path / "behind", train, memory_budget=TINY, **options)
    dump_of(tmp_path / "roomy", train, memory_budget=1 << 28, **options)
    found = arrays(tmp_path / "at_once")
    assert equal(found, arrays(tmp_path / "behind"))
    assert equal(found, arrays(tmp_path / "roomy"))
    return found


@pytest.mark.document(
    104,
    says="Full Dump: full network data dump",
    how="`sonde run --dump-to DIR train.py`: the inputs and outputs of every op of forward, "
    "backward and optimizer",
)
@pytest.mark.parametrize(
    "name",
    [
        "a_cnn_with_batch_norm_and_dropout",
        "gradient_accumulation",
        "in_place_and_views",
        "complex_numbers",
        "odd_tensors",
        "fused_adam",
        "checkpointing_with_reentry",
        "a_grad_scaler",
        "a_transformer",
        "tensor_subclasses",
        "an_optimizer_step_inside_backward",
        "evaluation_in_between",
    ],
)
def test_files_hold_what_was_seen_at_the_time(name: str, tmp_path: Path) -> None:
    found = both_ways(tmp_path, TRAININGS[name])
    bare, seen, watched = bare_and_watched(TRAININGS[name])
    assert same(bare, seen)
    expected = {}
    for step, (_, calls) in watched.steps.items():
        for call in calls:
            for io, values in (("input", call.inputs), ("output", call.outputs)):
                for slot, value in enumerate(values):
                    if value is not None:
                        expected[(step, call.node.name, io, slot)] = value
    assert equal(found, expected)


@pytest.mark.document(143)
def test_memory_that_is_written_to_while_its_file_waits_is_copied_first(tmp_path: Path) -> None:
    def train() -> None:
        x = torch.zeros(2000)
        for _ in range(40):
            x.add_(1)
            y = x * 1
            y.mul_(2)
            y[:1000].zero_()

    found = both_ways(tmp_path, train)
    for number in range(40):
        assert (found[(0, f"Default/add_-op{number}", "input", 0)] == number).all()
        assert (found[(0, f"Default/add_-op{number}", "output", 0)] == number + 1).all()
        assert (found[(0, f"Default/mul-op{number}", "output", 0)] == number + 1).all()
        assert (found[(0, f"Default/zero_-op{number}", "input", 0)] == 2 * (number + 1)).all()


def test_gradients_zeroed_in_place_in_the_next_step_are_dumped_as_they_were(
    tmp_path: Path,
) -> None:
    def train(steps: int = 4) -> list[torch.Tensor]:
        net = nn.Linear(300, 300)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for number in range(steps):
            optimizer.zero_grad(set_to_none=False)
            (net(torch.full((2, 300), float(number + 1))) ** 2).mean().backward()
            optimizer.step()
        return weights(net)

    for steps in ("all", "0|2", "1"):
        directory = tmp_path / steps.replace("|", "_")
        directory.mkdir()
        both_ways(directory, train, steps=steps)


def test_numpy_memory_overwritten_right_after_an_op_is_dumped_as_it_was(tmp_path: Path) -> None:
    def train() -> None:
        buffer = np.zeros(3000, np.float32)
        x = torch.from_numpy(buffer)
        weight = nn.Parameter(torch.ones(3000))
        for number in range(10):
            buffer[:] = number
            y = (x * weight).sum()
            buffer[:] = -1
            y.backward()  # reads x again, which is -1 by now

    found = both_ways(tmp_path, train)
    forward = [value for key, value in found.items() if "/mul-op" in key[1] and key[2] == "input"]
    assert len(forward) == 40
    for number in range(10):
        name = f"Default/mul-op{number}"
        assert (found[(0, name, "input", 0)] == number).all()
        assert (found[(0, name, "output", 0)] == number).all()
        backward = f"Gradients/Default/mul-op{number}"
        assert (found[(0, backward, "input", 1)] == -1).all()
        assert (found[(0, backward, "output", 0)] == -1).all()


def test_an_output_handed_to_numpy_and_changed_there_is_dumped_as_it_was(tmp_path: Path) -> None:
    def train() -> None:
        for _ in range(10):
            x = torch.ones(20000)
            y = x + 1
            y.numpy()[:] = 7
            _ = y * 1
            np.asarray(x)[:] = 5
            z = x + 0
            torch.utils.dlpack.from_dlpack(z).fill_(9)

    found = both_ways(tmp_path, train)
    for number in range(10):
        first, second = f"Default/add-op{2 * number}", f"Default/add-op{2 * number + 1}"
        assert (found[(0, first, "input", 0)] == 1).all()
        assert (found[(0, first, "output", 0)] == 2).all()
        assert (found[(0, f"Default/mul-op{number}", "input", 0)] == 7).all()
        assert (found[(0, second, "input", 0)] == 5).all()
        assert (found[(0, second, "output", 0)] == 5).all()


def test_memory_given_back_while_its_file_waits_is_copied_first(tmp_path: Path) -> None:
    def train() -> None:
        for _ in range(10):
            x = torch.full((50000,), 3.0)
            x.untyped_storage().resize_(0)

    found = both_ways(tmp_path, train)
    assert all((value == 3).all() for value in found.values())
    assert len(found) == 10


def test_observing_leaves_storages_as_they_are(tmp_path: Path) -> None:
    x = torch.ones(4)
    with dumping(tmp_path):
        y = x * 2
    assert x.untyped_storage().resizable()
    assert y.untyped_storage().resizable()
    x.resize_(100)


def test_memory_that_other_code_fills_is_read_again_where_it_is_used(tmp_path: Path) -> None:
    def train() -> None:
        x = torch.empty(4)
        np.frombuffer((4 * 4 * np.ctypeslib.ctypes.c_char).from_address(x.data_ptr()), np.float32)[
            :
        ] = 6  # as a kernel that is no op of torch's would
        _ = x.view(2, 2) * 2

    dump_of(tmp_path, train)
    found = arrays(tmp_path)
    assert (found[(0, "Default/view-op0", "input", 0)] == 6).all()
    assert (found[(0, "Default/mul-op0", "input", 0)] == 6).all()


def test_an_unchanged_earlier_output_is_a_hard_link_and_nothing_else_is(tmp_path: Path) -> None:
    weight = torch.full((4, 4), 2.0)

    def train() -> None:
        x = torch.ones(4, 4)
        y = x @ weight
        _ = y + weight
        y.add_(1)
        _ = y * 1
        _ = y.t() * 1

    dump_of(tmp_path, train)
    found = files(tmp_path)

    def inode(*key: Any) -> int:
        return os.stat(found[(0, *key)]).st_ino

    ones = inode("Default/ones-op0", "output", 0)
    product = inode("Default/mm-op0", "output", 0)
    leaf = inode("weight", "output", 0)
    assert inode("Default/mm-op0", "input", 0) == ones
    assert inode("Default/mm-op0", "input", 1) == leaf
    assert inode("Default/add-op0", "input", 0) == product
    assert inode("Default/add-op0", "input", 1) == leaf
    assert inode("Default/add_-op0", "input", 0) == product
    changed = inode("Default/add_-op0", "output", 0)
    assert changed != product
    assert inode("Default/mul-op0", "input", 0) == changed
    assert inode("Default/t-op0", "output", 0) != changed
    names = [key for key in found if os.stat(found[key]).st_ino == product]
    assert {key[1:] for key in names} == {
        ("Default/mm-op0", "output", 0),
        ("Default/add-op0", "input", 0),
        ("Default/add_-op0", "input", 0),
    }


def test_links_never_reach_back_into_an_earlier_step(tmp_path: Path) -> None:
    weight = torch.full((4,), 2.0)
    with dumping(tmp_path, step_by="manual") as capture:
        for _ in range(3):
            _ = weight * 2
            capture.adapter.end_step()
    found = files(tmp_path)
    inodes = {
        os.stat(file).st_ino for key, file in found.items() if key[1:] == ("weight", "output", 0)
    }
    assert len(inodes) == 3


def test_nothing_is_dropped_when_memory_is_short(tmp_path: Path) -> None:
    def train() -> None:
        x = torch.zeros(100_000)
        for _ in range(60):
            x = x + 1

    dump_of(tmp_path, train, memory_budget=1)
    found = arrays(tmp_path)
    for number in range(60):
        assert (found[(0, f"Default/add-op{number}", "output", 0)] == number + 1).all()


def lent_bytes(capture: Capture) -> int:
    """Bytes of lent memory whose files are not written yet."""
    lent = capture.adapter.observer.loans._lent.values()
    holds = [reference() for references in lent for reference in references]
    return sum(hold.nbytes for hold in holds if hold is not None)


def test_lent_memory_is_released_when_it_is_written(tmp_path: Path) -> None:
    """A step that makes and frees 60 x 4 MB never holds more than the budget and a few."""
    held: list[int] = []
    with dumping(tmp_path, memory_budget=8 << 20) as capture:
        x = torch.zeros(1 << 20)
        for _ in range(60):
            x = x + 1
            assert capture.writer is not None
            held.append(capture.writer.pending_bytes)
            assert lent_bytes(capture) <= (8 << 20) + 3 * (4 << 20)
    assert max(held) <= 13 << 20


def test_sparse_and_nested_tensors_are_reported_once_and_left_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dump_of(tmp_path, TRAININGS["sparse_gradients"])
    said = capfd.readouterr().err.strip().splitlines()
    assert len(said) == 2
    assert "its layout is sparse_coo" in said[0]
    assert "[tensor-not-dumped]" in said[0]
    assert arrays(tmp_path)


@pytest.mark.document(
    144,
    says="`trans_flag`: transform the device data format into NCHW",
    how="key `trans_flag`; false keeps `channels_last` tensors in NHWC, as the file name says",
)
def test_channels_last_is_dumped_in_the_configured_order(tmp_path: Path) -> None:
    image = torch.arange(24.0).view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)

    def train() -> None:
        _ = image * 1

    dump_of(tmp_path / "nchw", train)
    dump_of(tmp_path / "nhwc", train, transpose_to_nchw=False)
    key = (0, "Default/mul-op0", "input", 0)
    plain, kept = files(tmp_path / "nchw")[key], files(tmp_path / "nhwc")[key]
    assert ".DefaultFormat." in plain.name
    assert ".NHWC." in kept.name
    assert np.load(plain).shape == (1, 2, 3, 4)
    assert np.load(kept).shape == (1, 3, 4, 2)
    assert (np.load(kept).transpose(0, 3, 1, 2) == image.numpy()).all()
    assert (np.load(plain) == image.numpy()).all()


def test_input_output_selects_inputs_or_outputs(tmp_path: Path) -> None:
    def train() -> None:
        _ = torch.ones(2) * 3

    for name, ios in (("in", {"input"}), ("out", {"output"}), ("both", {"input", "output"})):
        dump_of(tmp_path / name, train, **_ios(tmp_path, ios))
    keys = {name: {key[1:3] for key in files(tmp_path / name)} for name in ("in", "out", "both")}
    assert keys == {
        "in": {("Default/mul-op0", "input")},
        "out": {("Default/mul-op0", "output"), ("Default/ones-op0", "output")},
        "both": {
            ("Default/mul-op0", "input"),
            ("Default/mul-op0", "output"),
            ("Default/ones-op0", "output"),
        },
    }


def _ios(tmp_path: Path, ios: set[str]) -> dict[str, Any]:
    import dataclasses

    from tests.adapters.torch.dumping import config

    selection = config(tmp_path).selection
    return {"selection": dataclasses.replace(selection, ios=frozenset(ios))}


@pytest.mark.document(
    150,
    says="`save_kernel_args`: `{op_type}.{op_name}.json` with the initialization information of "
    "kernels",
    how="key `save_kernel_args`: the arguments of each op, as text",
)
def test_arguments_of_ops_are_saved_on_request(tmp_path: Path) -> None:
    def train() -> None:
        x = torch.ones(1, 1, 4, 4)
        _ = functional.conv2d(x, torch.ones(1, 1, 3, 3), padding=1)
        _ = torch.add(x, x, alpha=2)

    dump_of(tmp_path, train, save_kernel_args=True, asynchronous=False)
    from sonde.dump.reader import Dump

    dump = Dump(tmp_path)
    graph = dump.graph(0)
    assert dump.arguments(graph.node("Default/convolution-op0"), 0) == {
        "bias": "None",
        "stride": "[1, 1]",
        "padding": "[1, 1]",
        "dilation": "[1, 1]",
        "transposed": "False",
        "output_padding": "[0, 0]",
        "groups": "1",
    }
    assert dump.arguments(graph.node("Default/add-op0"), 0) == {"alpha": "2"}


@pytest.mark.document(
    132,
    says="an entry of `kernels` that matches no operator",
    how="one line names it, and the nearest names",
)
@pytest.mark.document(
    129,
    says="`kernels`: list of operator names",
    how="key `kernels`, `--dump-ops`: full names as in `ms_output_trace_code_graph_{graph_id}.ir`",
)
@pytest.mark.document(
    131,
    says='`kernels`: regular expressions, "name-regex(xxx)"',
    how="the same, in `kernels` and `--dump-ops`",
)
def test_a_dump_of_chosen_ops_and_a_pattern_that_matched_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def train() -> None:
        net = mlp()
        net(batch()[0])

    dump_of(
        tmp_path,
        train,
        ops=(
            "ADDMM",
            "Default/network-Sequential/1-ReLU/relu_-op0",
            "name-regex(.*2-Linear/t-.*)",
            "convolutoin",
        ),
        dump_mode="kernels",
    )
    assert {key[1] for key in files(tmp_path)} == {
        "Default/network-Sequential/0-Linear/addmm-op0",
        "Default/network-Sequential/2-Linear/addmm-op0",
        "Default/network-Sequential/1-ReLU/relu_-op0",
        "Default/network-Sequential/2-Linear/t-op0",
    }
    said = capfd.readouterr().err
    assert said.count("\n") == 2
    assert "'convolutoin' matched no op of step 0" in said
