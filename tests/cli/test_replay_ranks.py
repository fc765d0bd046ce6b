"""Captured steps of two ranks that average their gradients: each is executed alone."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.cli.replayed_steps import sonde
from tests.warm_python.starting import warm_python

SCRIPT = """\
import os, sys
import torch
import torch.distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import sonde


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(8, 1)

    def forward(self, x):
        gain = torch.sqrt(100.0 - x.sum(1, keepdim=True))  # the fault: x may sum to more
        return self.last(self.drop(torch.relu(self.first(x)))) * gain


def main():
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method="file://" + os.path.abspath("store"), rank=rank, world_size=2
    )
    torch.manual_seed(0)
    net = Net()
    model = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    torch.manual_seed(rank)
    for step in range(5):
        x = torch.randn(16, 4) * (1 + rank)
        if step == 3 and rank == 1:
            x[5] = 50.0
        optimizer.zero_grad()
        model(x).square().mean().backward()
        if step == 2:
            sonde.trigger("to look at it")
            before = [each.detach().clone() for each in net.parameters()]
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if step == 2:
            after = [each.detach() for each in net.parameters()]
            pairs = zip(after, before)
            update = sum(float((a.double() - b.double()).square().sum()) for a, b in pairs)
            norm = sum(float(b.double().square().sum()) for b in before)
            with open(f"update.{rank}", "w") as file:
                file.write(f"{(update / norm) ** 0.5}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
"""
FIXED = ("100.0 - x.sum(1, keepdim=True)", "(100.0 - x.sum(1, keepdim=True)).clamp(min=1)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Steps 2 (asked for) and 3 (NaN on rank 1) of two ranks."""
    place = tmp_path_factory.mktemp("ranks")
    (place / "train.py").write_text(SCRIPT)
    words = [warm_python(), "-m", "sonde", "run", "--guard", "--optimizer-state", "train.py"]
    ranks = [
        subprocess.Popen(
            words, cwd=place, env={**os.environ, "RANK": str(rank)}, stderr=subprocess.PIPE
        )
        for rank in range(2)
    ]
    said = [each.communicate(timeout=800)[1] for each in ranks]
    assert [each.returncode for each in ranks] == [0, 0], said
    return place


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_is_exact_and_its_own_gradients_are_compared(folder: Path, rank: int) -> None:
    done = sonde(folder, "replay", f"sonde_steps/step_2.rank_{rank}")
    assert done.returncode == 0, done.stderr
    # The result, its gradient, the loss, and the gradients of four parameters.
    assert "exact: 7 tensors" in done.stdout
    assert "gradients are those that this rank computed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_the_optimizer_steps_with_the_average_of_the_training(folder: Path, rank: int) -> None:
    step = f"sonde_steps/step_2.rank_{rank}"
    ratios = []
    for rate in ("0.01", "0.1"):
        done = sonde(folder, "replay", step, "--set", f"lr={rate}")
        assert done.returncode == 0, done.stderr
        assert "without the optimizer's state" not in done.stdout
        found = re.search(r"the update is (\S+) of the weights", done.stdout)
        assert found is not None, done.stdout
        ratios.append(float(found[1]))
    assert ratios[0] == pytest.approx(float((folder / f"update.{rank}").read_text()), rel=1e-3)
    assert ratios[1] == pytest.approx(10 * ratios[0], rel=1e-2)


@pytest.mark.slow
def test_the_rank_with_the_bad_batch_is_verified(folder: Path, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.py"
    assert FIXED[0] in SCRIPT
    fixed.write_text(SCRIPT.replace(*FIXED))
    step = folder / "sonde_steps" / "step_3.rank_1"
    still = sonde(folder, "verify", step)
    assert still.returncode == 1, still.stderr
    for words in (("--script", fixed), ("--", fixed)):
        done = sonde(tmp_path, "verify", step, *words)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("fixed: loss ")


@pytest.mark.slow
@pytest.mark.parametrize("program", [(), ("--", "train.py")])
def test_a_rank_whose_batch_was_in_order_says_that_another_has_the_fault(
    folder: Path, program: tuple[str, ...]
) -> None:
    done = sonde(folder, "verify", "sonde_steps/step_3.rank_0", *program)
    assert done.returncode == 2
    assert "NaN and Inf came from another rank" in done.stderr
    assert "[replay-judge]" in done.stderr


@pytest.mark.slow
def test_the_set_up_of_one_rank_runs_without_the_other(folder: Path) -> None:
    done = sonde(folder, "replay", "sonde_steps/step_3.rank_1", "--run-setup")
    assert done.returncode == 0, done.stderr
    assert "exact: 7 tensors" in done.stdout
    assert "from row 5 of the batch of 16" in done.stdout
