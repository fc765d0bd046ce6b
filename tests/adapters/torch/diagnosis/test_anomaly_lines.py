"""The lines of autograd's nodes, recorded without formatting the whole stack for each."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch
import torch.fx.traceback
from torch import nn

from sonde.adapters.torch.diagnosis.losses.anomaly_lines import AnomalyLines
from sonde.adapters.torch.diagnosis.losses.loss_graph import is_called_directly, line_of


@pytest.fixture
def lines() -> Any:
    made = AnomalyLines()
    yield made
    made.switch(False)


def test_a_node_has_the_line_of_the_program_and_whether_that_called_the_op(
    lines: AnomalyLines,
) -> None:
    layer, x = nn.Linear(3, 2), torch.ones(1, 3)
    lines.switch(True)
    inside = layer(x).grad_fn
    direct = torch.exp(layer.weight).grad_fn
    known = [line_of(inside), line_of(direct)]
    assert [None if each is None else each.code for each in known] == [
        "inside = layer(x).grad_fn",
        "direct = torch.exp(layer.weight).grad_fn",
    ]
    assert [is_called_directly(inside), is_called_directly(direct)] == [False, True]


def test_no_text_of_a_file_is_read_for_a_node(
    lines: AnomalyLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines.switch(True)
    monkeypatch.setattr(linecache, "checkcache", lambda *_: pytest.fail("a file was looked at"))
    nn.Linear(3, 2)(torch.ones(1, 3))


def test_the_programs_own_anomaly_mode_and_torchs_function_stay(lines: AnomalyLines) -> None:
    original = torch.fx.traceback.format_stack
    with torch.autograd.set_detect_anomaly(True):
        lines.switch(True)
        assert not lines.is_on
        assert torch.fx.traceback.format_stack is original
        lines.switch(False)
        assert torch.is_anomaly_enabled()
    lines.switch(True)
    assert lines.is_on
    assert torch.fx.traceback.format_stack is not original
    lines.switch(False)
    assert not torch.is_anomaly_enabled()
    assert torch.fx.traceback.format_stack is original
