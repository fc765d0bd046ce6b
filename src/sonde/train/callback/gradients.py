"""``GradientMonitor``: norms, zero gradients and the size of updates, step by step."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sonde.core.callback import Callback, RunContext
from sonde.core.errors import UsageError
from sonde.train.checks import GradientReport, check_gradients
from sonde.train.validator import check_positive_int


@dataclass(frozen=True, slots=True)
class GradientRecord:
    """One step: all gradients' report, and per weight the L2 norm of its update over its own.

    A ratio is Inf where an all-zero weight changed, 0 where nothing did. With a loss scale the
    gradients are those after unscaling.
    """

    epoch: int
    step: int
    report: GradientReport
    update_ratios: dict[str, float]

    @property
    def largest_update(self) -> tuple[str, float]:
        """The weight that changed most, and its ratio; NaN counts as most."""
        return max(
            self.update_ratios.items(),
            key=lambda item: math.inf if math.isnan(item[1]) else item[1],
            default=("", 0.0),
        )


class GradientMonitor(Callback):
    """Watches gradients and updates every ``per_steps`` steps; prints a line unless told not to.

    ``records`` keeps the last ``keep`` of them. In a watched step the weights are copied once to
    know the update; other steps cost nothing.
    """

    def __init__(self, per_steps: int = 1, *, verbose: bool = True, keep: int = 1000) -> None:
        self._every = check_positive_int(per_steps, "per_steps", "GradientMonitor")
        self._verbose = verbose
        self._before: dict[str, torch.Tensor] = {}
        self.records: deque[GradientRecord] = deque(
            maxlen=check_positive_int(keep, "keep", "GradientMonitor")
        )

    def on_train_begin(self, run_context: RunContext) -> None:
        if not isinstance(run_context.original_args().train_network, nn.Module):
            raise UsageError("GradientMonitor needs the network of the run", slug="no-network")

    def on_train_step_begin(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        if arguments.cur_step_num % self._every == 0:
            self._before = {
                name: parameter.detach().clone()
                for name, parameter in arguments.train_network.named_parameters()
                if parameter.requires_grad
            }

    def on_train_step_end(self, run_context: RunContext) -> None:
        if not self._before:
            return
        arguments = run_context.original_args()
        parameters = dict(arguments.train_network.named_parameters())
        ratios = {name: _ratio(old, parameters[name]) for name, old in self._before.items()}
        self._before = {}
        report = check_gradients(arguments.train_network)
        record = GradientRecord(
            arguments.cur_epoch_num, arguments.cur_step_in_epoch, report, ratios
        )
        self.records.append(record)
        if self._verbose:
            print(_line(record), flush=True)


def _ratio(before: torch.Tensor, after: torch.Tensor) -> float:
    old = before.double()
    moved = float((after.detach().double() - old).norm())
    size = float(old.norm())
    return moved / size if size else (math.inf if moved else 0.0)


def _line(record: GradientRecord) -> str:
    report = record.report
    zero = len(report.named("zero")) + len(report.named("missing"))
    name, ratio = record.largest_update
    parts: list[Any] = [
        f"epoch: {record.epoch} step: {record.step}, gradient norm {report.total_norm:.6g}",
        f"zero or missing {zero} of {len(report.gradients)}",
        f"largest update {ratio:.3g} ({name})",
    ]
    parts += [f"{kind} {names[0]}" for kind in _LOUD if (names := report.named(kind))]
    return ", ".join(parts)


_LOUD = ("not finite", "exploding", "vanishing")
