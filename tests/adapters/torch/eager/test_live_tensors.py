"""No tensor of the program lives longer because it is observed."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.modes import observed
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class LiveBytes(TorchDispatchMode):  # type: ignore[misc]
    """Counts the bytes of storages that ops made and that are alive, after each op."""

    def __init__(self) -> None:
        super().__init__()
        self._alive: dict[int, int] = {}
        self._watched: dict[int, weakref.ref[Any]] = {}
        self.seen: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor):
                self._watch(tensor.untyped_storage())
        self.seen.append(sum(self._alive.values()))
        return result

    def _watch(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key not in self._alive:
            self._alive[key] = storage.nbytes()
            self._watched[key] = weakref.ref(storage, lambda _: self._alive.pop(key))


def live_bytes_of_each_op() -> list[int]:
    """The bytes alive after each op of the last of some steps."""
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.Tanh())]
    net = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    seen: list[int] = []
    for _ in range(4):
        with LiveBytes() as live:
            net(torch.ones(32, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        seen = live.seen
    return seen


# A full dump lends tensors to its writer; the debugger may hold a single number a little longer.
@pytest.mark.parametrize(("mode", "more"), [("stats", 0), ("overflow", 0), ("debugger", 8)])
def test_as_many_bytes_are_alive_after_each_op_as_without_sonde(
    mode: str, more: int, tmp_path: Path
) -> None:
    bare = live_bytes_of_each_op()
    assert max(bare) > 100_000
    with observed(mode, tmp_path):
        found = live_bytes_of_each_op()
    assert len(found) == len(bare)
    assert max(abs(one - other) for one, other in zip(found, bare, strict=True)) <= more
