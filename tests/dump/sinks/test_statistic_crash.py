"""A process that is killed loses at most the step that runs and the one being written."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from tests.adapters.torch.csv_rows import rows_of
from tests.e2e.running import environment

from sonde.cli.main import main
from sonde.dump.reader import Dump
from sonde.dump.reading.stored_statistics import stored_steps
from sonde.dump.statistic_store.files import list_files

PROGRAM = Path(__file__).parents[2] / "e2e" / "scripts" / "endless_statistics.py"
KILLS = 12


def test_a_kill_loses_no_statistics_but_those_of_the_last_step(tmp_path: Path) -> None:
    chance = random.Random(5)
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), str(tmp_path), str(KILLS)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()  # the warm-up
        for number in range(KILLS):
            last = kill_after(program, chance.randrange(2, 40))
            whole = {
                int(file.parent.name): rows_of(file)
                for file in (tmp_path / str(number)).rglob("statistic.csv")
            }
            assert set(range(last)) <= set(whole)
            assert set(whole) <= set(range(last + 2))
            assert {len(rows) for step, rows in whole.items() if step} == {len(whole[1])}
    assert program.returncode == 0


def test_a_kill_leaves_whole_steps_in_parquet_files(tmp_path: Path) -> None:
    chance = random.Random(7)
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), str(tmp_path), "3", "parquet"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()  # the warm-up
        for number in range(3):
            directory = tmp_path / str(number) / "rank_0" / "statistics"
            last = kill_after_a_piece(program, directory, chance.randrange(1, 60))
            found = stored_steps(directory)
            steps = [each.step for each in found]
            assert steps == list(range(len(steps)))
            assert 0 < len(steps) <= last + 2
            assert len({each.rows for each in found[1:]}) == 1
            dump = Dump(tmp_path / str(number))
            assert dump.steps() == tuple(steps)
            assert len(dump.statistics(steps[-1])) == found[-1].rows
            assert main(["dump", "prune", str(tmp_path / str(number))]) == 0
            assert [each.step for each in stored_steps(directory)] == steps
            assert len(list(directory.glob("rows.*"))) == 1
    assert program.returncode == 0


def kill_after_a_piece(program: subprocess.Popen[str], directory: Path, more: int) -> int:
    """Kill the training ``more`` steps after its first file; the last step it said it had ended."""
    assert program.stdout is not None
    last, left = -1, more
    for line in iter(program.stdout.readline, "dead\n"):
        child, last = map(int, line.split())
        left -= bool(list_files(directory, "rows"))
        if left == 0:
            os.kill(child, signal.SIGKILL)
    return last


def kill_after(program: subprocess.Popen[str], steps: int) -> int:
    """The last step the training said it had ended before it was killed."""
    assert program.stdout is not None
    last = -1
    child = 0
    for line in iter(program.stdout.readline, "dead\n"):
        child, last = map(int, line.split())
        if last == steps:
            os.kill(child, signal.SIGKILL)
    return last
