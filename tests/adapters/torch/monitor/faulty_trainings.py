"""Small trainings, each with one planted fault in step 3 that a guard must find and explain.

The line of the fault has the comment FAULT. ``rows`` are the rows of the batch that it comes from.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

FAULTY_STEP = 3
ROWS = 16
STEPS = 6


class _Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.drop = nn.Dropout(0.2)
        self.last = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.last(self.drop(torch.tanh(self.first(x))))[:, 0]
        return found


class LogNet(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.log(x + 1))  # FAULT


class SquareRootNet(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden = hidden - hidden.detach() * (x[:, :1] == 0)
        return self.last(torch.sqrt(hidden * hidden))[:, 0]  # FAULT


class HalfNet(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        wide = hidden.half() * 400  # FAULT
        return self.last(wide.float() / 400)[:, 0]


class IndexNet(_Net):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        number = x[:, 0].abs().long() % 10 + (x[:, 0] == 99.0) * 10
        return self.last(self.table(number))[:, 0]  # FAULT


class SavedNet(_Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.exp(self.first(x).clamp(max=2))
        found: torch.Tensor = self.last(hidden)[:, 0]  # FAULT
        if bool((x == 99.0).any()):
            hidden += 1
        return found


class CountingNet(_Net):
    """Computes with a number that is another at every call, in rows that begin with 99."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        is_odd = x[:, :1] == 99.0
        return self.last(hidden + is_odd * next(_CALLS))[:, 0]  # FAULT


_CALLS = itertools.count()


@dataclass(frozen=True)
class Fault:
    """A training with a fault; ``line`` is where it is. ``rows``: None if it has none, which the
    line ``says``. ``options`` are those of the guard."""

    train: Callable[[], None]
    line: str
    rows: tuple[int, ...] | None = None
    step: int = FAULTY_STEP
    says: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The number of the line."""
        lines = inspect.getsource(inspect.getmodule(Fault)).splitlines()  # type: ignore[arg-type]
        found = [
            number
            for number, line in enumerate(lines, 1)
            if line.strip().startswith(self.line) and "# FAULT" in line
        ]
        return found[0]


def _batches(bad: Callable[[torch.Tensor], Any] | None, rows: int = ROWS) -> Iterable[torch.Tensor]:
    torch.manual_seed(0)
    batches = [torch.rand(rows, 4) + 0.5 for _ in range(STEPS)]
    if bad is not None:
        bad(batches[FAULTY_STEP])
    return batches


def _train(
    net: nn.Module,
    batches: Iterable[torch.Tensor],
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for x in batches:
        optimizer.zero_grad()
        found = net(x)  # FAULT if the network is compiled
        target = x.sum(1)
        loss = (found - target).square().mean() if loss_of is None else loss_of(found, target)
        loss.backward()
        optimizer.step()


def nan_in_forward() -> None:
    _train(LogNet(), _batches(lambda x: x[5, 2].fill_(-9)))


def nan_in_backward() -> None:
    _train(SquareRootNet(), _batches(lambda x: x[7].fill_(0)))


def overflow_of_float16() -> None:
    _train(HalfNet(), _batches(lambda x: x[2, 1].fill_(3e3)))


def bad_row_of_256() -> None:
    _train(LogNet(), _batches(lambda x: x[201, 3].fill_(-math.inf), rows=256))


def nan_in_loss() -> None:
    def loss_of(found: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (found - torch.log(target)).square().mean()  # FAULT

    _train(_Net(), _batches(lambda x: x[9].fill_(-1)), loss_of)


def nan_in_optimizer() -> None:
    """Step 2 has no gradient, and an epsilon of 0 makes the update 0 / 0; step 3 shows it."""
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, eps=0.0, betas=(0.0, 0.0))
    for step, x in enumerate(_batches(None)):
        optimizer.zero_grad()
        loss = net(x).square().mean() * (0 if step == FAULTY_STEP - 1 else 1)
        loss.backward()
        optimizer.step()  # FAULT


def exception_in_forward() -> None:
    _train(IndexNet(), _batches(lambda x: x[4, 0].fill_(99.0)))


def exception_in_backward() -> None:
    _train(SavedNet(), _batches(lambda x: x[4, 0].fill_(99.0)))


def lost_micro_batch() -> None:
    """The gradients of the first of two micro-batches are cleared in one step."""
    torch.manual_seed(0)
    net = _Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(LOSING_STEP + 3):
        x = torch.rand(ROWS, 4)
        optimizer.zero_grad()
        for part in x.split(ROWS // 2):
            if step == LOSING_STEP:
                optimizer.zero_grad()  # FAULT
            (net(part) - part.sum(1)).square().mean().backward()
        optimizer.step()


LOSING_STEP = 12


def nondeterministic_op() -> None:
    _train(CountingNet(), _batches(lambda x: x[6, 0].fill_(99.0)))


def spike() -> None:
    """After 150 quiet steps one target is enormous."""
    torch.manual_seed(0)
    net = _Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
    for step in range(SPIKE_STEP + 3):
        x = torch.rand(ROWS, 4)
        target = x.sum(1)
        if step == SPIKE_STEP:
            target[11] = 1e7
        optimizer.zero_grad()
        (net(x) - target).square().mean().backward()  # FAULT
        optimizer.step()


SPIKE_STEP = 150


def compiler_only_fault() -> None:
    """A backend of torch.compile computes NaN where eager code does not."""

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            found = graph(*args)
            x = next(each for each in args if each.shape == (ROWS, 4))
            return tuple(each + torch.where(x[0, 0] == 99.0, math.nan, 0.0) for each in found)

        return run

    torch._dynamo.reset()
    net = torch.compile(_Net(), backend=backend)
    _train(net, _batches(lambda x: x[0, 0].fill_(99.0)))


def _line_of(place: Any) -> str:
    lines = inspect.getsource(place).splitlines()
    return next(line.split("  # FAULT")[0].strip() for line in lines if "# FAULT" in line)


FAULTS: dict[str, Fault] = {
    "NaN in forward": Fault(nan_in_forward, _line_of(LogNet), (5,)),
    "NaN in backward": Fault(nan_in_backward, _line_of(SquareRootNet), (7,)),
    "overflow of float16": Fault(overflow_of_float16, _line_of(HalfNet), (2,)),
    "one bad row in 256": Fault(bad_row_of_256, _line_of(LogNet), (201,)),
    "NaN in the loss": Fault(nan_in_loss, _line_of(nan_in_loss), (9,)),
    "NaN in the optimizer": Fault(
        nan_in_optimizer,
        _line_of(nan_in_optimizer),
        says=("the update of step 2 by Adam", "no rows of the batch are at fault"),
    ),
    "exception in forward": Fault(exception_in_forward, _line_of(IndexNet), (4,)),
    "exception in backward": Fault(exception_in_backward, _line_of(SavedNet), (4,)),
    "lost micro-batch": Fault(
        lost_micro_batch,
        _line_of(lost_micro_batch),
        step=LOSING_STEP,
        says=("the gradients of micro-batch 0 of 2, all its 8 rows, were cleared",),
    ),
    "nondeterministic op": Fault(
        nondeterministic_op,
        _line_of(CountingNet),
        (6,),
        says=("the step is not deterministic, first at ",),
        options={"repeat_every": 1},
    ),
    "spike": Fault(spike, _line_of(spike), (11,), step=SPIKE_STEP),
    "compiler only": Fault(
        compiler_only_fault, _line_of(_train), (0,), says=("without the compiler do not",)
    ),
}
