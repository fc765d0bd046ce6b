"""What a tensor is called in the statistics is worked out once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.modes import observed
from torch import nn

from sonde.core.graph import OpNode
from sonde.dump.sinks.statistic_csv import StatisticCsv
from sonde.dump.sinks.statistic_parquet import StatisticParquet


def test_native_code_takes_over_the_labels_of_ops_that_were_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labelled: list[tuple[OpNode, str, int]] = []
    for form in (StatisticCsv, StatisticParquet):
        label: Any = form.label

        def counted(self: Any, node: OpNode, view: Any, label: Any = label) -> Any:
            labelled.append((node, view.io, view.slot))
            return label(self, node, view)

        monkeypatch.setattr(form, "label", counted)
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with observed("stats", tmp_path):
        for _ in range(5):
            net(torch.ones(3, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    counts = Counter((id(node), io, slot) for node, io, slot in labelled)
    assert counts
    assert set(counts.values()) == {1}
