"""The contents of a summary: pictures, graphs of datasets, facts; and which rank writes it."""

from __future__ import annotations

import math
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

from sonde.summary import SummaryCollector, read_summary
from sonde.summary.contents import first_picture
from sonde.summary.distribution import distribution
from sonde.summary.errors import SummaryError
from sonde.summary.events import EventFiles
from sonde.summary.index import SummaryIndex
from sonde.summary.lineage import dataset_graph, train_lineage
from sonde.summary.network_graph import network_graph
from sonde.summary.recorder import Recorder


@pytest.mark.parametrize(
    "element",
    [
        torch.zeros(2, 3),
        torch.zeros(2, 7, 8, 9),
        torch.zeros(0, 3, 8, 8),
        torch.zeros(2, 3, 2, 8),
        torch.zeros(2, 1, 8, 8, dtype=torch.complex64),
        "text",
        None,
        [],
        {"a": 1},
    ],
)
def test_a_batch_without_a_picture_gives_no_image(element):
    assert first_picture(element) is None


def test_pictures_are_found_in_tuples_dicts_and_with_channels_last():
    batch = torch.rand(2, 8, 9, 3)
    expected = (batch[0].movedim(-1, 0) * 255).round().to(torch.uint8)
    for element in (batch, (batch, torch.zeros(2)), {"image": batch, "label": torch.zeros(2)}):
        assert torch.equal(first_picture(element), expected)


def test_bytes_are_shown_as_they_are_and_other_numbers_stretched():
    exact = torch.randint(0, 256, (1, 3, 5, 5), dtype=torch.uint8)
    assert torch.equal(first_picture(exact), exact[0])
    wide = torch.full((1, 1, 4, 4), -2.0)
    wide[0, 0, 0, 0] = 6.0
    wide[0, 0, 1, 1] = 2.0
    wide[0, 0, 2, 2] = math.nan
    shown = first_picture(wide)[0]
    assert (int(shown[0, 0]), int(shown[1, 1]), int(shown[3, 3]), int(shown[2, 2])) == (
        255,
        128,
        0,
        0,
    )
    assert first_picture(torch.full((1, 1, 4, 4), math.nan)).max() == 0
    assert first_picture(torch.full((1, 1, 4, 4), 7.0)).max() == 0
    assert first_picture(torch.ones(1, 1, 4, 4, dtype=torch.bfloat16)).min() == 255


def test_a_dataset_is_drawn_from_the_outside_in():
    class Pictures(TensorDataset):
        root = "/data/mnist"
        transform = nn.Identity()

    inner = Pictures(torch.zeros(10, 1))
    loader = DataLoader(ConcatDataset([Subset(inner, range(4)), inner]), 2, shuffle=True)
    graph = dataset_graph(loader)
    assert (graph["type"], graph["batch_size"], graph["sampler"]) == (
        "DataLoader",
        2,
        "RandomSampler",
    )
    joined = graph["children"][0]
    assert (joined["type"], joined["size"]) == ("ConcatDataset", 14)
    assert [child["type"] for child in joined["children"]] == ["Subset", "Pictures"]
    assert joined["children"][0]["children"][0] == {
        "type": "Pictures",
        "size": 10,
        "path": "/data/mnist",
        "transform": "Identity",
    }


def test_a_dataset_without_length_and_one_that_wraps_itself_are_drawn():
    class Endless:
        def __iter__(self):
            return iter(())

    assert dataset_graph(Endless()) == {"type": "Endless"}
    loop = Endless()
    loop.dataset = loop
    assert dataset_graph(loop)["children"][0]["type"] == "Endless"


def test_lineage_leaves_out_what_is_not_known(monkeypatch):
    monkeypatch.setattr("sys.argv", ["train.py", "--name", "a b"])
    assert train_lineage({}) == {"script": "train.py", "arguments": "--name 'a b'"}
    adam = torch.optim.AdamW(nn.Linear(1, 1).parameters(), lr=0.01, betas=(0.8, 0.9))
    facts = train_lineage({"optimizer": adam, "loss_fn": nn.functional.mse_loss})
    assert facts["betas"] == "(0.8, 0.9)"
    assert facts["loss_function"] == "mse_loss"
    assert "train_network" not in facts


def test_a_graph_is_drawn_for_every_kind_of_batch():
    class Pair(nn.Module):
        def forward(self, a, b):
            return a + b

    one = torch.ones(2)
    for network, element in (
        (nn.Linear(2, 1), one),
        (nn.Linear(2, 1), (one, torch.ones(1))),
        (nn.Linear(2, 1), [one]),
        (Pair(), (one, one)),
        (Pair(), (one, one, torch.ones(1))),
        (Pair(), {"a": one, "b": one, "labels": torch.ones(1)}),
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU()).double(), one.double()),
    ):
        graph, kind = network_graph(network, element)
        assert kind == "operators"
        assert any("aten." in node.op for node in graph.node)
    graph, kind = network_graph(nn.Linear(2, 1), None)
    assert kind == "modules"
    assert [node.name for node in graph.node] == ["Linear"]


def test_a_compiled_network_is_drawn_as_the_one_inside():
    compiled = torch.compile(nn.Linear(2, 1), backend="eager")
    _, kind = network_graph(compiled, torch.ones(2))
    assert kind == "operators"


RANK = """
import sys, torch, torch.distributed as dist
from sonde.core.callback import RunArguments, RunContext
from sonde.summary import SummaryCollector
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
context = RunContext(RunArguments(cur_step_num=1, net_outputs=torch.tensor(1.0 + rank)))
with SummaryCollector(folder + "/summary") as collector:
    collector.on_train_begin(context)
    collector.on_train_step_end(context)
    collector.on_train_end(context)
dist.destroy_process_group()
"""


LARGEST = float(np.finfo(np.float64).max)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40),
    st.sampled_from([torch.float32, torch.float64]),
)
@example([8.988465674311579e307, 8.98846567431158e307, -1.0], torch.float64)
def test_a_distribution_counts_each_value_in_its_bin(values: list[float], dtype: torch.dtype):
    tensor = torch.tensor(values, dtype=torch.float64).to(dtype)
    tensor = tensor[torch.isfinite(tensor)]
    if tensor.numel() == 0:
        return
    found = distribution(tensor)
    limits, array = np.array(found["bucket_limits"]), tensor.double().numpy()
    assert (np.diff(limits) > 0).all()
    assert (found["num"], found["min"], found["max"]) == (len(array), array.min(), array.max())
    counts = np.bincount(np.searchsorted(limits, array), minlength=len(limits))
    assert counts.tolist() == found["bucket_counts"]
    # At the very end of float64 rounding decides between the largest number and infinity.
    with np.errstate(over="ignore"):
        total = float(np.clip(math.fsum(array / 64) * 64, -LARGEST, LARGEST))
    assert min(max(found["sum"], -LARGEST), LARGEST) == pytest.approx(total, rel=1e-9, abs=1e290)


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 0.0],
        [1.0],
        [-3.0, 1e-30, 5e10],
        [1e300, -1e300, 1e-300],
        [float(torch.finfo(torch.float64).max)],
        [5e-324],
    ],
)
def test_every_finite_value_is_in_a_bin(tmp_path: Path, values: list[float]):
    with closing(EventFiles(tmp_path)) as files:
        Recorder(tmp_path, files, SummaryIndex()).histogram(
            "x", torch.tensor(values, dtype=torch.float64), 1
        )
    events = EventAccumulator(str(tmp_path)).Reload()
    assert sum(events.Histograms("x")[0].histogram_value.bucket) == len(values)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(0),
        torch.tensor(3.0),
        torch.tensor([True, False]),
        torch.arange(5),
        torch.ones(3, dtype=torch.float16),
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(3).to(torch.float8_e4m3fn),
        torch.ones(3, dtype=torch.complex64),
        torch.ones(4, 4).t()[::2],
        torch.ones(1).expand(9),
    ],
)
def test_every_kind_of_tensor_has_a_histogram(tmp_path: Path, tensor: torch.Tensor):
    index = SummaryIndex()
    with closing(EventFiles(tmp_path)) as files:
        Recorder(tmp_path, files, index).histogram("x", tensor, 1)
    assert list(index.histograms) == ["x"][: tensor.numel()]


def test_only_rank_zero_writes(tmp_path: Path):
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(tmp_path)])
        for rank in range(2)
    ]
    assert [rank.wait(60) for rank in ranks] == [0, 0]
    listing = read_summary(tmp_path / "summary")
    assert len(listing.files) == 1
    assert (listing.scalars["loss"].count, listing.scalars["loss"].last) == (1, 1.0)


def test_without_tensorboard_the_collector_says_what_to_install(tmp_path: Path):
    code = (
        "import sys; sys.modules['tensorboard'] = None\n"
        "from sonde.summary import SummaryCollector\n"
        f"SummaryCollector({str(tmp_path)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "pip install 'sonde[summary]' [extra-missing]" in last


def test_a_directory_that_cannot_be_made_is_reported_at_once(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SummaryError, match=r"cannot be made.*\[summary-directory\]"):
        SummaryCollector(tmp_path / "file" / "summary")
