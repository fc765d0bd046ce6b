"""The documents' AlexNet made small, dumped with the documents' configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

import sonde

CONFIGURATION = """
{
    "common_dump_settings": {
        "op_debug_mode": 0,
        "dump_mode": 0,
        "path": "/absolute_path",
        "net_name": "ResNet50",
        "iteration": "0|5-8|100-120",
        "saved_data": "tensor",
        "input_output": 0,
        "kernels": ["Default/Conv-op12"],
        "support_device": [0,1,2,3,4,5,6,7],
        "statistic_category": ["max", "min", "l2norm"]
    },
    "e2e_dump_settings": {
        "enable": true,
        "trans_flag": true,
        "stat_calc_mode": "host"
    }
}
"""
"""That of the document about Dump in graph mode."""

SYNCHRONOUS = """
{
    "common_dump_settings": {
        "dump_mode": 0,
        "path": "/absolute_path",
        "net_name": "ResNet50",
        "iteration": 0,
        "input_output": 0,
        "kernels": ["Default/Conv-op12"],
        "support_device": [0,1,2,3,4,5,6,7]
    },
    "e2e_dump_settings": {
        "enable": true,
        "trans_flag": false
    }
}
"""
"""That of the older document about custom debugging information."""

ASYNCHRONOUS = """
{
    "common_dump_settings": {
        "dump_mode": 0,
        "path": "/absolute_path",
        "net_name": "ResNet50",
        "iteration": 0,
        "input_output": 0,
        "kernels": ["Default/Conv-op12"],
        "support_device": [0,1,2,3,4,5,6,7]
    },
    "async_dump_settings": {
        "enable": true,
        "op_debug_mode": 0
    }
}
"""
"""The other one of the older document."""

CONV3 = "Default/network-AlexNet/conv3-Conv2d/convolution-op0"
LARGEST = torch.tensor(6.0)


class AlexNet(nn.Module):
    def __init__(self, num_classes: int = 2, channel: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channel, 4, 3, bias=False)
        self.conv2 = nn.Conv2d(4, 6, 3, padding="same", bias=False)
        self.conv3 = nn.Conv2d(6, 4, 3, padding="same", bias=False)
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(16, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv1(x)
        x = self.relu(x)
        x = self.max_pool2d(x)
        x = self.conv2(x)
        x = self.relu(x)
        x = self.conv3(x)
        x = torch.minimum(x, LARGEST)
        x = self.max_pool2d(x)
        x = self.flatten(x)
        return self.fc1(x)  # type: ignore[no-any-return]


def new_network() -> AlexNet:
    torch.manual_seed(0)
    return AlexNet()


def train(network: nn.Module, steps: int) -> None:
    """Step 6 takes another way, so that it has a graph of its own."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loss_fn = nn.CrossEntropyLoss()
    for step in range(steps):
        images = torch.rand(2, 3, 10, 10)
        optimizer.zero_grad()
        loss = loss_fn(network(images), torch.tensor([0, 1]))
        if step == 6:
            loss = loss * 2
        loss.backward()
        optimizer.step()


def dump(path: Path, steps: int = 1, text: str = CONFIGURATION, **changes: Any) -> Path:
    """The directory of rank 0 of a training, dumped with a configuration whose common settings
    are changed."""
    settings = json.loads(text)
    settings["common_dump_settings"] |= {"path": str(path), **changes}
    file = path.with_suffix(".json")
    file.write_text(json.dumps(settings))
    network = new_network()
    with sonde.capture(file):
        train(network, steps)
    return path / "rank_0"


def file_of(directory: Path, pattern: str) -> Path:
    """The only file of a tensor whose name has this part."""
    (found,) = directory.glob(f"*{pattern}*.npy")
    return found
