"""The documents of commands that run a program, and of those that serve the page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.documents.printed import validated
from tests.cli.replayed_steps import SCRIPT, guarded
from tests.tune.searches import QUADRATIC, RANDOM_X, configured
from tests.warm_python.starting import warm_python

pytestmark = pytest.mark.slow

NAN_LOG = Path(__file__).parents[2] / "dump/data/nan_log/dump"
COMPILED = SCRIPT.replace("model = Net()", "model = torch.compile(Net(), backend='aot_eager')")

ENDING: list[tuple[str, str, tuple[int, ...]]] = [
    ("run", "--guard --diagnose train.py", (0, 1)),
    ("run", "--overflow train.py", (0,)),
    ("run", "train.py", (0,)),
    ("run", "failing.py", (1,)),
    ("repeat", "--steps 0-1 train.py", (0,)),
    ("compile-check", "compiled.py", (0, 1)),
    ("diagnose", "train.py", (0, 1)),
    ("profile", "--steps 1:3 --to profiled train.py", (0,)),
    ("replay", "{step}", (0,)),
    ("replay", "{step} --compile-check", (0, 1, 2)),
    ("verify", "{step}", (1,)),
    ("tune", "--check config.yaml", (0,)),
    ("tune", "config.yaml --iter 2", (0,)),
    ("show", "out", (0,)),
]
SERVING: list[tuple[str, str]] = [
    ("debug", "--port 0 --debugger-port 0 train.py"),
    ("serve", "--port 0 --debugger-port 0"),
    ("view", "--port 0 {dump}"),
]
COVERED = {command for command, *_ in (*ENDING, *SERVING)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "guarded").mkdir()
    guarded(folder / "guarded")
    (folder / "train.py").write_text(SCRIPT)
    (folder / "failing.py").write_text(SCRIPT.replace('print("trained")', "raise ValueError(3)"))
    (folder / "compiled.py").write_text(COMPILED)
    configured(folder, QUADRATIC, *RANDOM_X, name="q.py")
    return folder


def command_of(command: str, words: str, place: Path) -> list[str]:
    (step,) = (place / "guarded" / "sonde_steps").glob("step_3.*")
    arguments = [each.format(step=step, dump=NAN_LOG) for each in words.split()]
    return [warm_python(), "-m", "sonde", *command.split(), "--json", *arguments]


@pytest.mark.parametrize(("command", "words", "codes"), ENDING)
def test_a_program_has_one_document_and_its_exit_code(
    command: str, words: str, codes: tuple[int, ...], place: Path
) -> None:
    done = subprocess.run(
        command_of(command, words, place), cwd=place, capture_output=True, text=True, timeout=800
    )
    assert done.returncode in codes, done.stderr
    document = validated(command, done.stdout)
    if command == "run":
        assert document["exit_code"] in codes
        assert "trained" in done.stderr or document["exception"]["type"] == "ValueError"


@pytest.mark.parametrize(("command", "words"), SERVING)
def test_a_server_prints_its_addresses_when_it_is_ready(
    command: str, words: str, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    process = subprocess.Popen(
        command_of(command, words, place),
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "runtime")},
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline()]
        while lines[-1].rstrip() not in ("}", ""):
            lines.append(process.stdout.readline())
        document = validated(command, "".join(lines))
        assert document["page"].startswith("http://127.0.0.1:")
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)


def test_the_document_of_a_failed_program_has_the_line(place: Path) -> None:
    done = subprocess.run(
        command_of("run", "failing.py", place), cwd=place, capture_output=True, text=True
    )
    last = json.loads(done.stdout)["exception"]["frames"][-1]
    assert last["code"] == "raise ValueError(3)"
