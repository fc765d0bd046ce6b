"""Functions that print, compiled in every way, and the example of the document."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sonde import ops

BACKENDS = [None, "eager", "aot_eager"]


def compiled(function: Any, backend: str | None) -> Any:
    if backend is None:
        return function
    return torch.compile(function, fullgraph=True, backend=backend)


class PrintDemo(nn.Module):
    """The network of the document."""

    def __init__(self) -> None:
        super().__init__()
        self.print = ops.Print()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.print("print Tensor x and Tensor y:", x, y)
        return x


THE_DOCUMENT = """\
print Tensor x and Tensor y:
Tensor(shape=[2, 1], dtype=Int32, value=
[[1]
 [1]])
Tensor(shape=[2, 2], dtype=Int32, value=
[[1 1]
 [1 1]])
"""
