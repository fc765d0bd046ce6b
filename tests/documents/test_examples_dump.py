"""The code of "Using Dump in the Graph Mode", with its imports changed.

``pad_mode``, ``weight_init`` and ``has_bias`` are arguments of ``sonde.train.nn``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.documents.snippets import run_snippet

import sonde

ALEXNET = '''
from sonde.train import nn
from sonde.train.nn import TruncatedNormal
...
def conv(in_channels, out_channels, kernel_size, stride=1, padding=0, pad_mode="valid"):
    weight = weight_variable()
    return nn.Conv2d(in_channels, out_channels,
                     kernel_size=kernel_size, stride=stride, padding=padding,
                     weight_init=weight, has_bias=False, pad_mode=pad_mode)


def fc_with_initialize(input_channels, out_channels):
    weight = weight_variable()
    bias = weight_variable()
    return nn.Dense(input_channels, out_channels, weight, bias)


def weight_variable():
    return TruncatedNormal(0.02)


class AlexNet(nn.Cell):
    """
    Alexnet
    """

    def __init__(self, num_classes=10, channel=3):
        super(AlexNet, self).__init__()
        self.conv1 = conv(channel, 96, 11, stride=4)
        self.conv2 = conv(96, 256, 5, pad_mode="same")
        self.conv3 = conv(256, 384, 3, pad_mode="same")
        self.conv4 = conv(384, 384, 3, pad_mode="same")
        self.conv5 = conv(384, 256, 3, pad_mode="same")
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=3, stride=2)
        self.flatten = nn.Flatten()
        self.fc1 = fc_with_initialize(6 * 6 * 256, 4096)
        self.fc2 = fc_with_initialize(4096, 4096)
        self.fc3 = fc_with_initialize(4096, num_classes)

    def construct(self, x):
        """
        The construct function.

        Args:
           x(int): Input of the network.

        Returns:
           Tensor, the output of the network.
        """
        x = self.conv1(x)
        x = self.relu(x)
        x = self.max_pool2d(x)
        x = self.conv2(x)
        x = self.relu(x)
        x = self.max_pool2d(x)
        x = self.conv3(x)
        x = self.relu(x)
        x = self.conv4(x)
        x = self.relu(x)
        x = self.conv5(x)
        x = self.relu(x)
        x = self.max_pool2d(x)
        x = self.flatten(x)
        x = self.fc1(x)
        x = self.relu(x)
        x = self.fc2(x)
        x = self.relu(x)
        x = self.fc3(x)
        return x
...
'''

CONFIG = {
    "common_dump_settings": {
        "op_debug_mode": 0,
        "dump_mode": 1,
        "net_name": "AlexNet",
        "iteration": "0",
        "saved_data": "tensor",
        "input_output": 0,
        "kernels": ["name-regex(.*conv3.*)"],
        "support_device": [0, 1, 2, 3, 4, 5, 6, 7],
    },
    "e2e_dump_settings": {"enable": True, "trans_flag": True},
}


def test_the_op_of_a_line_of_alexnet(tmp_path: Path) -> None:
    settings = {**CONFIG["common_dump_settings"], "path": str(tmp_path / "dump")}
    config = tmp_path / "data_dump.json"
    config.write_text(json.dumps({**CONFIG, "common_dump_settings": settings}))
    network = run_snippet(ALEXNET, tmp_path)["AlexNet"]()
    with sonde.capture(config, step_by="manual"), torch.no_grad():
        network(torch.ones(1, 3, 227, 227))
        sonde.step()
    [graph] = (tmp_path / "dump").rglob("ms_output_trace_code_graph_0.ir")
    name = "Default/network-AlexNet/conv3-Conv2d/convolution-op0"
    at = [line for line in graph.read_text().splitlines() if "x = self.conv3(x)" in line]
    assert at
    assert name in graph.read_text()
    [file] = (tmp_path / "dump").rglob("*conv3-Conv2d_convolution-op0*.output.0.*.npy")
    code = f"""
        import numpy
        loaded = numpy.load({str(file)!r})
    """
    loaded = run_snippet(code, tmp_path)["loaded"]
    assert (loaded.shape, loaded.dtype) == ((1, 384, 13, 13), np.float32)
    sigma = float(network.fc1.weight.detach().std())
    assert sigma == pytest.approx(0.02 * 0.88, rel=0.05)  # cut off at two deviations
