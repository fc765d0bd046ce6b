"""A program behaves under the warm Python as under ``python``."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.warm_python.starting import warm_python

PROGRAMS = {
    "arguments": "import sys; print(sys.argv, __name__, sys.path[0]); sys.exit(3)",
    "an error": "def fail():\n    1 / 0\nfail()",
    "a text as exit code": "import sys; print('out'); sys.exit('not today')",
    "standard input": "print(input()[::-1])",
    "at exit": "import atexit; atexit.register(print, 'bye'); print('hello')",
    "a thread": "import threading; print('now'); threading.Timer(0.01, print, ['later']).start()",
    "the directory": "import os; print(os.getcwd(), os.environ['MINE'], os.umask(0))",
    "killed": "import os; print('x', flush=True); os.kill(os.getpid(), 9)",
    "interrupted": "raise KeyboardInterrupt",
    "torch": "import torch; torch.manual_seed(1); print(torch.rand(3), torch.get_num_threads())",
}


def run(python: str, folder: Path, *words: str) -> tuple[int, str, str]:
    environment = {"MINE": "a b", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, *words], cwd=folder, env=environment, input="abc", capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_output_and_exit_code_are_the_same(name: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAMS[name])
    for words in (("program.py", "a b"), ("-c", PROGRAMS[name], "c")):
        assert run(warm_python(), tmp_path, *words) == run(sys.executable, tmp_path, *words)


def test_two_processes_draw_other_numbers(tmp_path: Path) -> None:
    code = "import random, numpy, torch; print(random.random(), numpy.random.rand(), torch.rand(1))"
    first, second = (run(warm_python(), tmp_path, "-c", code)[1].split() for _ in range(2))
    assert not set(first) & set(second)


def test_a_signal_ends_the_program_and_the_process_that_stands_for_it() -> None:
    code = "print('up', flush=True); input()"
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen(
            [warm_python(), "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.wait(60) == -number
        assert process.stdout.read() == "", "the program itself has ended, too"
        process.communicate()


def test_options_of_python_are_left_to_python(tmp_path: Path) -> None:
    code, out, _ = run(
        warm_python(), tmp_path, "-S", "-c", "import sys; print('torch' in sys.modules)"
    )
    assert (code, out) == (0, "False\n")
