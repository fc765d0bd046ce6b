"""Modes that the program enters see its own ops only, whatever a guard or a diagnosis does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import sonde


class Ops(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def seen(make: Callable[[], Any], around: AbstractContextManager[object]) -> list[str]:
    """What a mode sees of four steps, some of whose losses do not come from a module."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    mode = make()
    with around:
        for _ in range(4):
            with mode:
                optimizer.zero_grad()
                loss = network(torch.randn(4, 3)).square().mean()
                loss.backward()
                optimizer.step()
    names: list[str] = mode.names
    return names


@pytest.mark.parametrize("make", [Ops, Functions])
def test_modes_see_the_same_with_a_guard(make: Callable[[], Any], tmp_path: Path) -> None:
    assert seen(make, sonde.guard(directory=tmp_path)) == seen(make, nullcontext())


@pytest.mark.parametrize("make", [Ops, Functions])
def test_modes_see_the_same_with_a_diagnosis(make: Callable[[], Any]) -> None:
    assert seen(make, sonde.diagnose()) == seen(make, nullcontext())


def test_a_trace_has_no_ops_of_the_diagnosis(recwarn: pytest.WarningsRecorder) -> None:
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU())

    def traced() -> list[str]:
        found = torch.jit.trace(network, torch.ones(2, 3)).inlined_graph
        return [node.kind() for node in found.nodes()]

    bare = traced()
    recwarn.clear()
    with sonde.diagnose():
        assert traced() == bare
    assert not [each for each in recwarn if "/sonde/" in each.filename]
