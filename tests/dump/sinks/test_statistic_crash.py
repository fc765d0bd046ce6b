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
