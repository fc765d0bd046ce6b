"""What a learned step leaves on the heap that also holds the program's tensors."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.modes import observed
from torch import nn

from sonde.adapters.torch.eager import matcher

_FIELDS = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class HeapInfo(ctypes.Structure):
    """The result of glibc's ``mallinfo2``; ``uordblks`` are the bytes in use."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def bytes_in_use() -> int:
    gc.collect()
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = HeapInfo
    return int(library.mallinfo2().uordblks)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33")
def test_a_learned_op_leaves_little_between_the_tensors_of_the_program(tmp_path: Path) -> None:
    native = matcher.load()
    if native is None:
        pytest.skip("the native matcher was not built")
    net = nn.Sequential(*[layer for _ in range(100) for layer in (nn.Linear(8, 8), nn.Tanh())])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, foreach=False)

    def step() -> None:
        net(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with observed("overflow", tmp_path):
        before = bytes_in_use()
        nodes = native.living()[1]
        step()
        step()
        learned = native.living()[1] - nodes
        kept = bytes_in_use() - before
    assert learned > 1000
    # 820 bytes an op on x86-64; 1370 while the native nodes had their vectors on this heap.
    assert kept < 1000 * learned
