"""What the page asks a dump with statistics in Parquet files, against numpy; no step is listed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from tests.trends.made_stores import MadeTraining, write_training

from sonde.monitor.signal_history import SignalHistory, history_directory
from sonde.monitor.signals import Signals
from sonde.server.dumps import recheck
from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.run import DumpRun
from sonde.server.health.stored import StoredTrends
from sonde.server.http.events import EventBroker
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
