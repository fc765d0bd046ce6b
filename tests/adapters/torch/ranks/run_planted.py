"""Runs the planted trainings in the processes of a job, bare and compared, and keeps the reports.

Started by the tests as ``python -m tests.adapters.torch.ranks.run_planted RANK WORLD DIRECTORY``,
for the slow trainings with ``slow`` after that.
"""

from __future__ import annotations

import datetime
import math
import pickle
import sys
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from tests.adapters.torch.ranks import planted_catalogue as planted
from torch.optim.optimizer import register_optimizer_step_pre_hook

from sonde.adapters.torch.ranks import checking, sampling
from sonde.adapters.torch.ranks.communication.recorded_collectives import (
    LineMarks,
    RecordedCollectives,
)
from sonde.adapters.torch.ranks.gradients.ddp_buckets import DdpBuckets
from sonde.adapters.torch.ranks.private import limit_recorder
from sonde.ranks.options import RankOptions
from sonde.ranks.report import RankReport


class Kept:
    """Takes the place of the sender: the reports stay in this process."""

    made: ClassVar[list[Kept]] = []

    def __init__(
        self,
        options: RankOptions,
        store: Any,
        say: Any,
        marks: LineMarks,
        buckets: DdpBuckets,
        **more: Any,
    ) -> None:
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.reports: list[RankReport] = []
        self.findings: list[Any] = []
        self.judged_steps = 1
        self.send = self.reports.append
        self.recorded = RecordedCollectives(self.rank, marks, buckets)
        self.recorded.new(at_once=True)  # Those of earlier trainings.
        Kept.made.append(self)

    def meet(self) -> None:
        """There is no server."""

    def close(self, error: BaseException | None = None) -> None:
        self.reports += self.recorded.new(at_once=True)


def run(rank: int, world: int, directory: Path, *, is_slow: bool) -> None:
    checking.ReportSender = Kept  # type: ignore[misc, assignment]
    limit_recorder(ExitStack())
    # The steps here last a millisecond: which of them are compared must not depend on the time.
    sampling._SHARE = sampling._SPOT_SHARE = math.inf  # type: ignore[misc]
    store = dist.FileStore(str(directory / "store"), world)
    wait = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=wait)
    two = {name: each.training for name, each in planted.FAULTS.items()} | planted.CONTROLS
    four = {name: each.training for name, each in planted.FAULTS_OF_FOUR.items()}
    chosen = two if world == 2 else four | planted.CONTROLS_OF_FOUR
    for name, training in (planted.SLOW_CONTROLS if is_slow else chosen).items():
        results = []
        for is_checked in (False, True):
            weights: list[torch.Tensor] = []
            error = ""
            try:
                if is_checked:
                    with checking.check_ranks(RankOptions()):
                        weights = trained(training, rank, world)
                else:
                    weights = trained(training, rank, world)
            except Exception:
                error = traceback.format_exc()
            dist.barrier()
            results.append((weights, error))
        (bare, first_error), (checked, second_error) = results
        is_same = len(bare) == len(checked) and all(
            torch.equal(left, right) or bool(left.isnan().any() and right.isnan().any())
            for left, right in zip(bare, checked, strict=False)
        )
        kept = Kept.made.pop().reports if Kept.made else []
        found = {
            "reports": kept,
            "is_same": is_same,
            "errors": (first_error, second_error),
            "weights": len(bare),
        }
        (directory / f"{name}.{rank}.pickle").write_bytes(pickle.dumps(found))
    dist.destroy_process_group()


def trained(training: planted.Training, rank: int, world: int) -> list[torch.Tensor]:
    """Run ``training``; what its optimizers changed, as it was in the end."""
    held: list[torch.optim.Optimizer] = []

    def keep(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not any(each is optimizer for each in held):
            held.append(optimizer)

    handle = register_optimizer_step_pre_hook(keep)
    try:
        torch.manual_seed(0)
        training(rank, world)
    finally:
        handle.remove()
    found = []
    for optimizer in held:
        for group in optimizer.param_groups:
            for each in group["params"]:
                found.append(getattr(each, "_local_tensor", each).detach().clone())
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), is_slow="slow" in sys.argv[4:])
