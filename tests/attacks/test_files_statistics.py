"""Statistics in Parquet files that were made to harm their reader."""

import os
import resource
from pathlib import Path

import numpy as np
import pytest
from tests.trends.made_stores import MadeTraining, write_training

from sonde.cli.main import main
from sonde.dump.statistic_store import engine
from sonde.server.health.source import health_view, layer_cells
from sonde.server.health.stored import StoredTrends
from sonde.wire.queries import HealthQuery, LayersQuery


def write_far_steps(dump: Path, last: int) -> None:
    """A run of three steps, and one far behind them."""
    directory = write_training(MadeTraining(layers=2, steps=3), dump)
    connection = engine.connect()
    source = engine.files_of(directory.glob("rows.*"))
    place = directory / f"rows.{last}-{last}.piece.parquet"
    connection.execute(
        f"copy (select * replace ({last}::bigint as step) from {source} where step = 2) "
        f"to {engine.text_of(str(place))} (format parquet)"
    )
    connection.close()


def test_steps_that_are_far_apart_take_no_memory(tmp_path: Path) -> None:
    write_far_steps(tmp_path, 10**9)
    stored = StoredTrends(tmp_path, lambda rank: (), lambda rank, op: True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trends = stored.of_rank(0)
    assert (health_view(trends, HealthQuery()).last or 0) >= 10**9  # of the last cell
    whole = trends.grid("weight_norm")
    assert whole.width > 1
    assert whole.nbytes < 10 << 20
    for first, last in ((0, 2), (None, None), (9, 1), (-(2**63), 2**63 - 1)):
        found = layer_cells(
            trends, LayersQuery(statistic="weight_norm", first=first, last=last), None
        )
        assert found.layers == ("net/0-Linear", "net/1-Linear")
        assert np.isfinite(found.greatest)
    write_far_steps(tmp_path, 10**15)  # The training goes on.
    assert stored.of_rank(0).grid("weight_norm").nbytes < 10 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # kB
    stored.close()


@pytest.mark.parametrize("command", ["query", "show"])
@pytest.mark.parametrize("kind", ["pipe", "garbage", "half", "directory", "outside"])
def test_odd_files_are_one_line_each(
    kind: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "dump"
    directory = write_training(MadeTraining(layers=1, steps=3), dump)
    (file,) = directory.glob("rows.*")
    content = file.read_bytes()
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    elif kind == "outside":
        file.symlink_to(tmp_path / "other.parquet")
        (tmp_path / "other.parquet").write_bytes(b"not this")
    else:
        file.write_bytes(os.urandom(4000) if kind == "garbage" else content[: len(content) // 2])
    code = main([command, str(dump), *(["from tensors"] * (command == "query"))])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert code == (2 if command == "query" else 0)
    if command == "query":
        assert said.out == ""
        assert said.err.count("\n") == 1
