"""``SaveBest``: keeps the checkpoint with the best result so far."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.core.callback import Callback, RunContext
from sonde.core.errors import UsageError
from sonde.train.callback.plateau import improves, monitored_value, resolved_mode
from sonde.train.checkpoint.checkpoint import save_checkpoint
from sonde.train.checkpoint.format import FORMATS
from sonde.train.ranks import rank
from sonde.train.validator import check_string

if TYPE_CHECKING:
    from sonde.train.loop.model import Model


class SaveBest(Callback):
    """Saves the network to ``{directory}/{file_name}.{format}`` whenever ``monitor`` improves.

    With ``model`` and ``eval_dataset`` it evaluates by itself, after every epoch or with
    ``every="step"`` after every step. Without them it uses what ``fit`` evaluated, or ``"loss"``.
    ``baseline`` is the value the first save must beat. ``best`` is the best value so far, ``path``
    its file, from which training can go on with the next epoch. Of several ranks rank 0 saves.
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
                f"best {self._monitor} {value} saved to {self.path}",
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
