"""What to do when a result stops getting better: end the run, or lower the learning rate."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch.optim import lr_scheduler

from sonde.core.callback import Callback, RunArguments, RunContext
from sonde.core.errors import UsageError
from sonde.train.callback.rate import parameter_groups
from sonde.train.loop.step_loss import loss_number
from sonde.train.ranks import any_rank
from sonde.train.validator import check_non_negative_float, check_non_negative_int, check_value_type

_MODES = ("auto", "min", "max")


def resolved_mode(mode: str, monitor: str) -> str:
    """``min`` or ``max``; auto means max for names with ``acc``, ``auc`` or ``f1``, else min."""
    check_value_type("monitor", monitor, str)
    if mode not in _MODES:
        raise UsageError(f"mode is one of {', '.join(_MODES)}, not {mode!r}", slug="monitor-mode")
    if mode != "auto":
        return mode
    return "max" if any(word in monitor.lower() for word in ("acc", "auc", "f1")) else "min"


def monitored_value(arguments: RunArguments, monitor: str) -> float | None:
    """The loss of the last step for ``loss``, else the evaluation's result; None without one."""
    if monitor == "loss":
        return loss_number(arguments.get("net_outputs"))
    results: dict[str, Any] = arguments.get("eval_results") or {}
    if monitor not in results:
        known = ", ".join(["loss", *results]) if results else "loss"
        warnings.warn(
            f"{monitor!r} was not evaluated in epoch {arguments.cur_epoch_num}; known: {known}. "
            "Give fit a valid_dataset and the metric, or report it in your own loop",
            stacklevel=2,
        )
        return None
    return float(results[monitor])


def improves(value: float, best: float | None, mode: str, min_delta: float) -> bool:
    """Whether ``value`` beats ``best`` by more than ``min_delta``; NaN never does."""
    if best is None:
        return not math.isnan(value)
    return value > best + min_delta if mode == "max" else value < best - min_delta


class EarlyStopping(Callback):
    """Ends training when ``monitor`` has not improved for ``patience`` epochs.

    An improvement is a change by more than ``min_delta`` in the right direction; with ``baseline``
    the first value must already beat that. ``restore_best_weights`` puts the weights of the best
    epoch back when it stops. NaN counts as no improvement. All ranks stop with the first.
    """

    def __init__(
        self,
        monitor: str = "eval_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: bool = False,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
    ) -> None:
        self._monitor = monitor
        self._mode = resolved_mode(mode, monitor)
        check_value_type("min_delta", min_delta, (int, float), "EarlyStopping")
        self._min_delta = abs(min_delta)
        self._patience = check_non_negative_int(patience, "patience", "EarlyStopping")
        self._verbose = verbose
        self._baseline = baseline
        self._restore = restore_best_weights
        self._best: float | None = None
        self._wait = 0
        self._weights: dict[str, torch.Tensor] | None = None
        self.stopped_epoch = 0

    def on_train_begin(self, run_context: RunContext) -> None:
        self._best = self._baseline
        self._wait = self.stopped_epoch = 0
        self._weights = None

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        value = monitored_value(arguments, self._monitor)
        if value is None:
            return
        if improves(value, self._best, self._mode, self._min_delta):
            self._best, self._wait = value, 0
            if self._restore:
                self._weights = _copy_of(arguments.train_network)
        else:
            self._wait += 1
        if any_rank(self._wait >= max(self._patience, 1)):
            self._stop(run_context)

    def on_train_end(self, run_context: RunContext) -> None:
        if self.stopped_epoch and self._verbose:
            print(f"Epoch {self.stopped_epoch}: early stopping, best {self._monitor} {self._best}")

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best, "wait": self._wait, "weights": self._weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._best, self._wait, self._weights = state["best"], state["wait"], state["weights"]

    def _stop(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        self.stopped_epoch = arguments.cur_epoch_num
        run_context.request_stop()
        if self._weights is not None:
            arguments.train_network.load_state_dict(self._weights)


class ReduceLROnPlateau(Callback):
    """Multiplies the learning rate by ``factor`` after ``patience`` epochs without improvement.

    The counting is ``torch.optim.lr_scheduler.ReduceLROnPlateau``'s with absolute ``min_delta``;
    as in the reference, the ``patience``-th bad epoch already lowers the rate. ``cooldown`` epochs
    after a change do not count, ``min_lr`` is the floor. NaN counts as no improvement.
    """

    def __init__(
        self,
        monitor: str = "eval_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: bool = False,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        check_value_type("factor", factor, (int, float), "ReduceLROnPlateau")
        check_value_type("min_delta", min_delta, (int, float), "ReduceLROnPlateau")
        if not 0 <= factor < 1:
            raise UsageError(
                f"factor lowers the rate: 0 <= factor < 1, not {factor}", slug="factor"
            )
        self._monitor = monitor
        self._verbose = verbose
        self._options: dict[str, Any] = {
            "mode": resolved_mode(mode, monitor),
            "factor": factor,
            "patience": max(check_non_negative_int(patience, "patience", "ReduceLROnPlateau"), 1)
            - 1,
            "threshold": abs(min_delta),
            "threshold_mode": "abs",
            "cooldown": check_non_negative_int(cooldown, "cooldown", "ReduceLROnPlateau"),
            "min_lr": check_non_negative_float(min_lr, "min_lr", "ReduceLROnPlateau"),
            "eps": 0.0,
        }
        self._scheduler: lr_scheduler.ReduceLROnPlateau | None = None

    def on_train_begin(self, run_context: RunContext) -> None:
        optimizer = run_context.original_args().optimizer
        parameter_groups(optimizer, "ReduceLROnPlateau")
        self._scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, **self._options)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        value = monitored_value(arguments, self._monitor)
        if value is None or self._scheduler is None:
            return
        before = [float(group["lr"]) for group in arguments.optimizer.param_groups]
        self._scheduler.step(value)
        after = [float(group["lr"]) for group in arguments.optimizer.param_groups]
        if self._verbose and after != before:
            print(f"Epoch {arguments.cur_epoch_num}: learning rate {before} lowered to {after}")

    def state_dict(self) -> dict[str, Any]:
        return {} if self._scheduler is None else dict(self._scheduler.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._scheduler is not None:
            self._scheduler.load_state_dict(state)


def _copy_of(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}
