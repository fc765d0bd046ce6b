"""torchrun, with every rank under Sonde: how it ends."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.warm_python.starting import warm_python

ENDED = "import sys; sys.exit(130)"
KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
FAILED = "raise RuntimeError('no')"


@pytest.mark.parametrize(("script", "code"), [(ENDED, 130), (KILLED, 1), (FAILED, 1)])
def test_only_ranks_that_were_ended_from_the_debugger_have_the_exit_code_of_that(
    script: str, code: int, tmp_path: Path
) -> None:
    program = tmp_path / "rank.py"
    program.write_text(script)
    words = ["--step-by optimizer", "--standalone", "--nproc-per-node", "1", str(program)]
    done = subprocess.run(
        [warm_python(), "-m", "sonde.adapters.torch.debugging.launching", *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert ("ChildFailedError" in done.stderr) == (code == 1)
