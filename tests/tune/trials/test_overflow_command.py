"""A command is run under the overflow watch, however it starts Python."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sonde.tune.trials.command import Launch
from sonde.tune.trials.divergence import find_origin
from sonde.tune.trials.overflow_command import watch, watched_words

WATCH = ["-m", "sonde", "run", "--overflow", "--dump-to", "/d"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python train.py --lr 1", "python {} train.py --lr 1"),
        ("/usr/bin/python3.12 -u -W ignore t.py", "/usr/bin/python3.12 -u -W ignore {} t.py"),
        ("python -m package.train x", "python {} -m package.train x"),
        ("env A=1 nice python t.py", "env A=1 nice python {} t.py"),
        ("torchrun --nproc-per-node 2 t.py x", "torchrun --nproc-per-node 2 {} t.py x"),
        (
            "python -m torch.distributed.run --nproc-per-node 2 t.py",
            "python -m torch.distributed.run --nproc-per-node 2 {} t.py",
        ),
        ("python -c pass", None),
        ("sh run.sh", None),
        ("python", None),
    ],
)
def test_the_program_is_found_in_the_command(command: str, expected: str | None) -> None:
    found = watched_words(command.split(), Path("/d"))
    assert found == (None if expected is None else expected.format(" ".join(WATCH)).split())


def test_a_python_inside_a_shell_script_is_watched_too(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(
        "import torch\n"
        "weight = torch.nn.Parameter(torch.tensor([1e30]))\n"
        "optimizer = torch.optim.SGD([weight], 1.0)\n"
        "loss = (weight * weight).sum()\n"
        "loss.backward()\n"
        "optimizer.step()\n"
    )
    (tmp_path / "run.sh").write_text('python "$1"\n')
    launch = Launch(("sh", "run.sh", "t.py"), {"PATH_UNUSED": ""})
    dump = tmp_path / "dump"
    made = watch(launch, dump, tmp_path / "bin")
    assert made.words == launch.words
    environment = {**os.environ, **made.environment}
    # The ``python`` the script finds without us must be this one.
    first, _, rest = environment["PATH"].partition(":")
    (tmp_path / "bin" / "python").write_text(
        f"#!/bin/sh\nexec {sys.executable} -m sonde.tune.trials.overflow_command {dump} "
        f'{sys.executable} "$@"\n'
    )
    (tmp_path / "bin" / "python").chmod(0o755)
    environment["PATH"] = f"{first}:{rest}"
    subprocess.run(made.words, cwd=tmp_path, env=environment, check=True, capture_output=True)
    origin = find_origin(dump)
    assert origin is not None
    assert (origin.made, Path(origin.file).name, origin.line) == ("Inf", "t.py", 4)
    assert origin.code.strip() == "loss = (weight * weight).sum()"


def entry(op: str, role: str = "producer", nan: int = 0, **more: Any) -> dict[str, Any]:
    source = {"file": "t.py", "line": 3, "function": "f", "code": op}
    outputs = [{"slot": 0, "nan_count": nan, "positive_inf_count": 1 - nan}]
    return {
        "op": op,
        "role": role,
        "phase": "forward",
        "source": source,
        "outputs": outputs,
        **more,
    }


def dumped(directory: Path, step: int, *entries: dict[str, Any]) -> None:
    place = directory / "rank_0" / "Net" / "0" / str(step)
    place.mkdir(parents=True)
    (place / "overflow.json").write_text(json.dumps(entries))


def test_the_earliest_step_counts_also_in_the_order_of_numbers(tmp_path: Path) -> None:
    assert find_origin(tmp_path) is None
    dumped(tmp_path, 10, entry("late"))
    dumped(tmp_path, 9, entry("carried", "carrier"), entry("first", nan=1))
    origin = find_origin(tmp_path)
    assert origin is not None
    assert (origin.step, origin.op, origin.made) == (9, "first", "NaN")
    assert str(origin) == "first made the first NaN, in step 9 at t.py:3: first"


def test_expected_infinities_are_no_reason_unless_they_become_nan(
    tmp_path: Path,
) -> None:
    mask = entry("masked_fill", by_argument="value=-inf")
    dumped(tmp_path, 0, mask, entry("softmax", "carrier", **{"from": "masked_fill"}))
    assert find_origin(tmp_path) is None
    dumped(tmp_path, 1, mask, entry("softmax", "carrier", nan=1, **{"from": "masked_fill"}))
    origin = find_origin(tmp_path)
    assert origin is not None
    assert (origin.step, origin.op) == (1, "masked_fill")


def test_a_file_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    dumped(tmp_path, 0, entry("one"))
    path = next(tmp_path.rglob("[0-9]*/overflow.json"))
    path.write_text(path.read_text()[:20])
    assert find_origin(tmp_path) is None
