"""``EarlyStopping`` and ``SaveBest``: act on whether a monitored value improves."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sonde.core.arguments import check_non_negative_int, check_string, check_value_type
from sonde.core.callback import Callback, RunArguments, RunContext
from sonde.core.errors import UsageError
from sonde.train.checkpoint.checkpoint import save_checkpoint
from sonde.train.checkpoint.format import FORMATS
from sonde.train.loop.step_loss import loss_number
from sonde.train.ranks import any_rank, rank

if TYPE_CHECKING:
    from sonde.train.loop.model import Model

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
    """The last loss for ``loss``, else the result of the evaluation; None if there is none."""
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
    """Whether ``value`` is better than ``best`` by more than ``min_delta``; NaN never is."""
    if best is None:
        return not math.isnan(value)
    return value > best + min_delta if mode == "max" else value < best - min_delta


class EarlyStopping(Callback):
    """Ends training when ``monitor`` has not improved for ``patience`` epochs.

    An improvement is a change by more than ``min_delta`` in the right direction; with ``baseline``
    the first value must be better than it. ``restore_best_weights`` loads the weights of the best
    epoch at the stop. NaN is no improvement. All ranks stop when one of them does.
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
                self._weights = {
                    name: value.detach().clone()
                    for name, value in arguments.train_network.state_dict().items()
                }
        else:
            self._wait += 1
        if any_rank(self._wait >= max(self._patience, 1)):
            self._stop(run_context)

    def on_train_end(self, run_context: RunContext) -> None:
        if self.stopped_epoch and self._verbose:
            print(
                f"Epoch {self.stopped_epoch}: early stopping, best {self._monitor} {self._best!s}"
            )

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


class SaveBest(Callback):
    """Saves the network to ``{directory}/{file_name}.{format}`` whenever ``monitor`` improves.

    With ``model`` and ``eval_dataset`` it runs its own evaluation, after every epoch or with
    ``every="step"`` after every step. Without them it uses the results of ``fit``, or ``"loss"``.
    The first save must improve on ``baseline``. ``best`` is the best value so far, ``path`` its
    file, from which training can be resumed. Of several ranks, rank 0 saves.
    """

    def __init__(
        self,
        monitor: str = "eval_accuracy",
        model: Model | None = None,
        eval_dataset: Iterable[Any] | None = None,
        *,
        every: str = "epoch",
        mode: str = "auto",
        baseline: float | None = None,
        min_delta: float = 0,
        directory: str | os.PathLike[str] = ".",
        file_name: str = "best",
        format: str = "ckpt",
        verbose: bool = True,
    ) -> None:
        if every not in ("epoch", "step"):
            raise UsageError("SaveBest: every is 'epoch' or 'step'", slug="save-best")
        if (model is None) != (eval_dataset is None):
            raise UsageError("SaveBest needs model and eval_dataset together", slug="save-best")
        if every == "step" and model is None and monitor != "loss":
            raise UsageError(
                "SaveBest: every='step' needs model and eval_dataset", slug="save-best"
            )
        check_string(format, FORMATS, "format", "SaveBest")
        self._monitor = monitor
        self._model = model
        self._dataset = eval_dataset
        self._every = every
        self._mode = resolved_mode(mode, monitor)
        self._baseline = baseline
        self._min_delta = abs(min_delta)
        self._file = Path(directory) / f"{file_name}.{format}"
        self._verbose = verbose
        self.best: float | None = baseline
        self.path: Path | None = None

    def on_train_begin(self, run_context: RunContext) -> None:
        self.best, self.path = self._baseline, None

    def on_train_step_end(self, run_context: RunContext) -> None:
        if self._every == "step":
            self._consider(run_context)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        if self._every == "epoch":
            self._consider(run_context)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "path": None if self.path is None else str(self.path)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = state["best"]
        self.path = None if state["path"] is None else Path(state["path"])

    def _consider(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        value = self._value(run_context)
        if value is None or not improves(value, self.best, self._mode, self._min_delta):
            return
        self.best = value
        self.path = self._file
        if rank() != 0:
            return
        save_checkpoint(
            arguments.train_network, self._file, training_state=run_context.training_state()
        )
        if self._verbose:
            print(
                f"epoch: {arguments.cur_epoch_num} step: {arguments.cur_step_in_epoch}, "
                f"best {self._monitor} {value!s} saved to {self.path}",
                flush=True,
            )

    def _value(self, run_context: RunContext) -> float | None:
        if self._model is None or self._dataset is None:
            return monitored_value(run_context.original_args(), self._monitor)
        results = self._model.eval(self._dataset)
        name = self._monitor.removeprefix("eval_")
        if name not in results:
            raise UsageError(
                f"SaveBest: the model evaluates {', '.join(results)}, not {name!r}",
                slug="save-best",
            )
        return float(results[name])
