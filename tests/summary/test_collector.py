"""SummaryCollector, read back with TensorBoard's own reader."""

from __future__ import annotations

import io
import json
import logging
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sonde.core.callback import RunArguments, RunContext
from sonde.summary import SummaryCollector, read_summary
from sonde.summary.errors import SummaryOptionError

EVERYTHING = {"scalars": 0, "histograms": 0, "images": 0, "tensors": 0}
BATCHES = 8


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout()
        self.tail = nn.Sequential(nn.Flatten(), nn.Linear(4 * 6 * 6, 3))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.tail(self.drop(torch.relu(self.norm(self.conv(x)))))


class Run:
    """A training loop by hand that calls the hooks of one callback."""

    def __init__(self, lr: float = 0.1):
        torch.manual_seed(0)
        samples = TensorDataset(torch.rand(64, 1, 8, 8), torch.randint(0, 3, (64,)))
        self.loader = DataLoader(samples, BATCHES)
        self.net = Net()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr)
        self.loss_fn = nn.CrossEntropyLoss()
        self.losses: list[float] = []

    def train(
        self,
        collector: SummaryCollector | None,
        epochs: int = 3,
        after_step: Callable[[int], None] = lambda step: None,
        start: int = 0,
        **more: Any,
    ) -> None:
        arguments = RunArguments(
            train_network=self.net,
            optimizer=self.optimizer,
            loss_fn=self.loss_fn,
            train_dataset=self.loader,
            batch_num=len(self.loader),
            epoch_num=epochs,
            initial_step=start,
            **more,
        )
        context, step = RunContext(arguments), start
        if collector is None:
            for _ in range(epochs):
                for batch in self.loader:
                    self._step(batch)
            return
        with collector:
            collector.on_train_begin(context)
            for _ in range(epochs):
                collector.on_train_epoch_begin(context)
                for batch in self.loader:
                    step += 1
                    arguments.update(cur_step_num=step, train_dataset_element=batch)
                    collector.on_train_step_begin(context)
                    arguments.net_outputs = self._step(batch)
                    collector.on_train_step_end(context)
                    after_step(step)
                collector.on_train_epoch_end(context)
            collector.on_train_end(context)

    def _step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.loss_fn(self.net(batch[0]), batch[1])
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        return loss.detach()


def _events(directory: Path) -> EventAccumulator:
    return EventAccumulator(str(directory), size_guidance=EVERYTHING).Reload()


def _steps(events: list[Any]) -> list[int]:
    return [event.step for event in events]


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.mark.document(
    17,
    says="`SummaryCollector(summary_dir='./summary_dir')` can save the training information to "
    "files",
    how="the same; TensorBoard reads the files, `sonde show summary_dir` lists them",
)
def test_losses_and_rates_are_read_back_exactly(run: Run, tmp_path: Path):
    run.train(SummaryCollector(tmp_path, collect_freq=5))
    events = _events(tmp_path)
    due = [1, 5, 10, 15, 20]
    assert _steps(events.Scalars("loss")) == due
    assert [event.value for event in events.Scalars("loss")] == [run.losses[at - 1] for at in due]
    assert [event.value for event in events.Scalars("learning_rate")] == [np.float32(0.1)] * 5


def test_several_groups_have_a_rate_each(tmp_path: Path, run: Run):
    parameters = list(run.net.parameters())
    run.optimizer = torch.optim.SGD(
        [{"params": parameters[:1], "lr": 0.5}, {"params": parameters[1:]}], lr=0.25
    )
    run.train(SummaryCollector(tmp_path), epochs=1)
    events = _events(tmp_path)
    assert events.Scalars("learning_rate/group_0")[0].value == 0.5
    assert events.Scalars("learning_rate/group_1")[0].value == 0.25


def test_histograms_hold_every_value_of_the_first_five_parameters(run: Run, tmp_path: Path):
    last: dict[str, torch.Tensor] = {}

    def remember(step: int) -> None:
        last.update({name: one.detach().clone() for name, one in run.net.named_parameters()})

    run.train(SummaryCollector(tmp_path, collect_freq=4), after_step=remember)
    events = _events(tmp_path)
    names = ["conv.weight", "conv.bias", "norm.weight", "norm.bias", "tail.1.weight"]
    assert sorted(events.Tags()["histograms"]) == sorted(
        f"{kind}/{name}" for kind in ("weights", "gradients") for name in names
    )
    for name in names:
        histogram = events.Histograms(f"weights/{name}")[-1]
        values = last[name].double()
        assert histogram.step == 24
        assert histogram.histogram_value.num == values.numel()
        assert sum(histogram.histogram_value.bucket) == values.numel()
        assert histogram.histogram_value.min == values.min()
        assert histogram.histogram_value.max == values.max()
        assert histogram.histogram_value.sum == pytest.approx(float(values.sum()), rel=1e-12)


def test_a_regular_expression_chooses_the_parameters(run: Run, tmp_path: Path):
    specified = {"histogram_regular": "^tail.*", "collect_gradients": False}
    run.train(SummaryCollector(tmp_path, collect_specified_data=specified), epochs=1)
    assert _events(tmp_path).Tags()["histograms"] == [
        "weights/tail.1.weight",
        "weights/tail.1.bias",
    ]


@pytest.mark.parametrize(
    ("options", "epochs", "expected"),
    [
        ({"collect_freq": 1}, 10, [1, *range(4, 81, 4)]),
        ({"collect_freq": 10}, 3, [1, 10, 20]),
        ({"collect_freq": 1, "collect_tensor_freq": 7}, 3, [1, 7, 14, 21]),
    ],
)
def test_tensors_are_collected_in_about_twenty_steps(run, tmp_path, options, epochs, expected):
    wanted = {"histogram_regular": "conv.bias", "collect_gradients": False}
    collector = SummaryCollector(
        tmp_path, collect_specified_data=wanted, keep_default_action=False, **options
    )
    run.train(collector, epochs=epochs)
    assert _steps(_events(tmp_path).Histograms("weights/conv.bias")) == expected


@pytest.mark.document(
    200,
    says="check whether the data processing meets the expectation through visualization",
    how="`SummaryCollector` saves pictures of the input; the page shows any input as a heat map",
)
def test_the_picture_of_the_batch_is_a_png_of_its_first_sample(run: Run, tmp_path: Path):
    run.train(SummaryCollector(tmp_path), epochs=1)
    shown = _events(tmp_path).Images("input_data")[0]
    pixels = np.asarray(Image.open(io.BytesIO(shown.encoded_image_string)).convert("L"))
    expected = (run.loader.dataset[0][0][0] * 255).round().to(torch.uint8).numpy()
    np.testing.assert_array_equal(pixels, expected)


def test_the_graph_has_the_operators_under_their_modules(run: Run, tmp_path: Path):
    run.train(SummaryCollector(tmp_path), epochs=1)
    nodes = {node.name: node for node in _events(tmp_path).Graph().node}
    assert nodes["conv/conv2d"].op == "aten.conv2d.default"
    assert list(nodes["conv/conv2d"].input) == ["x", "conv/weight", "conv/bias"]
    assert nodes["tail/1/linear"].op == "aten.linear.default"
    shape = nodes["tail/1/linear"].attr["_output_shapes"].list.shape[0]
    assert [dimension.size for dimension in shape.dim] == [8, 3]
    assert read_summary(tmp_path).graph == "operators"


def test_a_network_that_cannot_be_traced_is_drawn_by_its_modules(run: Run, tmp_path: Path):
    class Branching(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x if float(x.sum()) > 0 else -x)

    run.net = Branching()
    run.optimizer = torch.optim.SGD(run.net.parameters(), lr=0.1)
    run.train(SummaryCollector(tmp_path), epochs=1)
    nodes = {node.name: node for node in _events(tmp_path).Graph().node}
    assert sorted(nodes) == ["conv", "drop", "norm", "tail/0", "tail/1"]
    assert nodes["conv"].op == "Conv2d"
    assert list(nodes["tail/1"].input) == ["tail/0"]
    assert read_summary(tmp_path).graph == "modules"


def test_hyper_parameters_and_lineage_say_where_the_model_comes_from(run: Run, tmp_path: Path):
    collector = SummaryCollector(tmp_path, custom_lineage_data={"author": "Ada", "trial": 7})
    run.train(collector, device_number=1)
    train = read_summary(tmp_path).lineage["train"]
    assert train["train_network"] == "Net"
    assert train["loss_function"] == "CrossEntropyLoss"
    assert train["optimizer"] == "SGD"
    assert train["learning_rate"] == 0.1
    assert train["batch_size"] == 8
    assert train["train_dataset"] == "TensorDataset"
    assert train["train_dataset_size"] == 64
    assert train["model_size"] == (4 * 9 + 4 + 4 * 4 + 144 * 3 + 3) * 4 + 8
    assert (train["step_num"], train["loss"]) == (24, run.losses[-1])
    assert (train["author"], train["trial"]) == ("Ada", 7)
    dataset = read_summary(tmp_path).lineage["dataset"]
    assert dataset["type"] == "DataLoader"
    assert dataset["children"] == [{"type": "TensorDataset", "size": 64}]
    events = _events(tmp_path)
    assert (
        b"| author | Ada |"
        in events.Tensors("lineage/train/text_summary")[-1].tensor_proto.string_val[0]
    )
    stored = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    hparams = plugin_data_pb2.HParamsPluginData.FromString(stored).session_start_info.hparams
    assert hparams["optimizer"].string_value == "SGD"
    assert hparams["learning_rate"].number_value == 0.1


def test_an_evaluation_is_written_at_the_step_training_has_reached(run: Run, tmp_path: Path):
    collector = SummaryCollector(tmp_path)
    evaluated = RunContext(
        RunArguments(
            metrics={"accuracy": 0.75, "per_class": np.ones(3), "loss": np.float64(0.5)},
            valid_dataset=run.loader,
            cur_step_num=3,
        ),
        within_fit=True,
    )
    run.train(collector, after_step=lambda at: collector.on_eval_end(evaluated) if at == 16 else 0)
    events = _events(tmp_path)
    assert [(one.step, one.value) for one in events.Scalars("eval/accuracy")] == [(16, 0.75)]
    assert [(one.step, one.value) for one in events.Scalars("eval/loss")] == [(16, 0.5)]
    assert "eval/per_class" not in events.Tags()["scalars"]
    lineage = read_summary(tmp_path).lineage["eval"]
    assert lineage["metrics"] == {"accuracy": 0.75, "loss": 0.5}
    assert lineage["valid_dataset_size"] == 64


def test_an_evaluation_of_its_own_continues_the_summary(run: Run, tmp_path: Path):
    collector = SummaryCollector(tmp_path)
    run.train(collector, epochs=1)
    context = RunContext(RunArguments(metrics={"accuracy": 1.0}, valid_dataset=run.loader))
    with collector:
        collector.on_eval_end(context)
    listing = read_summary(tmp_path)
    assert listing.scalars["eval/accuracy"].last_step == 8
    assert listing.scalars["loss"].count == 1
    assert _steps(_events(tmp_path).Scalars("eval/accuracy")) == [8]


def test_collecting_changes_nothing(tmp_path: Path):
    plain = Run()
    plain.train(None)
    state = torch.get_rng_state()
    watched = Run()
    watched.train(SummaryCollector(tmp_path, collect_freq=1, collect_tensor_freq=1))
    assert watched.losses == plain.losses
    assert torch.equal(torch.get_rng_state(), state)
    assert watched.net.calls == plain.net.calls
    for name, value in plain.net.state_dict().items():
        assert torch.equal(watched.net.state_dict()[name], value), name


def test_the_users_hooks_are_not_called_for_the_graph(run: Run, tmp_path: Path):
    called = []
    run.net.conv.register_forward_hook(lambda *given: called.append(type(given[1][0])))
    run.train(SummaryCollector(tmp_path), epochs=1)
    assert called == [torch.Tensor] * 8
    assert read_summary(tmp_path).graph == "operators"


@pytest.mark.parametrize(
    ("specified", "keep", "present", "absent"),
    [
        ({"collect_metric": False}, True, "learning_rate", "loss"),
        ({"collect_metric": True}, False, "loss", "learning_rate"),
        ({"collect_learning_rate": False}, True, "loss", "learning_rate"),
    ],
)
def test_the_collected_data_can_be_chosen(run, tmp_path, specified, keep, present, absent):
    collector = SummaryCollector(
        tmp_path, collect_specified_data=specified, keep_default_action=keep
    )
    run.train(collector, epochs=1)
    listing = read_summary(tmp_path)
    assert present in listing.scalars
    assert absent not in listing.scalars
    assert bool(listing.graph and listing.images and listing.lineage) is keep


def test_numbers_that_are_not_finite_are_written_and_counted(tmp_path: Path, run: Run):
    with torch.no_grad():
        run.net.conv.bias[0] = math.nan
        run.net.conv.bias[1] = math.inf
    run.train(SummaryCollector(tmp_path), epochs=1)
    events = _events(tmp_path)
    assert math.isnan(events.Scalars("loss")[0].value)
    assert events.Scalars("non_finite/gradients/conv.bias")[0].value == 4
    assert "gradients/conv.bias" not in events.Tags()["histograms"]
    listing = read_summary(tmp_path)
    assert math.isnan(listing.scalars["loss"].last)
    assert '"last": "nan"' in (tmp_path / "summary.json").read_text()


def test_files_stay_below_their_bound_and_lose_nothing(run: Run, tmp_path: Path):
    run.train(SummaryCollector(tmp_path, collect_freq=1, max_file_size=40_000))
    sizes = [file.size for file in read_summary(tmp_path).files]
    assert len(sizes) > 3
    assert max(sizes) <= 40_000
    assert _steps(_events(tmp_path).Scalars("loss")) == list(range(1, 25))


def test_the_total_stays_below_its_bound_at_every_step_and_keeps_the_newest(run, tmp_path):
    bound, totals = 120_000, []

    def measure(step: int) -> None:
        totals.append(sum(file.stat().st_size for file in tmp_path.glob("*tfevents*")))

    collector = SummaryCollector(
        tmp_path, collect_freq=1, collect_tensor_freq=1, max_total_size=bound
    )
    run.train(collector, after_step=measure)
    assert max(totals) <= bound
    assert max(totals) > bound / 2
    events = _events(tmp_path)
    steps = _steps(events.Scalars("loss"))
    assert steps == list(range(steps[0], 25))
    assert steps[0] > 1
    assert events.Graph().node
    assert "lineage/train/text_summary" in events.Tags()["tensors"]
    assert read_summary(tmp_path).scalars["loss"].count == 24


def test_the_total_counts_the_files_of_earlier_runs(tmp_path: Path):
    for _ in range(3):
        Run().train(SummaryCollector(tmp_path, collect_freq=1, max_total_size=120_000), epochs=1)
    assert read_summary(tmp_path).size <= 120_000


def test_an_event_larger_than_a_file_is_left_out_and_logged_once(run, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "sonde.summary"):
        run.train(SummaryCollector(tmp_path, collect_freq=1, max_file_size=2_500))
    said = [record.getMessage() for record in caplog.records]
    assert sum("'weights/tail.1.weight' is larger" in one for one in said) == 1
    assert len(said) == len(set(said))
    assert _steps(_events(tmp_path).Scalars("loss")) == list(range(1, 25))


def test_a_disk_that_fails_ends_the_collecting_and_not_the_training(run, tmp_path, caplog):
    directory = tmp_path / "summary"

    def lose(step: int) -> None:
        if step == 4:
            shutil.rmtree(directory)
            directory.write_text("in the way")

    collector = SummaryCollector(directory, collect_freq=1, max_file_size=20_000)
    with caplog.at_level(logging.WARNING, "sonde.summary"):
        run.train(collector, after_step=lose)
    assert len(run.losses) == 24
    said = [record.getMessage() for record in caplog.records]
    assert said
    assert all("could not be written" in one for one in said)
    assert len(said) == len({one.split(" of step")[0] for one in said})


def test_a_run_that_fails_is_marked_so(run: Run, tmp_path: Path):
    def fail(step: int) -> None:
        if step == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run.train(SummaryCollector(tmp_path), after_step=fail)
    assert read_summary(tmp_path).status == "failed"


def test_a_resumed_run_continues_in_the_same_summary(run: Run, tmp_path: Path):
    run.train(SummaryCollector(tmp_path, collect_freq=8), epochs=1)
    run.train(SummaryCollector(tmp_path, collect_freq=8), epochs=1, start=8)
    listing = read_summary(tmp_path)
    assert (listing.scalars["loss"].count, listing.scalars["loss"].last_step) == (4, 16)
    assert _steps(_events(tmp_path).Scalars("loss")) == [1, 8, 9, 16]


def test_a_new_run_in_the_same_directory_starts_its_own_index(run: Run, tmp_path: Path):
    run.train(SummaryCollector(tmp_path, collect_freq=8), epochs=2)
    run.train(SummaryCollector(tmp_path, collect_freq=8), epochs=1)
    assert read_summary(tmp_path).scalars["loss"].count == 2
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"collect_freq": 0}, "collect_freq must be an integer of at least 1; got 0 "),
        ({"collect_freq": 2.5}, "collect_freq must be an integer of at least 1; got 2.5 "),
        ({"collect_tensor_freq": True}, "collect_tensor_freq must be an integer .*; got True "),
        ({"max_file_size": -1}, "max_file_size"),
        ({"max_total_size": "1GB"}, "max_total_size"),
        ({"keep_default_action": 1}, "keep_default_action must be True or False; got 1 "),
        ({"collect_specified_data": ["loss"]}, "must be a dict"),
        ({"collect_specified_data": {"collect_metrics": True}}, "did you mean 'collect_metric'"),
        (
            {"collect_specified_data": {"collect_metric": "yes"}},
            "collect_specified_data: collect_metric must be True or False; got 'yes' ",
        ),
        ({"collect_specified_data": {"histogram_regular": "("}}, "not a regular expression"),
        ({"custom_lineage_data": {"a": [1]}}, "texts or numbers"),
        ({"custom_lineage_data": {1: "a"}}, "texts or numbers"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, Any], words: str):
    with pytest.raises(SummaryOptionError, match=rf"^SummaryCollector: .*{words}") as caught:
        SummaryCollector(tmp_path, **options)
    assert isinstance(caught.value, ValueError)
    assert caught.value.slug == "summary-option"
