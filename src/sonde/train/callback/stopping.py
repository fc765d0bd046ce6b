"""Stops a run early: after a time limit, or on request (signal or file)."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from sonde.core.arguments import check_string
from sonde.core.callback import Callback, RunContext
from sonde.core.errors import UsageError
from sonde.train.checkpoint.checkpoint import save_checkpoint
from sonde.train.checkpoint.format import FORMATS
from sonde.train.ranks import any_rank, rank, rank_suffix

_log = logging.getLogger("sonde.train")


class StopAtTime(Callback):
    """Ends training ``run_time`` minutes after its start, after a step, and prints that step.

    All ranks stop when the time of one of them is over.
    """

    def __init__(self, run_time: float) -> None:
        if not isinstance(run_time, int | float) or not run_time >= 0:
            raise UsageError(f"run_time is in minutes, not {run_time!r}", slug="run-time")
        self._seconds = run_time * 60
        self._started = 0.0

    def on_train_begin(self, run_context: RunContext) -> None:
        self._started = time.monotonic()

    def on_train_step_end(self, run_context: RunContext) -> None:
        if any_rank(time.monotonic() - self._started > self._seconds):
            arguments = run_context.original_args()
            print(
                f"epoch: {arguments.cur_epoch_num} step: {arguments.cur_step_in_epoch} "
                f"loss: {arguments.get('net_outputs')}",
                flush=True,
            )
            run_context.request_stop()


class OnRequestExit(Callback):
    """Ends training after the current step on a signal (SIGTERM), or when a file requests it.

    With ``save_ckpt`` the run is saved to ``{directory}/{file_name}_train.{format}``, with its
    training state, so it can be resumed. ``config_file`` is read after each step: the JSON object
    ``{"GracefulExit": 1}`` has the effect of the signal. The signal handler is installed only in
    the main thread, and the previous one is restored after training. A request to one rank ends all
    ranks after the same step; ranks above 0 add ``_rank{n}`` to the file name.
    """

    def __init__(
        self,
        save_ckpt: bool = True,
        file_name: str = "Net",
        directory: str | os.PathLike[str] = "./",
        config_file: str | os.PathLike[str] | None = None,
        sig: int = signal.SIGTERM,
        format: str = "ckpt",
    ) -> None:
        check_string(format, FORMATS, "format", "OnRequestExit")
        self._save = save_ckpt
        self._path = Path(directory) / f"{file_name}{rank_suffix(rank())}_train.{format}"
        self._config_file = None if config_file is None else Path(config_file)
        self._signal = sig
        self._previous: Any = None
        self._requested = False

    def on_train_begin(self, run_context: RunContext) -> None:
        self._requested = False
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(self._signal, self._request)

    def on_train_step_end(self, run_context: RunContext) -> None:
        if not any_rank(self._requested or self._is_requested_by_file()):
            return
        if self._save:
            network = run_context.original_args().train_network
            saved = save_checkpoint(
                network, self._path, training_state=run_context.training_state()
            )
            _log.warning("asked to exit: saved %s", saved)
        run_context.request_stop()

    def __exit__(self, *error: object) -> None:
        if self._previous is not None:
            signal.signal(self._signal, self._previous)
            self._previous = None

    def _request(self, number: int, frame: FrameType | None) -> None:
        self._requested = True

    def _is_requested_by_file(self) -> bool:
        if self._config_file is None or not self._config_file.is_file():
            return False
        try:
            content = json.loads(self._config_file.read_text())
        except (OSError, ValueError, RecursionError):
            return False  # the file is being written: read it again after the next step
        return isinstance(content, dict) and content.get("GracefulExit") == 1
