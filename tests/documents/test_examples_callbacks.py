"""The code of "Custom Debugging Information", with its imports changed.

Names that the document does not define (``model``, ``dataset``, ``Lenet``) are given to it. Two
misspelt names of the document are spelt right: ``SoftmaxCrossEntryWithLogits`` and ``oprimizer``.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.documents.snippets import run_snippet
from tests.train.nets import classifier, loader, sgd
from torch import nn as torch_nn

import sonde.train
from sonde.train import Model, nn


class Lenet(nn.Cell):
    """Stands for the document's network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = classifier()

    def construct(self, x: Any) -> Any:
        return self.layers(x)


def a_model() -> Model:
    network = classifier()
    return Model(network, torch_nn.CrossEntropyLoss(), sgd(network))


@pytest.mark.document(
    2,
    says="transfer the callback object in the `model.train` method; it can be a list",
    how="`Model.train(epoch, dataset, callbacks=...)`: one object or a list",
)
def test_callbacks_in_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = """
        from sonde.train import *
        ckpt_cb = ModelCheckpoint()
        loss_cb = LossMonitor()
        summary_cb = SummaryCollector(summary_dir='./summary_dir')
        model.train(epoch, dataset, callbacks=[ckpt_cb, loss_cb, summary_cb])
    """
    run_snippet(code, tmp_path, model=a_model(), epoch=1, dataset=loader())
    saved = sorted(path.name for path in tmp_path.glob("*.ckpt"))
    assert saved == [f"CKP-1_{number}.ckpt" for number in range(1, 5)]
    assert list((tmp_path / "summary_dir").rglob("*tfevents*"))
    assert capsys.readouterr().out.startswith("epoch: 1 step: 1, loss is 0.61039")


@pytest.mark.document(1)
def test_the_hooks_of_the_base_class(tmp_path: Path) -> None:
    code = '''
        class Callback():
            """Callback base class"""
            def begin(self, run_context):
                """Called once before the network executing."""
                pass

            def epoch_begin(self, run_context):
                """Called before each epoch beginning."""
                pass

            def epoch_end(self, run_context):
                """Called after each epoch finished."""
                pass

            def step_begin(self, run_context):
                """Called before each step beginning."""
                pass

            def step_end(self, run_context):
                """Called after each step finished."""
                pass

            def end(self, run_context):
                """Called once after network training."""
                pass
    '''
    described = run_snippet(code, tmp_path)["Callback"]
    hooks = {name for name in vars(described) if not name.startswith("_")}
    assert hooks <= set(dir(sonde.train.Callback))


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
def test_stop_at_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = """
        from sonde.train import Callback

        class StopAtTime(Callback):
            def __init__(self, run_time):
                super(StopAtTime, self).__init__()
                self.run_time = run_time*60

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

        stop_cb = StopAtTime(run_time=10)
        model.train(100, dataset, callbacks=stop_cb)
    """
    clock = iter(range(0, 100_000, 100))  # every look at the clock is 100 s later
    given_time = SimpleNamespace(time=lambda: next(clock))
    run_snippet(code, tmp_path, model=a_model(), dataset=loader(), time=given_time)
    plain = classifier()
    optimizer = sgd(plain)
    for x, y in [*loader(), *loader()][:7]:  # 700 s is the first time over 600 s
        optimizer.zero_grad()
        loss = torch_nn.functional.cross_entropy(plain(x), y)
        loss.backward()
        optimizer.step()
    assert capsys.readouterr().out == f"epoch:  2  step:  7  loss:  {loss.item()!r}\n"
    assert time.time() > 1e9  # the real clock is as before


@pytest.mark.document(
    65,
    says="the `save_checkpoint` interface to save the Checkpoint file directly",
    how="`sonde.train.save_checkpoint(save_obj, ckpt_file_name)`",
)
@pytest.mark.document(8)
@pytest.mark.document(2)
def test_the_checkpoint_with_the_highest_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = """
        from sonde.train import Callback, Model, nn
        from sonde.train import save_checkpoint

        class SaveCallback(Callback):
            def __init__(self, model, eval_dataset):
                super(SaveCallback, self).__init__()
                self.model = model
                self.eval_dataset = eval_dataset
                self.acc = 0.5

            def step_end(self, run_context):
                cb_params = run_context.original_args()
                epoch_num = cb_params.cur_epoch_num

                result = self.model.eval(self.eval_dataset)
                if result['accuracy'] > self.acc:
                    self.acc = result['accuracy']
                    file_name = str(self.acc) + ".ckpt"
                    save_checkpoint(save_obj=cb_params.train_network, ckpt_file_name=file_name)
                    print("Save the maximum accuracy checkpoint,the accuracy is", self.acc)


        network = Lenet()
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction='mean')
        optimizer = nn.Momentum(network.trainable_params(), 0.01, 0.9)
        model = Model(network, loss_fn=loss, optimizer=optimizer, metrics={"accuracy"})
        model.train(epoch_size, train_dataset=ds_train, callbacks=SaveCallback(model, ds_eval))
    """
    given = {"ds_train": loader(), "ds_eval": loader(), "epoch_size": 20, "Lenet": Lenet}
    run_snippet(code, tmp_path, **given)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("Save the maximum accuracy checkpoint") for line in lines)
    assert len(lines) == len(list(tmp_path.glob("*.ckpt"))) >= 2
    # The saved weights have the accuracy of their name, counted by hand.
    best = max(tmp_path.glob("*.ckpt"), key=lambda path: float(path.stem))
    network = Lenet()
    sonde.train.load_checkpoint(best, network, strict_load=True)
    right = sum(int((network(x).argmax(1) == y).sum()) for x, y in loader())
    assert right / 32 == float(best.stem)
    shown = str(sonde.train.MetricValue(right / 32))  # at most four decimals
    assert lines[-1] == f"Save the maximum accuracy checkpoint,the accuracy is {shown}"


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
def test_metrics_of_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = """
        from sonde.train import Model, TimeMonitor, nn
        metrics = {
            'accuracy': nn.Accuracy(),
            'loss': nn.Loss(),
            'precision': nn.Precision(),
            'recall': nn.Recall(),
            'f1_score': nn.F1()
        }
        net = ResNet()
        loss = CrossEntropyLoss()
        opt = Momentum()
        model = Model(net, loss_fn=loss, optimizer=opt, metrics=metrics, callbacks=TimeMonitor())
        ds_eval = create_dataset()
        output = model.eval(ds_eval)
    """
    net = classifier()
    names = run_snippet(
        code,
        tmp_path,
        ResNet=lambda: net,
        CrossEntropyLoss=torch_nn.CrossEntropyLoss,
        Momentum=lambda: sgd(net),
        create_dataset=loader,
    )
    output = names["output"]
    assert list(output) == ["accuracy", "loss", "precision", "recall", "f1_score"]
    losses = [float(names["loss"](net(x), y).detach()) for x, y in loader()]
    assert output["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-6)
    assert output["accuracy"] == sum(int((net(x).argmax(1) == y).sum()) for x, y in loader()) / 32
    assert capsys.readouterr().out.startswith("Eval epoch time: ")


@pytest.mark.document(
    33,
    says="metric.clear(), metric.update(x, y), metric.eval(): `Accuracy is 0.6667`",
    how="the example prints the same",
)
def test_how_accuracy_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = """
        import numpy as np
        from torch import tensor as Tensor
        from sonde.train import Accuracy
        x = Tensor(np.array([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]]))
        y = Tensor(np.array([1, 0, 1]))
        metric = Accuracy()
        metric.clear()
        metric.update(x, y)
        accuracy = metric.eval()
        print('Accuracy is ', accuracy)
    """
    run_snippet(code, tmp_path)
    assert capsys.readouterr().out == "Accuracy is  0.6667\n"


@pytest.mark.document(
    32,
    says="the base class `EvaluationBase`, from which `Accuracy` inherits",
    how="`sonde.train.EvaluationBase`, to derive metrics of your own from",
)
def test_a_metric_of_your_own_derives_from_the_base_class_of_accuracy() -> None:
    base: Any = sonde.train.EvaluationBase
    assert issubclass(sonde.train.Accuracy, base)
    assert issubclass(base, sonde.train.Metric)

    class Right(base):  # type: ignore[misc]
        def clear(self) -> None:
            self.right = 0

        def update(self, *inputs: Any) -> None:
            self.right += int((inputs[0].argmax(1) == inputs[1]).sum())

        def eval(self) -> int:
            return self.right

    net = classifier()
    model = Model(net, torch_nn.CrossEntropyLoss(), metrics={"right": Right("classification")})
    right = sum(int((net(x).argmax(1) == y).sum()) for x, y in loader())
    assert model.eval(loader()) == {"right": right}
    with pytest.raises(ValueError, match="eval_type"):
        Right("regression")


def test_print_in_a_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = """
        import numpy as np
        from torch import tensor as Tensor
        import sonde.ops as ops
        import sonde.train.nn as nn
        import sonde.context as context

        context.set_context(mode=context.GRAPH_MODE)

        class PrintDemo(nn.Cell):
            def __init__(self):
                super(PrintDemo, self).__init__()
                self.print = ops.Print()

            def construct(self, x, y):
                self.print('print Tensor x and Tensor y:', x, y)
                return x

        x = Tensor(np.ones([2, 1]).astype(np.int32))
        y = Tensor(np.ones([2, 2]).astype(np.int32))
        net = PrintDemo()
        output = net(x, y)
    """
    run_snippet(code, tmp_path)
    assert capsys.readouterr().out == (
        "print Tensor x and Tensor y:\n"
        "Tensor(shape=[2, 1], dtype=Int32, value=\n[[1]\n [1]])\n"
        "Tensor(shape=[2, 2], dtype=Int32, value=\n[[1 1]\n [1 1]])\n"
    )
