"""``LossMonitor``, ``TimeMonitor`` and ``GradientMonitor``: print how a training is going."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass

import torch
from torch import nn

from sonde.core.arguments import check_non_negative_int, check_positive_int
from sonde.core.callback import Callback, RunContext
from sonde.core.errors import SondeError, UsageError
from sonde.core.running_training import first_bad_op
from sonde.train.checks import GradientReport, change_ratio, check_gradients
from sonde.train.loop.step_loss import loss_number


class NonFiniteLossError(SondeError, ValueError):
    """The loss is NaN or Inf. Its text is exactly MindSpore's, so it has no slug."""

    def __init__(self, message: str) -> None:
        super().__init__(message, slug="loss-not-finite")
        self.args = (message,)


class LossMonitor(Callback):
    """Prints ``epoch: 1 step: 1, loss is 2.28...`` every ``per_print_times`` steps (0: never).

    A loss that is NaN or Inf raises ``NonFiniteLossError``, a ``ValueError``; when Sonde observes
    the run, the message names the op that produced the first NaN or Inf. The printed step counts
    from 1 in each epoch. After an evaluation in ``fit`` the results are printed.
    """

    def __init__(self, per_print_times: int = 1) -> None:
        self._every = check_non_negative_int(per_print_times, "per_print_times", "LossMonitor")
        self._last_print = 0

    def on_train_begin(self, run_context: RunContext) -> None:
        self._last_print = run_context.original_args().cur_step_num

    def on_train_step_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        loss = loss_number(arguments.get("net_outputs"))
        if loss is None:
            raise UsageError(
                "LossMonitor found no loss: in a loop of your own set cb.loss in every step",
                slug="no-loss",
            )
        epoch, step = arguments.cur_epoch_num, arguments.cur_step_in_epoch
        if not math.isfinite(loss):
            op = first_bad_op()
            raise NonFiniteLossError(
                f"In epoch: {epoch} step: {step}, loss is NAN or INF, training process cannot "
                "continue, terminating training."
                + (f" The first NaN or Inf came from {op}." if op else "")
            )
        if self._every and arguments.cur_step_num - self._last_print >= self._every:
            self._last_print = arguments.cur_step_num
            print(f"epoch: {epoch} step: {step}, loss is {loss}", flush=True)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        if arguments.get("metrics"):
            shown = dict(arguments.metrics)
            print(f"Eval result: epoch {arguments.cur_epoch_num}, metrics: {shown}", flush=True)


class TimeMonitor(Callback):
    """Prints the time of each epoch and the mean time of its steps, in milliseconds.

    ``data_size`` is the number of steps to divide by (default: the steps of the epoch).
    ``data_time=True`` adds the shortest, longest and mean wait for a batch. The monitor does not
    wait for asynchronous devices.
    """

    def __init__(self, data_size: int | None = None, data_time: bool = False) -> None:
        if data_size is not None:
            check_positive_int(data_size, "data_size", "TimeMonitor")
        self._data_size = data_size
        self._data_time = data_time
        self._epoch_started = self._waiting_since = 0.0
        self._waits: list[float] = []
        self._steps = 0

    def epoch_begin(self, run_context: RunContext) -> None:
        self._epoch_started = self._waiting_since = time.perf_counter()
        self._waits = []
        self._steps = 0

    def step_begin(self, run_context: RunContext) -> None:
        if self._data_time:
            self._waits.append(time.perf_counter() - self._waiting_since)

    def step_end(self, run_context: RunContext) -> None:
        self._steps += 1
        self._waiting_since = time.perf_counter()

    def epoch_end(self, run_context: RunContext) -> None:
        milliseconds = (time.perf_counter() - self._epoch_started) * 1000
        mode = str(run_context.original_args().get("mode", "train")).title()
        per_step = milliseconds / (self._data_size or max(self._steps, 1))
        line = f"{mode} epoch time: {milliseconds:5.3f} ms, per step time: {per_step:5.3f} ms"
        if self._waits:
            waits = [wait * 1000 for wait in self._waits]
            line += (
                f" (data time: min {min(waits):.3f} ms, max {max(waits):.3f} ms, "
                f"avg {sum(waits) / len(waits):.3f} ms)"
            )
        print(line, flush=True)


@dataclass(frozen=True, slots=True)
class GradientRecord:
    """One step: the report on all gradients, and the update ratio of each weight.

    The ratio is the L2 norm of the update divided by that of the weight; Inf where an all-zero
    weight changed. Gradients are the unscaled ones.
    """

    epoch: int
    step: int
    report: GradientReport
    update_ratios: dict[str, float]

    @property
    def largest_update(self) -> tuple[str, float]:
        """The weight with the largest ratio, and the ratio; NaN counts as the largest."""
        return max(
            self.update_ratios.items(),
            key=lambda item: math.inf if math.isnan(item[1]) else item[1],
            default=("", 0.0),
        )


_REPORTED = ("not finite", "exploding", "vanishing", "underflow")
"""The verdicts that the printed line names."""


class GradientMonitor(Callback):
    """Records gradients and updates every ``per_steps`` steps; ``verbose`` prints a line each.

    ``records`` keeps the last ``keep`` records. The weights are copied once in each recorded step;
    other steps cost nothing.
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
        ratios = {
            name: change_ratio(old, parameters[name].detach()) for name, old in self._before.items()
        }
        self._before = {}
        report = check_gradients(arguments.train_network)
        record = GradientRecord(
            arguments.cur_epoch_num, arguments.cur_step_in_epoch, report, ratios
        )
        self.records.append(record)
        if self._verbose:
            print(_line(record), flush=True)


def _line(record: GradientRecord) -> str:
    report = record.report
    zero = sum(len(report.named(each)) for each in ("zero", "missing", "underflow"))
    name, ratio = record.largest_update
    parts = [
        f"epoch: {record.epoch} step: {record.step}, gradient norm {report.total_norm:.6g}",
        f"zero or missing {zero} of {len(report.gradients)}",
        f"largest update {ratio:.3g} ({name})",
    ]
    parts += [f"{kind} {names[0]}" for kind in _REPORTED if (names := report.named(kind))]
    return ", ".join(parts)
