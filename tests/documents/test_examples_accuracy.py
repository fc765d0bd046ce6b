"""The code of "Debugging and Tuning", with its imports changed.

The lists of parameters print torch's shapes, ``torch.Size([1, 1])``, where MindSpore's are
``(1, 1)``. ``init`` of ``mindspore.communication`` is ``init_process_group`` of torch.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.documents.snippets import run_snippet
from torch import nn as torch_nn

import sonde.train
from sonde.train import list_parameters

PARAMETERS = """
    from sonde.train import nn

    class msNet(nn.Cell):
        def __init__(self):
            super(msNet, self).__init__()
            self.fc = nn.Dense(1, 1, weight_init='normal')
        def construct(self, x):
            output = self.fc(x)
            return output

    msnet = msNet()
    # Obtain all parameters.
    all_parameter = []
    for item in msnet.get_parameters():
        all_parameter.append(item)
        print(item.name, item.data.shape)
    print(f"all parameter numbers: {len(all_parameter)}")

    # Obtain trainable parameters.
    trainable_params = msnet.trainable_params()
    for item in trainable_params:
        print(item.name, item.data.shape)
    print(f"trainable parameter numbers: {len(trainable_params)}")
"""

SHAPES = "fc.weight torch.Size([1, 1])\nfc.bias torch.Size([1])\n"


def test_the_parameters_of_a_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_snippet(PARAMETERS, tmp_path)
    assert capsys.readouterr().out == (
        f"{SHAPES}all parameter numbers: 2\n{SHAPES}trainable parameter numbers: 2\n"
    )


PYTORCH = """
    from torch import nn

    class ptNet(nn.Module):
        def __init__(self):
            super(ptNet, self).__init__()
            self.fc = nn.Linear(1, 1)
        def construct(self, x):
            output = self.fc(x)
            return output


    ptnet = ptNet()
    all_parameter = []
    trainable_params = []
    # Obtain network parameters.
    for name, item in ptnet.named_parameters():
        if item.requires_grad:
            trainable_params.append(item)
        all_parameter.append(item)
        print(name, item.shape)

    for name, buffer in ptnet.named_buffers():
        all_parameter.append(buffer)
        print(name, buffer.shape)
    print(f"all parameter numbers: {len(all_parameter)}")
    print(f"trainable parameter numbers: {len(trainable_params)}")
"""


@pytest.mark.document(180)
def test_the_parameters_of_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_snippet(PYTORCH, tmp_path)
    assert capsys.readouterr().out == (
        f"{SHAPES}all parameter numbers: 2\ntrainable parameter numbers: 2\n"
    )
    in_one_call = list_parameters(names["ptnet"])
    assert list(in_one_call) == ["fc.weight", "fc.bias"] == list(in_one_call.trainable)


LOSS_SCALE = """
    import sonde.train as ms
    from sonde.train import nn
    # Model
    loss_scale_manager = ms.FixedLossScaleManager(drop_overflow_update=False) # Static loss scale
    # loss_scale_manager = ms.DynamicLossScaleManager()   # Dynamic loss scale

    # 1. General process
    loss = nn.MSELoss()
    opt = nn.Adam(params=msnet.trainable_params(), learning_rate=0.01)
    model = ms.Model(network=msnet, loss_fn=loss, optimizer=opt, loss_scale_manager=loss_scale_manager)
    models = [model]

    # 2. Self-packaged forward network and loss function
    msnet.to_float(ms.float16)
    loss.to_float(ms.float32)
    net_with_loss = nn.WithLossCell(msnet, loss)
    # It is recommended that loss_fn be used for the mixed precision of the model. Otherwise, float16 is used for calculation of the loss part, which may cause overflow.
    model = ms.Model(network=net_with_loss, optimizer=opt)
    models.append(model)

    # 3. Self-packaged training process
    scale_sense = nn.FixedLossScaleUpdateCell(1)#(config.loss_scale) # Static loss scale
    # scale_sense = nn.DynamicLossScaleUpdateCell(loss_scale_value=config.loss_scale,
    #                                             scale_factor=2, scale_window=1000) # Dynamic loss scale
    train_net = nn.TrainOneStepWithLossScaleCell(net_with_loss, optimizer=opt, scale_sense=scale_sense)
    model = ms.Model(network=train_net)
    models.append(model)
"""  # noqa: E501 - as the document writes it; ``models`` is added, to train all three

TRAINING = """
    import numpy as np
    from sonde.train import dataset as ds

    def get_data(num, w=2.0, b=3.0):
        for _ in range(num):
            x = np.random.uniform(-10.0, 10.0)
            noise = np.random.normal(0, 1)
            y = x * w + b + noise
            yield np.array([x]).astype(np.float32), np.array([y]).astype(np.float32)


    def create_dataset(num_data, batch_size=16, repeat_size=1):
        input_data = ds.GeneratorDataset(list(get_data(num_data)), column_names=['data', 'label'])
        input_data = input_data.batch(batch_size, drop_remainder=True)
        input_data = input_data.repeat(repeat_size)
        return input_data

    train_net.set_train()
    dataset = create_dataset(1600)
    iterator = dataset.create_tuple_iterator()
    for i, data in enumerate(iterator):
        loss, overflow, scaling_sens = train_net(*data)
        print("step: {}, loss: {}, overflow:{}, scale:{}".format(i, loss, overflow, scaling_sens))
"""


@pytest.fixture
def packaged(tmp_path: Path) -> dict[str, Any]:
    """The variables of the document's code up to ``train_net``."""
    torch.manual_seed(0)
    np.random.seed(0)
    return run_snippet(LOSS_SCALE, tmp_path, msnet=run_snippet(PARAMETERS, tmp_path)["msnet"])


@pytest.mark.document(
    193,
    says="`train_net.set_train()` before the self-packaged training",
    how="the same, on every `Cell`; torch's `train()`",
)
def test_the_self_packaged_training(
    tmp_path: Path, packaged: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    packaged["train_net"].eval()
    capsys.readouterr()
    run_snippet(TRAINING, tmp_path, train_net=packaged["train_net"])
    assert packaged["train_net"].training
    assert packaged["msnet"].fc.training
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 100
    form = re.compile(r"step: (\d+), loss: ([\d.]+), overflow:False, scale:1.0")
    found = [form.fullmatch(line) for line in lines]
    assert [int(each[1]) for each in found if each] == list(range(100))
    losses = [float(each[2]) for each in found if each]
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])


@pytest.mark.document(
    189,
    says="`net.to_float(ms.float16)`, `loss.to_float(ms.float32)`",
    how="the same, on every `Cell` and on the layers and losses of `sonde.train.nn`; "
    "`Model(amp_level=...)` for other modules",
)
def test_a_network_in_float16_with_a_loss_in_float32(packaged: dict[str, Any]) -> None:
    seen: dict[str, Any] = {}
    net, loss = packaged["msnet"], packaged["loss"]
    net.fc.register_forward_hook(lambda _, args, out: seen.update(x=args[0].dtype, y=out.dtype))
    loss.register_forward_pre_hook(lambda _, args: seen.update(loss=[t.dtype for t in args]))
    x, y = torch.randn(16, 1), torch.randn(16, 1)
    value = packaged["net_with_loss"](x, y)
    assert (seen["x"], seen["y"]) == (torch.float16, torch.float16)
    assert seen["loss"] == [torch.float32, torch.float32]
    assert (value.dtype, net.fc.weight.dtype) == (torch.float32, torch.float32)


def test_each_of_the_three_models_trains(packaged: dict[str, Any]) -> None:
    batches = [(torch.randn(16, 1), torch.randn(16, 1)) for _ in range(2)]
    weight = packaged["msnet"].fc.weight
    for model in packaged["models"]:
        before = weight.detach().clone()
        model.train(1, batches, dataset_sink_mode=False)
        assert not torch.equal(before, weight)


def test_the_seed(tmp_path: Path) -> None:
    code = """
        import sonde.train as ms
        ms.set_seed(1) # The random seeds of MindSpore, NumPy, and dataset are fixed. The random seed of the API needs to be set in the API attribute.
    """  # noqa: E501
    drawn = []
    for _ in range(2):
        run_snippet(code, tmp_path)
        drawn.append((random.random(), np.random.rand(), float(torch.rand(()))))
    assert drawn[0] == drawn[1]


@pytest.mark.document(
    212,
    says="`set_auto_parallel_context(all_reduce_fusion_config=[85, 160])`",
    how="accepted and said to have no effect: `DistributedDataParallel(bucket_cap_mb=...)` divides "
    "the gradients, `sonde profile --try buckets` finds the best size",
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_segments_of_the_all_reduce(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ranks: int,
    warnings_logged: Callable[[], list[str]],
) -> None:
    code = """
        import os
        import sonde.train as ms
        from torch.distributed import init_process_group as init

        device_id = int(os.getenv('DEVICE_ID', '0'))
        rank_size = int(os.getenv('RANK_SIZE', '1'))
        rank_id = int(os.getenv('RANK_ID', '0'))

        # init context
        ms.set_context(mode=ms.GRAPH_MODE, device_target='Ascend', device_id=device_id)
        if rank_size > 1:
            ms.set_auto_parallel_context(device_num=rank_size, parallel_mode=ms.ParallelMode.DATA_PARALLEL,
                                        gradients_mean=True)
            ms.set_auto_parallel_context(all_reduce_fusion_config=[85, 160])
            init()
    """  # noqa: E501
    begun: list[int] = []
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda: begun.append(1))
    monkeypatch.setenv("RANK_SIZE", str(ranks))
    monkeypatch.delenv("RANK_ID", raising=False)
    run_snippet(code, tmp_path)
    lines = warnings_logged()
    assert len(lines) == (3 if ranks == 1 else 7)
    assert all(line.startswith("set_context(") and "\n" not in line for line in lines)
    assert ("bucket_cap_mb" in lines[-1]) == (ranks == 2)
    assert begun == [1] * (ranks - 1)


def test_names_that_the_document_takes_from_nn_are_torch_s_modules() -> None:
    nn = sonde.train.nn
    assert issubclass(nn.MSELoss, torch_nn.MSELoss)
    assert nn.MSELoss is nn.MSELoss
    assert type(nn.ReLU()).__name__ == "ReLU"
    assert nn.functional is torch_nn.functional
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = nn.Nothing
