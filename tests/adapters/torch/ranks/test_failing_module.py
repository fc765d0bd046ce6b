"""An exception in a module whose calls are screened reaches the program as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from sonde.adapters.torch.ranks.non_finite.search import NonFiniteSearch
from sonde.adapters.torch.ranks.step_report import StepReporter
from sonde.ranks.options import RankOptions


class Picky(nn.Module):
    """Refuses what is too large."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.max() > 10):
            raise KeyError("too large")
        out: torch.Tensor = self.layer(x)
        return out


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_exception_of_a_screened_module_is_that_of_the_program(one_rank: None) -> None:
    model = Picky()
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shield = nullcontext()

    def fail(error: Exception) -> None:
        raise error

    before = dict(model._forward_hooks), dict(model._forward_pre_hooks)
    with ExitStack() as undo:
        steps = StepReporter(
            lambda report: None, RankOptions(), shield, NonFiniteSearch(fail, shield)
        )
        steps.install(undo)
        steps.begin(0, 1)
        for _ in range(2):
            with pytest.raises(KeyError, match="too large"):
                model(torch.full((3, 4), 11.0))
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
    assert (dict(model._forward_hooks), dict(model._forward_pre_hooks)) == before
