"""``sonde compare --run 'torchrun ...'``: the launcher is kept, and Sonde runs on each rank."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sonde.cli.launchers import split_launcher
from sonde.cli.main import main
from sonde.core.errors import UsageError

PROGRAMS = Path(__file__).parents[1] / "compare/runs/merging/programs"
OURS = ["sonde", "run", "--dump-to", "d"]


@pytest.mark.parametrize(
    ("given", "expected", "ranks"),
    [
        ("train.py -x", "-m sonde run --dump-to d train.py -x", None),
        (
            "torchrun --nproc-per-node 2 train.py x",
            "-m torch.distributed.run --nproc-per-node 2 -m sonde run --dump-to d train.py x",
            2,
        ),
        (
            "/usr/bin/torchrun --nproc_per_node=4 -m package.train",
            "-m torch.distributed.run --nproc_per_node=4 -m sonde run --dump-to d -m package.train",
            4,
        ),
        (
            "-m torch.distributed.run --nproc-per-node auto train.py",
            "-m torch.distributed.run --nproc-per-node auto -m sonde run --dump-to d train.py",
            None,
        ),
        (
            "accelerate launch --num_processes 2 train.py",
            "-m accelerate.commands.launch --num_processes 2 -m sonde run --dump-to d train.py",
            2,
        ),
    ],
)
def test_sonde_is_put_before_the_script(given: str, expected: str, ranks: int | None) -> None:
    found = split_launcher(given.split(), given)
    assert found.command(OURS) == [sys.executable, *expected.split()]
    assert found.ranks == ranks


def test_a_launcher_without_a_script_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="no script behind torchrun"):
        split_launcher(["torchrun", "--nproc-per-node", "2"], "torchrun --nproc-per-node 2")


@pytest.mark.slow
def test_two_ranks_are_compared_with_one_in_one_command(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ranks = f"torchrun --nproc-per-node 2 {PROGRAMS / 'data_parallel.py'} clip"
    words = ["--run", ranks, "--run", str(PROGRAMS / "single.py"), "--keep", str(tmp_path)]
    assert main(["compare", *words]) == 1
    out, err = capfd.readouterr()
    assert "again, with its weights changed in their last bits" in err
    assert "on rank 1, backward, at data_parallel.py:" in out
    assert "rank 1 does not run _foreach_norm-op0" in out
    assert (tmp_path / "perturbed" / "dump").is_dir()


@pytest.mark.slow
def test_a_launched_script_that_fails_is_one_line_after_its_output(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text("raise ValueError('bad data')\n")
    words = ["--run", f"torchrun --nproc-per-node 2 {tmp_path / 'bad.py'}"]
    assert main(["compare", *words, "--run", str(PROGRAMS / "single.py")]) == 2
    last = capfd.readouterr().err.splitlines()[-1]
    assert "ended with code 1 and left no finished step" in last
    assert last.endswith("[compare-run]")


@pytest.mark.parametrize(
    "words", [["a", "b", "--perturb"], ["a", "b", "--workers", "0"], ["a", "--perturbed", "b"]]
)
def test_mistakes_are_reported(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1
