"""Every op has the line of the program that ran it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from tests.adapters.torch.watching import watch
from torch import nn
from torch.nn import functional

import sonde


def line(text: str) -> int:
    """The number of the one line of this file that has ``# <text>`` at its end."""
    lines = inspect.getsource(inspect.getmodule(line)).splitlines()  # type: ignore[arg-type]
    (found,) = [number for number, each in enumerate(lines, 1) if each.endswith(f"# {text}")]
    return found


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x / 2  # halved

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient / 2  # halved back


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.fc(x)  # linear
        h = functional.gelu(h)  # gelu
        return Halved.apply(h)  # apply


def test_each_op_has_its_line_and_the_lines_that_called_it() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.fc.weight.register_hook(lambda gradient: gradient * 3)  # hook
    with watch() as seen:
        loss = net(torch.ones(1, 2)).sum()  # call
        loss.backward()  # backward
        optimizer.step()  # step
    lines = {node.name: [source.line for source in node.sources] for node in seen.graph().ops}
    place = "Default/network-Net"
    assert lines[f"{place}/fc-Linear/addmm-op0"][:2] == [line("linear"), line("call")]
    assert lines[f"{place}/gelu-op0"][:2] == [line("gelu"), line("call")]
    assert lines[f"{place}/div-op0"][:3] == [line("halved"), line("apply"), line("call")]
    assert lines["Default/sum-op0"][0] == line("call")
    # Backward has the line of the forward op that caused it ...
    assert lines[f"Gradients/{place}/fc-Linear/mm-op0"][:2] == [line("linear"), line("call")]
    assert lines[f"Gradients/{place}/gelu_backward-op0"][:2] == [line("gelu"), line("call")]
    # ... but code of the program that runs in backward has its own.
    assert lines[f"Gradients/{place}/div-op0"][0] == line("halved back")
    tripled = next(
        node for node in seen.graph().ops if node.phase == "backward" and node.type == "mul"
    )
    assert tripled.sources[0].line == line("hook")
    updates = [node for node in seen.graph().ops if node.phase == "optimizer"]
    assert {node.sources[0].line for node in updates} == {line("step")}
    source = seen.graph().node(f"{place}/gelu-op0").sources[0]
    assert source.file == __file__
    assert source.function == "forward"
    assert source.code == "h = functional.gelu(h)  # gelu"


def test_the_same_op_on_two_lines_has_two_sources_and_in_a_loop_one() -> None:
    with watch() as seen:
        x = torch.ones(2)
        x = x * 2  # first
        x = x * 2  # second
        for _ in range(3):
            x = x + 1  # loop
    lines = [node.sources[0].line for node in seen.graph().ops]
    assert lines[1:] == [line("first"), line("second"), *[line("loop")] * 3]


def test_a_known_structure_reached_from_another_line_has_its_own_source() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2  # double

    with watch(step_by="manual") as seen:
        for number in range(4):
            x = torch.ones(2)
            if number % 2:
                double(x)  # odd
            else:
                double(x)  # even
            seen.adapter.end_step()
    # The line that matters to a match is the innermost one; names and edges are the same.
    assert {seen.graph(step).id for step in range(4)} == {0}
    assert all(
        seen.graph(step).node("Default/mul-op0").sources[0].line == line("double")
        for step in range(4)
    )


def test_ops_of_torch_and_sonde_itself_are_never_the_source() -> None:
    net = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    with watch() as seen:
        net(torch.ones(1, 3, 4)).sum().backward()
    files = {source.file for node in seen.graph().ops for source in node.sources}
    of_libraries = [str(Path(library.__file__).parent) for library in (torch, sonde)]
    assert not [name for name in files if name.startswith(tuple(of_libraries))]
    assert __file__ in files
