"""What the page asks a dump with statistics in Parquet files, against numpy; no step is listed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tests.trends.made_stores import (
    MadeTraining,
    MadeView,
    open_writer,
    raw_row,
    write_training,
)

from sonde.core.graph import OpNode
from sonde.dump.statistic_store.step_rows import StepRows
from sonde.monitor.signal_history import SignalHistory, history_directory
from sonde.monitor.signals import Signals
from sonde.server.dumps import recheck
from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.run import DumpRun
from sonde.server.health.source import health_view
from sonde.server.health.stored import StoredTrends
from sonde.server.http.events import EventBroker
from sonde.wire.queries import HealthQuery
from sonde.wire.shapes import ConditionSpec, TensorName, WatchpointSpec

RELU = "Default/net/0-Linear/relu-op0"
OVERFLOW = WatchpointSpec(1, "overflow", (ConditionSpec("tensor_overflow"),))
TOO_LARGE = WatchpointSpec(1, "large", (ConditionSpec("tensor_too_large", {"max_gt": 1e9}),))


@pytest.fixture
def run(tmp_path: Path) -> tuple[MadeTraining, DumpRun]:
    training = MadeTraining(steps=40)
    training.arrays[17][RELU][1, 2] = np.nan
    write_training(training, tmp_path / "dump", block_steps=10)
    return training, DumpRun("dump", tmp_path / "dump", EventBroker())


def forbid_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a step was listed")

    monkeypatch.setattr(IndexedDump, "listing", refuse)
    monkeypatch.setattr(IndexedDump, "listing_for", refuse)


def test_a_curve_is_one_query(
    run: tuple[MadeTraining, DumpRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    training, dump = run
    forbid_listing(monkeypatch)
    found = asyncio.run(dump.curve(0, TensorName(RELU, "output", 0, None)))
    assert [point.step for point in found.points] == list(range(40))
    assert (found.type.dtype, found.type.shape) == ("float32", (4, 5))
    for point in found.points:
        array = training.arrays[point.step][RELU]
        assert point.statistics.nan_count == int(np.isnan(array).sum())
        if point.step != 17:
            assert point.statistics.max == array.max()


def test_a_run_without_a_loss_opens_at_once(
    run: tuple[MadeTraining, DumpRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, dump = run
    forbid_listing(monkeypatch)
    found = health_view(asyncio.run(dump.trends(0)), HealthQuery(rank=0))
    assert [each.name for each in found.curves] == ["grad_norm", "step_seconds"]
    assert asyncio.run(dump.loss(0, -1)).points == ()


def test_the_loss_is_that_of_the_last_loss_function_before_the_backward_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_listing(monkeypatch)
    ops, writer = open_writer(tmp_path / "dump" / "rank_0" / "statistics")
    scalar = np.float32(0.0)
    for step in range(3):
        nodes = {
            "Default/mse_loss-op0": ("mse_loss", "forward", scalar + step),
            "Default/add-op0": ("add", "forward", scalar + 10 * step),
            "Gradients/Default/mm-op0": ("mm", "backward", np.ones((2, 2), np.float32)),
            "Default/mse_loss-op1": ("mse_loss", "forward", scalar - 1),
        }
        made = [OpNode(name, kind, "", phase) for name, (kind, phase, _) in nodes.items()]
        views = [MadeView(np.asarray(array)) for _, _, array in nodes.values()]
        labels = [ops.number(*each) for each in zip(made, cast(Any, views), strict=True)]
        rows = np.stack([raw_row(each.array) for each in views])
        stamps = np.zeros(len(labels), np.int64)
        writer.add(step, 0, StepRows(labels, stamps.tobytes(), rows.tobytes(), {}))
    writer.close()
    dump = DumpRun("dump", tmp_path / "dump", EventBroker())
    assert [each.loss for each in asyncio.run(dump.loss(0, -1)).points] == [0.0, 1.0, 2.0]


def test_a_tensor_that_is_not_there_is_one_line(run: tuple[MadeTraining, DumpRun]) -> None:
    _, dump = run
    with pytest.raises(Exception, match="the dump has no output 3 of"):
        asyncio.run(dump.curve(0, TensorName(RELU, "output", 3, None)))


@pytest.mark.parametrize(("spec", "listed"), [(OVERFLOW, {17}), (TOO_LARGE, set(range(40)))])
def test_a_check_for_nan_and_inf_reads_only_the_steps_that_have_some(
    run: tuple[MadeTraining, DumpRun], spec: WatchpointSpec, listed: set[int]
) -> None:
    training, dump = run
    seen: set[int] = set()
    index = IndexedDump(dump.dump.path)
    evaluate = recheck.evaluate_step

    def noted(*arguments: object) -> object:
        seen.add(arguments[2].step)  # type: ignore[attr-defined]
        return evaluate(*arguments)  # type: ignore[arg-type]

    hits, done = [], [0]

    def report(progress: recheck.CheckProgress) -> bool:
        hits.extend(progress.hits)
        done[0] = progress.done
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recheck, "evaluate_step", noted)
        recheck.recheck(index, [spec], report, recheck.WorkerOptions(1))
    assert seen == listed
    assert done[0] == sum(map(len, training.arrays.values()))
    found = {(hit.step, hit.op) for hit in hits if hit.verdict == "hit"}
    assert found == ({(17, RELU)} if spec is OVERFLOW else set())


def test_the_losses_of_a_guard_are_its_signal(
    tmp_path: Path,
) -> None:
    history = SignalHistory(history_directory(tmp_path, 0))
    for step in range(5):
        loss = np.nan if step == 3 else 1.5 * step
        history.write(Signals(step=step, loss=loss, has_loss=True))
    history.close()

    def refuse(_: int) -> tuple[()]:
        raise AssertionError("steps were read")

    trends = StoredTrends(tmp_path, refuse, lambda rank, op: True)
    found = trends.loss_points(0)
    assert [(point.step, point.loss) for point in found] == [
        *((n, 1.5 * n) for n in range(3)),
        (3, "nan"),
        (4, 6.0),
    ]
    assert "loss_scale" not in trends.of_rank(0).signals()  # It is not known.
