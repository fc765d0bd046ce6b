"""A capture that has ended is freed: nothing of it is left after Python's garbage collection."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.modes import MODES, observed
from torch import nn

from sonde.adapters.torch.eager.matcher import load
from sonde.adapters.torch.eager.op_tree import OpRecord
from sonde.capture.session import Session


def train(net: nn.Module) -> None:
    """Steps of different lengths, so that ops are told by their call sites, too, and a NaN that
    passes every screen."""
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(6):
        x = torch.randn(4, 8)
        for _ in range(1 + step % 3):
            x = net(x)
        loss = x.sum()
        if step == 4:
            loss = loss + loss / 0 * 0
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def parts() -> dict[int, object]:
    """The records and sessions that exist, by their ids. Other tests may have left some."""
    return {id(each): each for each in gc.get_objects() if type(each) in (OpRecord, Session)}


def living() -> tuple[int, ...]:
    """How many native objects exist."""
    native = load()
    return () if native is None else native.living()


@pytest.mark.parametrize("mode", MODES)
def test_nothing_of_an_ended_capture_is_left(mode: str, matcher: str, tmp_path: Path) -> None:
    # The network outlives the captures, as that of a program does.
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    gc.collect()
    before, parts_before = living(), parts()
    references: list[weakref.ref[object]] = []
    for number in range(3):
        with observed(mode, tmp_path / str(number)) as capture:
            train(net)
        adapter = capture.adapter
        references += map(weakref.ref, (adapter, adapter.observer))
        del capture, adapter
        gc.collect()
        assert [reference() for reference in references if reference() is not None] == []
        assert parts().keys() - parts_before.keys() == set()
    assert living() == before


def test_a_long_step_is_freed_without_recursion(tmp_path: Path) -> None:
    weight = torch.ones(1, requires_grad=True)
    before = living()
    with observed("stats", tmp_path):
        for _ in range(20_000):
            weight * 2
    gc.collect()
    assert living() == before
