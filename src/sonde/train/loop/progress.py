"""A progress bar with loss, speed and remaining time."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sonde.core.callback import Callback, RunContext
from sonde.train.loop.step_loss import loss_number

_REFRESH_SECONDS = 0.1


class ProgressBar(Callback):
    """Shows one line for the current epoch.

    The loss is read from its device only when the line is redrawn, at most ten times a second.
    No thread is started. ``console`` is for output elsewhere than the terminal.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._progress: Progress | None = None
        self._task: Any = None
        self._drawn = 0.0

    @staticmethod
    def is_useful() -> bool:
        """Whether there is a terminal to draw on."""
        return Console().is_terminal

    def on_train_begin(self, run_context: RunContext) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self._console,
            auto_refresh=False,
        )
        self._progress.start()

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        if self._progress is None:
            return
        arguments = run_context.original_args()
        if self._task is not None:
            self._progress.remove_task(self._task)
        total = arguments.epoch_num or "?"
        self._task = self._progress.add_task(
            f"epoch {arguments.cur_epoch_num}/{total}",
            total=arguments.batch_num,
            completed=arguments.cur_step_in_epoch,
            loss="",
            speed="",
        )

    def on_train_step_end(self, run_context: RunContext) -> None:
        now = time.monotonic()
        if self._progress is None or now - self._drawn < _REFRESH_SECONDS:
            return
        self._drawn = now
        self._draw(run_context)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        if self._progress is not None:
            self._draw(run_context)

    def on_eval_begin(self, run_context: RunContext) -> None:
        """Evaluations inside training do not change the line."""

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = self._task = None

    def _draw(self, run_context: RunContext) -> None:
        assert self._progress is not None
        arguments = run_context.original_args()
        loss = loss_number(arguments.get("net_outputs"))
        task = self._progress.tasks[-1]
        self._progress.update(
            self._task,
            total=arguments.batch_num,
            completed=arguments.cur_step_in_epoch,
            loss="" if loss is None else f"loss {loss:.4g}",
            speed="" if task.speed is None else f"{task.speed:.1f} steps/s",
        )
        self._progress.refresh()
