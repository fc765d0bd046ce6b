"""Steps that do not repeat: their ops are told by their call sites and learned when asked for."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.attach import attach
from sonde.adapters.torch.eager import dispatch_mode, matcher
from sonde.adapters.torch.steps.dispatch_cost import dispatch_seconds
from sonde.adapters.torch.steps.novelty import Novelty, StepTotals
from sonde.capture.options import config_from_options
from sonde.core.graph import Graph
from sonde.core.sink import StepEnd
from sonde.dump.sinks.overflow import OverflowDump

pytestmark = pytest.mark.skipif(matcher.load() is None, reason="the native matcher is not built")

LENGTHS = (3, 5, 2, 7, 4, 6)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def train(
    lengths: tuple[int, ...] = LENGTHS,
    bad: int = -1,
    nan_from: int = 1000,
    after_step: Callable[[], None] = lambda: None,
) -> list[float]:
    """A cell in a loop of varying length; step ``bad`` computes the logarithm of zero,
    and the inputs have a NaN from step ``nan_from`` on."""
    torch.manual_seed(1)
    cell, drop, head = nn.LSTMCell(2, 4), nn.Dropout(0.2), nn.Linear(4, 3)
    optimizer = torch.optim.Adam(nn.ModuleList([cell, head]).parameters(), lr=0.01)
    losses = []
    for step, length in enumerate(lengths):
        hidden = (torch.zeros(2, 4), torch.zeros(2, 4))
        outputs = []
        for turn in range(length):
            first = 0.5 * turn if step < nan_from else math.nan
            state = torch.tensor([[first, 1.0], [1.0, -1.0]])
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
            return result, graphs, getattr(tables, "provisional_count", 0)


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


@pytest.mark.parametrize("final", range(len(LENGTHS)))
def test_the_graph_is_the_same_if_ops_at_new_places_are_not_learned_at_once(
    final: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = LENGTHS[: final + 1]

    def run() -> list[float]:
        return train(lengths)

    runs = []
    for path in (tmp_path / "python", tmp_path / "late"):
        with monkeypatch.context() as patch:
            if path.name == "python":
                patch.setenv("SONDE_MATCHER", "python")
            runs.append(observed(path, monkeypatch, asks=lambda step: step == final, run=run))
    learned, late = runs
    assert late[0] == learned[0]
    assert late[2] > 0
    assert late[1][final].nodes == learned[1][final].nodes


def test_a_step_that_repeats_is_learned_at_once_if_there_are_few_kinds_of_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch_mode, "_FEW_KINDS", 1)
    told: list[int] = []

    with attach(config_from_options(tmp_path, {}, overflow=True), starts_at_once=True) as capture:
        tables = capture.adapter.observer.tables
        train((6,) * 6 + (5,) * 6, after_step=lambda: told.append(tables.provisional_count))
    assert told[0] > 0
    assert told[3] == told[4] == told[5]
    # To make the records of the second kind takes longer than they would save.
    assert told[5] < told[6] < told[-2] < told[-1]


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


@pytest.mark.parametrize("bad", range(1, 9))
def test_a_fault_is_found_in_whichever_repetition_of_a_step_it_is(bad: int, tmp_path: Path) -> None:
    """The loss is read after the optimizer: from the second step on, a step begins with that, so
    its ops have call sites at first, and records from its third repetition on."""
    data = torch.ones(9, 4, 2)
    data[bad, 0, 0] = -1
    torch.manual_seed(1)
    network = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with attach(config_from_options(tmp_path, {}, overflow=True), starts_at_once=True):
        for batch in data:
            loss = network(batch.log()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
    first = min(tmp_path.rglob("[0-9]*/overflow.json"))
    assert first.parent.name == str(bad)
    assert json.loads(first.read_text())[0]["op"].endswith("log-op0")


def test_a_fault_in_ops_that_were_learned_when_a_step_ended_has_the_same_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("native", "python"):
        with monkeypatch.context() as patch:
            patch.setenv("SONDE_MATCHER", name)
            observed(
                tmp_path / name,
                monkeypatch,
                asks=lambda step: False,
                run=lambda: train((6,) * 8, nan_from=6),
            )
    native, python = (
        json.loads(min((tmp_path / name).rglob("6/overflow.json")).read_text())
        for name in ("native", "python")
    )
    assert [each["op"] for each in native] == [each["op"] for each in python]
    assert native[0]["phase"] == "forward"


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
    counts: list[int] = []
    collections: list[int] = []

    def count() -> None:
        collections.append(gc.get_stats()[0]["collections"])
        gc.collect()
        counts.append(len(gc.get_objects()))

    def run() -> None:
        train((3, 5, 2, 4, 9, 14, 11, 13, 8, 12, 6, 10), after_step=count)

    observed(tmp_path / "dump", monkeypatch, asks=lambda step: False, run=run)
    # A learned step of this length has thousands of objects.
    assert counts[-1] - counts[-5] < 500
    # Nodes and references of the steps before are used again: Python's collector counts new ones.
    assert collections[-1] - collections[-5] <= 4


def lines_of(novelty: Novelty, step: StepTotals, steps: int = 40) -> list[str]:
    """The lines about a program all of whose steps do the work ``step``."""
    ended = (
        StepTotals(step.learned * at, step.told * at, step.ops * at, step.seconds * at)
        for at in range(1, steps + 1)
    )
    return [line for line in map(novelty.step_ended, ended) if line is not None]


def test_the_user_is_told_once_that_steps_do_not_repeat() -> None:
    alike = Novelty()
    assert [alike.step_ended(StepTotals(5000, 0, 5000, 0.01 * step)) for step in range(40)] == [
        None
    ] * 40
    (line,) = lines_of(Novelty(), StepTotals(learned=300, ops=300, seconds=0.01))
    assert "about 300 ops of each step" in line
    assert line.endswith("[steps-differ]")


def test_the_user_is_told_by_how_much_tiny_ops_of_such_steps_are_slower() -> None:
    # An op takes 4 x 5 us longer if it is observed: 1,200 ops of 30 ms take 24 ms of them.
    (line,) = lines_of(Novelty(lambda: 5e-6), StepTotals(1, 1000, 1200, 0.03))
    assert "about 1000 such ops in the 30 ms of a step" in line
    assert "about 5 times slower (estimated)" in line
    assert "--steps" in line
    assert line.endswith("[steps-differ]")


@pytest.mark.parametrize(
    ("seconds_per_op", "step"),
    [
        (5e-6, StepTotals(1, 1000, 1200, 0.2)),  # large ops
        (1e-6, StepTotals(1, 1000, 1200, 0.03)),  # a fast machine
        (5e-6, StepTotals(1, 0, 1200, 0.03)),  # steps that repeat
        (0.0, StepTotals(1, 1000, 1200, 0.03)),  # not measured
    ],
)
def test_no_line_where_observing_is_cheap(seconds_per_op: float, step: StepTotals) -> None:
    assert not lines_of(Novelty(lambda: seconds_per_op), step)


def test_a_long_step_is_told_while_it_runs() -> None:
    # As many ops and seconds as in the first pass of LBFGS, pass by pass.
    tiny = Novelty(lambda: 5e-6)
    told = [tiny.step_runs(StepTotals(900, 30_000 * at, 31_000 * at, 0.8 * at)) for at in range(4)]
    (line,) = filter(None, told)
    assert line is told[2]
    assert "60000 such ops in the running step" in line
    assert "about 4 times slower (estimated)" in line
    assert not any(
        tiny.step_ended(StepTotals(0, at, at, at)) for at in range(10**6, 4 * 10**7, 10**6)
    )
    learned = Novelty().step_runs(StepTotals(60_000, 0, 60_000, 9.0))
    assert learned is not None
    assert "60000 ops of the running step had to be learned" in learned
    assert Novelty(lambda: 5e-6).step_runs(StepTotals(900, 60_000, 62_000, 90.0)) is None


def test_a_training_of_few_long_steps_is_told_before_it_ends() -> None:
    long, short = StepTotals(0, 20_000, 21_000, 0.5), StepTotals(0, 2000, 2100, 0.05)
    assert len(lines_of(Novelty(lambda: 5e-6), long, steps=8)) == 1
    assert not lines_of(Novelty(lambda: 5e-6), short, steps=8)


def test_torchs_call_of_a_mode_is_measured_outside_the_modes_of_the_program() -> None:
    seen: list[object] = []

    class Seeing(private.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    state = torch.get_rng_state()
    with Seeing(), torch.device("meta"):
        measured = dispatch_seconds()
    assert 0 < measured < 1
    assert seen == []
    assert torch.equal(torch.get_rng_state(), state)
