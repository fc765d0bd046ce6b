"""The examples of the documents, with torch modules and optimizers, run as they are written."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.nets import classifier, loader, sgd
from torch import nn

from sonde.train import (
    F1,
    Accuracy,
    Callback,
    CheckpointConfig,
    History,
    Loss,
    LossMonitor,
    MetricValue,
    Model,
    ModelCheckpoint,
    Precision,
    Recall,
    SummaryCollector,
    TimeMonitor,
    check_gradients,
    check_update,
    check_weights,
    compare_weights,
    load_checkpoint,
    save_checkpoint,
)
from sonde.train.loss_scale import FixedLossScaleManager, FixedLossScaleUpdateCell
from sonde.train.one_step import TrainOneStepWithLossScaleCell, WithLossCell

# mypy sees the lazily exported classes as Any; the examples are unannotated on purpose.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"


@pytest.mark.document(1)
def test_the_callback_base_class_has_the_document_s_hooks() -> None:
    for hook in ("begin", "epoch_begin", "epoch_end", "step_begin", "step_end", "end"):
        assert callable(getattr(Callback, hook))


@pytest.mark.document(
    2,
    says="transfer the callback object in the `model.train` method; it can be a list",
    how="`Model.train(epoch, dataset, callbacks=...)`: one object or a list",
)
def test_callbacks_are_given_to_train_as_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    network = classifier()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    epoch, dataset = 1, loader()

    ckpt_cb = ModelCheckpoint()
    loss_cb = LossMonitor()
    summary_cb = SummaryCollector(summary_dir="./summary_dir")
    model.train(epoch, dataset, callbacks=[ckpt_cb, loss_cb, summary_cb])

    assert sorted(p.name for p in tmp_path.glob("*.ckpt")) == [
        f"CKP-1_{n}.ckpt" for n in range(1, 5)
    ]
    assert list((tmp_path / "summary_dir").rglob("*tfevents*"))
    assert capsys.readouterr().out.startswith("epoch: 1 step: 1, loss is 0.61039")


@pytest.mark.document(
    4,
    says="`run_context.original_args()` gives the `cb_params` dictionary",
    how="the same; values are attributes and keys, a mistyped name gets the nearest one",
)
@pytest.mark.document(7)
@pytest.mark.document(
    11,
    says="terminate training within the specified time: `StopAtTime(run_time=10)`",
    how="the example runs as written; `sonde.train.StopAtTime(run_time)` is ready-made",
)
def test_stop_at_time(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class StopAtTime(Callback):
        def __init__(self, run_time):
            super(StopAtTime, self).__init__()  # noqa: UP008 - as the document writes it
            self.run_time = run_time * 60

        def begin(self, run_context):
            cb_params = run_context.original_args()
            cb_params.init_time = time.time()

        def step_end(self, run_context):
            cb_params = run_context.original_args()
            epoch_num = cb_params.cur_epoch_num
            step_num = cb_params.cur_step_num
            loss = cb_params.net_outputs
            cur_time = time.time()
            if (cur_time - cb_params.init_time) > self.run_time:
                print("epoch: ", epoch_num, " step: ", step_num, " loss: ", loss)
                run_context.request_stop()

    clock = iter(range(0, 100_000, 100))  # every look at the clock is 100 s later
    monkeypatch.setattr(time, "time", lambda: next(clock))
    network = classifier()
    losses: list[float] = []

    class Note(Callback):
        def step_end(self, run_context):
            losses.append(float(run_context.original_args().net_outputs))

    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    stop_cb = StopAtTime(run_time=10)
    model.train(100, loader(), callbacks=[Note(), stop_cb])

    assert len(losses) == 7  # 700 s is the first time over 600 s
    assert capsys.readouterr().out == f"epoch:  2  step:  7  loss:  {losses[-1]!r}\n"


@pytest.mark.document(
    65,
    says="the `save_checkpoint` interface to save the Checkpoint file directly",
    how="`sonde.train.save_checkpoint(save_obj, ckpt_file_name)`",
)
@pytest.mark.document(8)
@pytest.mark.document(2)
def test_save_the_checkpoint_with_the_highest_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    class SaveCallback(Callback):
        def __init__(self, model, eval_dataset):
            super(SaveCallback, self).__init__()  # noqa: UP008 - as the document writes it
            self.model = model
            self.eval_dataset = eval_dataset
            self.acc = 0.5

        def step_end(self, run_context):
            cb_params = run_context.original_args()
            epoch_num = cb_params.cur_epoch_num  # noqa: F841 - as the document writes it

            result = self.model.eval(self.eval_dataset)
            if result["accuracy"] > self.acc:
                self.acc = result["accuracy"]
                file_name = str(self.acc) + ".ckpt"
                save_checkpoint(save_obj=cb_params.train_network, ckpt_file_name=file_name)
                print("Save the maximum accuracy checkpoint,the accuracy is", self.acc)

    ds_train, ds_eval = loader(), loader()
    epoch_size = 10
    network = classifier()
    loss = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(network.parameters(), 0.1, 0.9)
    model = Model(network, loss_fn=loss, optimizer=optimizer, metrics={"accuracy"})
    callback = SaveCallback(model, ds_eval)
    model.train(epoch_size, train_dataset=ds_train, callbacks=callback)

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 2
    shown = str(callback.acc)
    assert lines[-1] == f"Save the maximum accuracy checkpoint,the accuracy is {shown}"
    # The names of the files have all digits, what is printed at most four decimals.
    saved = {str(MetricValue(float(path.stem))) for path in tmp_path.iterdir()}
    assert {line.split()[-1] for line in lines} == saved
    # The saved weights have the accuracy of their name, counted by hand.
    best = classifier(seed=1)
    load_checkpoint(tmp_path / f"{callback.acc}.ckpt", best, strict_load=True)
    best.eval()
    right = sum(int((best(x).argmax(1) == y).sum()) for x, y in ds_eval)
    assert right / 32 == pytest.approx(float(callback.acc), abs=5e-5)


@pytest.mark.document(
    20,
    says="`Model(net, loss_fn=loss, optimizer=opt, metrics=metrics, callbacks=TimeMonitor())`",
    how="`sonde.train.Model`, the same names of arguments",
)
@pytest.mark.document(
    23,
    says="`model.eval` returns a dictionary that contains the metrics and results",
    how="the same",
)
def test_a_dictionary_of_metrics_and_callbacks_given_to_the_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics = {
        "accuracy": Accuracy(),
        "loss": Loss(),
        "precision": Precision(),
        "recall": Recall(),
        "f1_score": F1(),
    }
    net = classifier()
    loss = nn.CrossEntropyLoss()
    opt = sgd(net)
    model = Model(net, loss_fn=loss, optimizer=opt, metrics=metrics, callbacks=TimeMonitor())
    ds_eval = loader()
    output = model.eval(ds_eval)

    assert list(output) == ["accuracy", "loss", "precision", "recall", "f1_score"]
    net.eval()
    by_hand = np.mean([float(loss(net(x), y).detach()) for x, y in ds_eval])
    assert output["loss"] == pytest.approx(by_hand, rel=1e-6)
    right = sum(int((net(x).argmax(1) == y).sum()) for x, y in ds_eval)
    assert output["accuracy"] == right / 32
    assert capsys.readouterr().out.startswith("Eval epoch time: ")


@pytest.mark.document(
    33,
    says="metric.clear(), metric.update(x, y), metric.eval(): `Accuracy is 0.6667`",
    how="the example prints the same",
)
def test_the_accuracy_example_prints_what_the_document_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = torch.tensor(np.array([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]]))
    y = torch.tensor(np.array([1, 0, 1]))
    metric = Accuracy()
    metric.clear()
    metric.update(x, y)
    accuracy = metric.eval()
    print("Accuracy is ", accuracy)
    assert capsys.readouterr().out == "Accuracy is  0.6667\n"


class TestCheckingUpdates:
    """The checks of the network debugging document, as one call each."""

    def trained(self, directory: Path) -> tuple[Path, Path]:
        network = classifier()
        network[3].bias.requires_grad_(False)
        model = Model(network, nn.CrossEntropyLoss(), sgd(network))
        config = CheckpointConfig(save_checkpoint_steps=1)
        model.train(1, loader(), ModelCheckpoint("net", directory, config))
        return directory / "net-1_1.ckpt", directory / "net-1_2.ckpt"

    @pytest.mark.document(68)
    def test_the_document_s_comparison_of_two_checkpoints(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ckpt1_path, ckpt2_path = self.trained(tmp_path)
        ckpt1 = load_checkpoint(ckpt1_path)
        ckpt2 = load_checkpoint(ckpt2_path)
        sum = 0
        same = 0
        for param1, param2 in zip(ckpt1, ckpt2, strict=True):
            sum = sum + 1
            value1 = ckpt1[param1].data.numpy()
            value2 = ckpt2[param2].data.numpy()
            if (value1 == value2).all():
                print("same value: ", param1, value1)
                same = same + 1
        print("All params num: ", sum)
        print("same params num: ", same)
        assert capsys.readouterr().out.splitlines()[1:] == [
            "All params num:  4",
            "same params num:  1",
        ]

    @pytest.mark.document(69)
    def test_the_document_s_search_for_nan_and_inf(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ckpt = load_checkpoint(Path(__file__).parent / "data" / "nan_log_final.ckpt")
        for param in ckpt:
            value = ckpt[param].data.numpy()
            if np.isnan(value).any():
                print("NAN value:", param)
            if np.isinf(value).any():
                print("INF value:", param)
        assert capsys.readouterr().out.splitlines()[:4] == [
            "NAN value: fc1.weight",
            "NAN value: fc1.bias",
            "NAN value: fc2.weight",
            "NAN value: fc2.bias",
        ]

    @pytest.mark.document(
        68,
        says="compare the weight values of Checkpoint files: `same value`, `All params num`, `same "
        "params num`",
        how="`sonde.train.compare_weights(ckpt1, ckpt2)`, the same words; `sonde ckpt diff A B`",
    )
    def test_the_same_in_one_call(self, tmp_path: Path) -> None:
        report = compare_weights(*self.trained(tmp_path))
        assert report.unchanged == ("3.bias",)
        assert not report
        assert str(report).splitlines() == [
            "same value: 3.bias is the same in both",
            "All params num: 4",
            "same params num: 1",
        ]

    @pytest.mark.document(
        69,
        says="checking whether there is NAN, INF abnormal data in the weight value",
        how="`sonde.train.check_weights(ckpt)`, `sonde ckpt check FILE`",
    )
    def test_nan_and_inf_in_a_checkpoint_in_one_call(self) -> None:
        report = check_weights(Path(__file__).parent / "data" / "nan_log_final.ckpt")
        assert not report
        messages = [finding.message for finding in report.findings]
        assert messages[:4] == [
            "fc1.weight: 24 NaN, 0 Inf of 48",
            "fc1.bias: 4 NaN, 0 Inf of 8",
            "fc2.weight: 24 NaN, 0 Inf of 24",
            "fc2.bias: 3 NaN, 0 Inf of 3",
        ]

    @pytest.mark.document(
        63,
        says="execute a step completely, normal completion of parameter update",
        how="`sonde.train.check_update(network, step)`: which weights changed, and why others did "
        "not",
    )
    def test_a_step_that_updates_and_its_gradients(self) -> None:
        network = classifier()
        optimizer = sgd(network)
        x, y = next(iter(loader()))

        def step() -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()

        report = check_update(network, step)
        assert report
        assert report.changed == ("0.weight", "0.bias", "3.weight", "3.bias")
        assert check_gradients(network)


def test_the_self_packaged_training_step_of_the_tuning_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class TrainNet(nn.Module):
        """A network that is a whole training step and gives loss, overflow and scale."""

        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = network
            self.optimizer = torch.optim.SGD(network.parameters(), 0.01)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.network(x), y)
            loss.backward()
            self.optimizer.step()
            return loss, False, 1.0

    def get_data(num: int, w: float = 2.0, b: float = 3.0) -> Any:
        generator = np.random.default_rng(0)
        for _ in range(num):
            x = generator.uniform(-10.0, 10.0, (16, 1))
            y = x * w + b + generator.normal(0, 1, (16, 1))
            yield x.astype(np.float32), y.astype(np.float32)

    train_net = TrainNet(nn.Linear(1, 1))
    model = Model(network=train_net)

    class Print(Callback):
        def step_end(self, run_context):
            cb_params = run_context.original_args()
            loss, overflow, scale = cb_params.net_outputs
            step = cb_params.cur_step_num - 1
            print(f"step: {step}, loss: {loss}, overflow:{overflow}, scale:{scale}")

    model.train(1, list(get_data(100)), callbacks=Print())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 100
    assert lines[0].startswith("step: 0, loss: ")
    assert lines[0].endswith(", overflow:False, scale:1.0")
    assert float(lines[-1].split()[3].rstrip(",")) < 5 < float(lines[0].split()[3].rstrip(","))


@pytest.mark.document(
    188,
    says="ms.Model(network=..., loss_fn=loss, optimizer=opt, "
    "loss_scale_manager=loss_scale_manager)",
    how="`sonde.train.Model`, the same arguments",
)
@pytest.mark.document(
    190,
    says="self-packaged forward network and loss function: nn.WithLossCell(msnet, loss)",
    how="`sonde.train.WithLossCell`; `Model(network=net_with_loss, optimizer=opt)`",
)
@pytest.mark.document(
    194,
    says="self-packaged training process: ms.Model(network=train_net)",
    how="the same with `sonde.train.Model`",
)
@pytest.mark.parametrize("way", ["general", "with loss", "whole step"])
def test_the_three_ways_to_a_model_of_the_tuning_document_learn_the_same(
    way: str, tmp_path: Path
) -> None:
    net = classifier()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    loss = nn.CrossEntropyLoss()
    net_with_loss = WithLossCell(net, loss)
    if way == "general":
        manager = FixedLossScaleManager(drop_overflow_update=False)
        model = Model(network=net, loss_fn=loss, optimizer=opt, loss_scale_manager=manager)
    elif way == "with loss":
        model = Model(network=net_with_loss, optimizer=opt)
    else:
        scale_sense = FixedLossScaleUpdateCell(1)
        model = Model(TrainOneStepWithLossScaleCell(net_with_loss, opt, scale_sense=scale_sense))
    history = History()
    model.train(2, loader(), [history, ModelCheckpoint("net", tmp_path), LossMonitor(0)])

    plain = classifier()
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
    for x, y in [*loader(), *loader()]:
        optimizer.zero_grad()
        loss(plain(x), y).backward()
        optimizer.step()
    # A power of two as scale changes no bit of a float32 gradient.
    for mine, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert len(list(tmp_path.iterdir())) == 5
