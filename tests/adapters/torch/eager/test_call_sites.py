"""Steps that do not repeat: their ops are told by their call sites and learned when asked for."""

from __future__ import annotations

import csv
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from sonde.adapters.torch.attach import attach
from sonde.adapters.torch.eager import matcher, observing_cost
from sonde.adapters.torch.eager.observing_cost import ObservingCost, Work, mode_seconds
from sonde.capture.options import config_from_options
from sonde.core.graph import Graph
from sonde.core.sink import StepEnd
from sonde.dump.reader import Dump
from sonde.dump.sinks import steps
from sonde.dump.sinks.overflow import OverflowDump

pytestmark = pytest.mark.skipif(matcher.load() is None, reason="the native matcher is not built")

LENGTHS = (3, 5, 2, 7, 4, 6)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def train(
    lengths: tuple[int, ...] = LENGTHS,
    bad: int = -1,
    after_step: Callable[[], None] = lambda: None,
) -> list[float]:
    """A cell in a loop of varying length; step ``bad`` computes the logarithm of zero."""
    torch.manual_seed(1)
    cell, drop, head = nn.LSTMCell(2, 4), nn.Dropout(0.2), nn.Linear(4, 3)
    optimizer = torch.optim.Adam(nn.ModuleList([cell, head]).parameters(), lr=0.01)
    losses = []
    for step, length in enumerate(lengths):
        hidden = (torch.zeros(2, 4), torch.zeros(2, 4))
        outputs = []
        for turn in range(length):
            state = torch.tensor([[0.5 * turn, 1.0], [1.0, -1.0]])
            hidden = cell(state, hidden)
            output = head(drop(doubled(hidden[0])))
            output[:, 1].mul_(0.5)
            outputs.append(output + doubled(output) if turn % 2 else output)
        loss = torch.cat(outputs).logsumexp(1).mean()
        if step == bad:
            loss = loss + torch.log(loss.detach() * 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        after_step()
    return losses


def observed(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    asks: Callable[[int], bool],
    run: Callable[[], Any] = train,
) -> tuple[Any, dict[int, Graph], int]:
    """What ``run`` returns, the graphs of the steps that ``asks`` names, and the number of ops that
    had no record when they ran."""
    graphs: dict[int, Graph] = {}
    original = OverflowDump.end_step

    def end_step(self: OverflowDump, end: StepEnd) -> None:
        if asks(end.step):
            graphs[end.step] = end.graph
        original(self, end)

    with monkeypatch.context() as patch:
        patch.setattr(OverflowDump, "end_step", end_step)
        config = config_from_options(path, {}, overflow=True)
        with attach(config, starts_at_once=True) as capture:
            result = run()
            tables = capture.adapter.observer.tables
            return result, graphs, getattr(tables, "draft_count", 0)


def test_the_graph_of_a_step_that_does_not_repeat_is_as_if_every_op_were_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = len(LENGTHS) - 1
    runs = []
    for name, asks in (
        ("every", lambda step: True),
        ("last", lambda step: step == final),
        ("python", lambda step: True),
    ):
        with monkeypatch.context() as patch:
            if name == "python":
                patch.setenv("SONDE_MATCHER", "python")
            runs.append(observed(tmp_path / name, monkeypatch, asks=asks))
    every, last, learned = runs
    assert every[0] == last[0] == learned[0] == train()
    assert last[2] > 500
    assert learned[2] == 0
    for step, graph in learned[1].items():
        assert [node.name for node in every[1][step]] == [node.name for node in graph]
        assert every[1][step].nodes == graph.nodes
        assert every[1][step].id == graph.id
    assert last[1][final].nodes == learned[1][final].nodes


def test_a_fault_in_a_step_that_does_not_repeat_has_the_same_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overflow(path: Path) -> Any:
        first = min(path.rglob("[0-9]*/overflow.json"))
        return json.loads(first.read_text())

    def run() -> list[float]:
        return train(LENGTHS[:5], bad=4)

    for name in ("native", "python"):
        with monkeypatch.context() as patch:
            patch.setenv("SONDE_MATCHER", name)
            observed(tmp_path / name, monkeypatch, asks=lambda step: False, run=run)
    entries = overflow(tmp_path / "native")
    assert entries[0]["op"].endswith("log-op0")
    assert entries[0]["source"]["code"] == "loss = loss + torch.log(loss.detach() * 0)"
    assert entries == overflow(tmp_path / "python")


def test_an_op_that_raises_reaches_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> int:
        weight = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        raised = 0
        for step in range(4):
            total = weight.sum()
            for turn in range(step + 1):
                try:
                    total = total + (weight * torch.ones(3 + turn % 2)).sum()
                except RuntimeError:
                    raised += 1
            total.backward()
            optimizer.step()
        return raised

    assert observed(tmp_path / "dump", monkeypatch, asks=lambda step: False, run=run)[0] == run()


def test_nothing_is_kept_of_steps_whose_graph_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []

    def count() -> None:
        gc.collect()
        counts.append(len(gc.get_objects()))

    def run() -> None:
        train((3, 5, 2, 4, 9, 14, 11, 13, 8, 12, 6, 10), after_step=count)

    observed(tmp_path / "dump", monkeypatch, asks=lambda step: False, run=run)
    # A learned step of this length has thousands of objects.
    assert counts[-1] - counts[-5] < 500


def test_a_recursive_function_has_the_same_call_sites_at_every_depth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> list[float]:
        torch.manual_seed(1)
        join, shapes = nn.Linear(4, 2), iter([5, 9, 14, 7, 11, 3])
        optimizer = torch.optim.SGD(join.parameters(), lr=0.1)

        def encode(size: int) -> torch.Tensor:
            if size == 1:
                return torch.ones(1, 2)
            left = 1 + size // 3
            parts = [encode(left - 1 if left > 1 else 1), encode(size - left)]
            return torch.tanh(join(torch.cat(parts, dim=1)))

        losses = []
        for size in shapes:
            loss = encode(size).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    final = 5
    runs = []
    for name in ("native", "python"):
        with monkeypatch.context() as patch:
            patch.setenv("SONDE_MATCHER", name)
            runs.append(
                observed(tmp_path / name, monkeypatch, asks=lambda step: step == final, run=run)
            )
    native, python = runs
    assert native[0] == python[0] == run()
    assert native[1][final].nodes == python[1][final].nodes
    assert native[2] > 100


def work(steps: int, **each: float) -> list[Work]:
    """What has been done after each of so many steps that are alike."""
    return [Work(**{name: step * value for name, value in each.items()}) for step in range(steps)]


def test_the_user_is_told_once_that_steps_do_not_repeat() -> None:
    alike, different = ObservingCost(), ObservingCost()
    assert [alike.step_ended(Work(learned=5000)) for _ in range(40)] == [None] * 40
    lines = [different.step_ended(each) for each in work(40, learned=300, ops=300, seconds=0.01)]
    (line,) = filter(None, lines)
    assert "about 300 ops of each step" in line
    assert line.endswith("[steps-differ]")


def test_the_user_is_told_once_that_tiny_ops_of_such_steps_are_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(observing_cost, "mode_seconds", lambda backward: 4e-6)
    tiny, large, repeating = ObservingCost(), ObservingCost(), ObservingCost()
    # 1000 ops of 10 microseconds: 3 in Sonde, 4 in torch's call of a mode, 3 in the op itself.
    slow = work(40, told=900, ops=1000, seconds=0.01, measured=10, own=3e-5)
    (line,) = filter(None, [tiny.step_ended(each) for each in slow])
    assert "with 1000 ops a step" in line
    assert "about 3.3 times as long" in line
    assert "(7 of 10 microseconds per op)" in line
    assert line.endswith("[steps-differ]")
    fast = work(40, told=900, ops=1000, seconds=0.02, measured=10, own=3e-5)
    assert [large.step_ended(each) for each in fast] == [None] * 40
    alike = work(40, told=9, ops=1000, seconds=0.01, measured=10, own=3e-5)
    assert [repeating.step_ended(each) for each in alike] == [None] * 40


def test_the_time_of_observing_and_of_an_empty_mode_are_measured(tmp_path: Path) -> None:
    config = config_from_options(tmp_path, {}, overflow=True)
    with attach(config, starts_at_once=True) as capture:
        train()
        tables = capture.adapter.observer.tables
        assert tables.op_count > 1000
        assert 0.5 < 24 * tables.measured_ops / tables.op_count < 2
        assert tables.own_nanoseconds > 0
        before = tables.op_count
        assert 0 < mode_seconds(backward=False) < 1e-3
        assert 0 < mode_seconds(backward=True) < 1e-3
        assert tables.has_backward
        assert tables.op_count == before


def statistic(path: Path) -> dict[str, list[list[str]]]:
    """The rows of each step, without their timestamps and without statistics of memory that was
    not filled."""
    found = {}
    for file in path.rglob("statistic.csv"):
        header, *rows = csv.reader(file.read_text().splitlines())
        stamp, io, first = map(header.index, ("Timestamp", "IO", "Max Value"))
        for row in rows:
            is_overwritten = row[0] in ("bernoulli_", "copy_") and row[io : io + 2] == [
                "input",
                "0",
            ]
            if "empty" in row[0] or is_overwritten:
                del row[first:]
            del row[stamp]
        found[file.parent.name] = rows
    return found


def test_statistics_of_steps_that_do_not_repeat_are_as_if_every_op_were_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses, counts = [], []
    for name in ("native", "python"):
        with monkeypatch.context() as patch:
            patch.setenv("SONDE_MATCHER", name)
            config = config_from_options(tmp_path / name, {}, stats=True)
            with attach(config, starts_at_once=False) as capture:
                losses.append(train())
                tables = capture.adapter.observer.tables
                counts.append(getattr(tables, "draft_count", 0))
    assert losses[0] == losses[1] == train()
    assert counts[0] > 500
    native = statistic(tmp_path / "native")
    assert len(native) == len(LENGTHS)
    assert native == statistic(tmp_path / "python")


def test_statistics_go_on_when_no_more_graphs_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    everything, limited = tmp_path / "everything", tmp_path / "limited"
    with attach(config_from_options(everything, {}, stats=True), starts_at_once=False):
        losses = train()
    monkeypatch.setattr(steps, "FEW_GRAPHS", 2)
    monkeypatch.setattr(steps, "MOST_GRAPH_BYTES", 1000)
    with attach(config_from_options(limited, {}, stats=True), starts_at_once=False) as capture:
        assert train() == losses
        assert capture.adapter.observer.tables.draft_count > 500
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "graphs-limited" in each]
    assert "2 graphs" in line
    dump = Dump(limited)
    assert dump.graph_ids() == (0, 1)
    assert dump.steps() == tuple(range(len(LENGTHS)))
    assert [each.graph_id for each in dump.step_dirs()] == [0, 1, None, None, None, None]
    assert dump.check() == ()
    assert statistic(limited) == statistic(everything)
