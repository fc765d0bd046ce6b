"""The code of "Network Debugging", with its imports changed.

``WarmUpLR`` uses two ops of MindSpore, ``Minimum`` and ``Cast``; here they are Python's ``min`` and
a conversion by torch. The document compares whole arrays with ``if value1 == value2``, which numpy
refuses for more than one element, and reads both values from a variable that it does not define:
here ``.all()``, ``.any()`` and the right variables are used.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.documents.snippets import run_snippet
from tests.train.nets import classifier, loader, sgd
from torch import nn

from sonde.train import CheckpointConfig, Model, ModelCheckpoint, follow_schedule, save_checkpoint


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two consecutive steps, as ``save_checkpoint_steps=1`` saves them."""
    directory = tmp_path_factory.mktemp("checkpoints")
    network = classifier()
    network[3].bias.requires_grad_(False)
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    model.train(1, loader(), ModelCheckpoint("net", directory, CheckpointConfig(1)))
    return directory / "net-1_1.ckpt", directory / "net-1_2.ckpt"


@pytest.mark.document(
    66,
    says="print the weights of a checkpoint: `ckpt[param].data.asnumpy()`",
    how="the same; the tensors of `load_checkpoint` have `asnumpy()`",
)
def test_the_weights_of_a_checkpoint(
    tmp_path: Path, checkpoints: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code = """
        import sonde.train as mindspore
        import numpy as np
        ckpt = mindspore.load_checkpoint(ckpt_path)
        for param in ckpt:
            value = ckpt[param].data.asnumpy()
            print(value)
    """
    names = run_snippet(code, tmp_path, ckpt_path=checkpoints[0])
    assert isinstance(names["value"], np.ndarray)
    assert names["value"].shape == (2,)
    assert capsys.readouterr().out.endswith(f"{names['value']}\n")


def test_input_by_numpy(tmp_path: Path) -> None:
    code = """
        import numpy as np
        from torch import tensor as Tensor
        input = Tensor(np.random.randint(0, 10, size=(3, 5, 10)).astype(np.float32))
    """
    made = run_snippet(code, tmp_path)["input"]
    assert (made.shape, made.dtype) == ((3, 5, 10), torch.float32)


WARM_UP = """
    import torch
    import torch as mstype
    from sonde.train import LearningRateSchedule, validator

    class WarmUpLR(LearningRateSchedule):
        def __init__(self, learning_rate, warmup_steps):
            super(WarmUpLR, self).__init__()
            ## check the input
            if not isinstance(learning_rate, float):
                raise TypeError("learning_rate must be float.")
            validator.check_non_negative_float(learning_rate, "learning_rate", self.cls_name)
            validator.check_positive_int(warmup_steps, 'warmup_steps', self.cls_name)
            ## define the operators
            self.warmup_steps = warmup_steps
            self.learning_rate = learning_rate
            self.min = min
            self.cast = lambda value, dtype: torch.tensor(value).to(dtype)

        def construct(self, global_step):
            ## calculate the lr
            warmup_percent = self.cast(self.min(global_step, self.warmup_steps), mstype.float32)/ self.warmup_steps
            return self.learning_rate * warmup_percent
"""  # noqa: E501 - as the document writes it


class Rates:
    """Trains with a schedule, and notes the rate that each step used."""

    def __init__(self) -> None:
        self.network = classifier()
        self.seen: list[float] = []

    def note(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        self.seen.append(optimizer.param_groups[0]["lr"])


@pytest.mark.document(
    91,
    says="a schedule of your own, `class WarmUpLR(LearningRateSchedule)`, sets the learning rate",
    how="the same; `Model(scheduler=WarmUpLR(...))`, `torch.optim.SGD(..., lr=WarmUpLR(...))` with "
    "`Model` or `follow_schedule`, or `nn.Momentum(params, WarmUpLR(...), 0.9)` of "
    "`sonde.train.nn`",
)
@pytest.mark.parametrize("way", ["scheduler", "lr of the optimizer", "helper", "MindSpore's name"])
def test_a_schedule_of_your_own(tmp_path: Path, way: str) -> None:
    schedule = run_snippet(WARM_UP, tmp_path)["WarmUpLR"](0.1, 4)
    rates = Rates()
    weights = rates.network.parameters()
    if way == "MindSpore's name":
        from sonde.train import nn as ms_nn

        optimizer = ms_nn.Momentum(weights, schedule, 0.9)
    elif way == "scheduler":
        optimizer = torch.optim.SGD(weights, lr=0.5, momentum=0.9)
    else:
        optimizer = torch.optim.SGD(weights, lr=schedule, momentum=0.9)
    if way == "helper":
        follow_schedule(optimizer)
    optimizer.register_step_pre_hook(rates.note)
    given = schedule if way == "scheduler" else None
    model = Model(rates.network, nn.CrossEntropyLoss(), optimizer, scheduler=given)
    model.train(2, loader())
    expected = [0.0, 0.025, 0.05, 0.075, 0.1, 0.1, 0.1, 0.1]
    assert rates.seen == pytest.approx(expected, rel=1e-6)


@pytest.mark.document(68)
def test_which_weights_are_the_same_in_two_checkpoints(
    tmp_path: Path, checkpoints: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code = """
        import sonde.train as mindspore
        import numpy as np
        ckpt1 = mindspore.load_checkpoint(ckpt1_path)
        ckpt2 = mindspore.load_checkpoint(ckpt2_path)
        sum = 0
        same = 0
        for param1,param2 in zip(ckpt1,ckpt2):
            sum = sum + 1
            value1 = ckpt1[param1].data.asnumpy()
            value2 = ckpt2[param2].data.asnumpy()
            if (value1 == value2).all():
                print('same value: ', param1, value1)
                same = same + 1
        print('All params num: ', sum)
        print('same params num: ', same)
    """
    run_snippet(code, tmp_path, ckpt1_path=checkpoints[0], ckpt2_path=checkpoints[1])
    first, *last = capsys.readouterr().out.splitlines()
    assert first.startswith("same value:  3.bias [")
    assert last == ["All params num:  4", "same params num:  1"]


@pytest.mark.document(69)
def test_nan_and_inf_in_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = """
        import sonde.train as mindspore
        import numpy as np
        ckpt = mindspore.load_checkpoint(ckpt_path)
        for param in ckpt:
            value = ckpt[param].data.asnumpy()
            if np.isnan(value).any():
                print('NAN value:', value)
            if np.isinf(value).any():
                print('INF value:', value)
    """
    path = tmp_path / "bad.ckpt"
    bad = {"a": torch.tensor([1.0, torch.nan]), "b": torch.tensor([torch.inf])}
    save_checkpoint(bad, path)
    run_snippet(code, tmp_path, ckpt_path=path)
    assert capsys.readouterr().out == "NAN value: [ 1. nan]\nINF value: [inf]\n"
