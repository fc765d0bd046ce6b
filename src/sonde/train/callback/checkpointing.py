"""``ModelCheckpoint``: saves a run regularly and keeps the newest files."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from sonde.core.arguments import (
    check_non_negative_float,
    check_non_negative_int,
    check_positive_int,
    check_value_type,
)
from sonde.core.callback import Callback, RunArguments, RunContext
from sonde.core.errors import UsageError
from sonde.core.files.atomic_file import remove_stale_partials
from sonde.core.files.directories import make_directory
from sonde.core.files.mindspore_ckpt import CheckpointError
from sonde.train.checkpoint.checkpoint import checkpoints_in, save_checkpoint, save_checkpoint_async
from sonde.train.checkpoint.format import FORMATS
from sonde.train.ranks import rank, rank_suffix

_log = logging.getLogger("sonde.train")
_COUNTERS = {"epoch_num": "cur_epoch_num", "step_num": "cur_step_num"}


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """When ``ModelCheckpoint`` saves, what it keeps, and how it writes.

    A checkpoint is due ``save_checkpoint_steps`` steps or ``save_checkpoint_seconds`` seconds after
    the last one, whichever comes first; with neither given, after every step. The newest
    ``keep_checkpoint_max`` files are kept (0: all of them); of older ones, one for each
    ``keep_checkpoint_per_n_minutes`` minutes (0: none).

    ``async_save`` writes in the background. ``append_info`` adds ``"epoch_num"``, ``"step_num"``
    and a dict of the user's numbers and texts to the file. ``training_state=False`` saves only the
    weights: the file is smaller, but a run cannot be resumed from it.
    """

    save_checkpoint_steps: int | None = None
    save_checkpoint_seconds: float = 0
    keep_checkpoint_max: int = 5
    keep_checkpoint_per_n_minutes: float = 0
    async_save: bool = False
    saved_network: nn.Module | None = None
    append_info: Sequence[str | Mapping[str, Any]] = ()
    crc_check: bool = False
    format: str = "ckpt"
    training_state: bool = True

    def __post_init__(self) -> None:
        owner = "CheckpointConfig"
        if self.save_checkpoint_steps is not None:
            check_positive_int(self.save_checkpoint_steps, "save_checkpoint_steps", owner)
        check_non_negative_float(self.save_checkpoint_seconds, "save_checkpoint_seconds", owner)
        check_non_negative_int(self.keep_checkpoint_max, "keep_checkpoint_max", owner)
        check_non_negative_float(
            self.keep_checkpoint_per_n_minutes, "keep_checkpoint_per_n_minutes", owner
        )
        check_value_type("append_info", self.append_info, (list, tuple), owner)
        if self.format not in FORMATS:
            raise CheckpointError(
                f"{self.format!r} is not a checkpoint format; use {', '.join(FORMATS)}",
                slug="checkpoint-format",
            )
        for item in self.append_info:
            if item not in _COUNTERS if isinstance(item, str) else not isinstance(item, Mapping):
                raise UsageError(
                    f"append_info knows {', '.join(_COUNTERS)} and a dict, not {item!r}",
                    slug="append-info",
                )

    def is_due(self, steps: int, seconds: float) -> bool:
        """Whether to save, so many steps and seconds after the last checkpoint."""
        if self.save_checkpoint_steps is None and not self.save_checkpoint_seconds:
            return True
        by_steps = self.save_checkpoint_steps is not None and steps >= self.save_checkpoint_steps
        return by_steps or 0 < self.save_checkpoint_seconds <= seconds

    def appended(self, arguments: RunArguments) -> dict[str, Any]:
        """The current values of ``append_info``."""
        found: dict[str, Any] = {}
        for item in self.append_info:
            found.update({item: arguments[_COUNTERS[item]]} if isinstance(item, str) else item)
        return found


class ModelCheckpoint(Callback):
    """Saves the network and the training state to ``{prefix}-{epoch}_{step}.{format}``.

    The last step of training is always saved. When ``directory`` (default: the current one) has
    files of this prefix from another run, ``prefix_1``, ``prefix_2``, ... is used; a resumed run
    keeps its prefix. Ranks above 0 add ``_rank{n}``. Old files are removed only after a new one is
    complete. A write that fails (a full disk) is logged and does not end training; the next
    checkpoint tries again. If the last one fails, the end of training raises the error.
    """

    def __init__(
        self,
        prefix: str = "CKP",
        directory: str | os.PathLike[str] | None = None,
        config: CheckpointConfig | None = None,
    ) -> None:
        if not isinstance(prefix, str) or not prefix or "/" in prefix or prefix.startswith("."):
            raise UsageError(
                f"prefix begins a file name: {prefix!r} is empty, hidden or has a '/'",
                slug="checkpoint-prefix",
            )
        if config is not None:
            check_value_type("config", config, CheckpointConfig, "ModelCheckpoint")
        self._config = config or CheckpointConfig()
        self._given_prefix = self._prefix = prefix
        self._directory = Path(directory or ".")
        self._saved: list[tuple[Path, float]] = []
        self._pending: Future[Path] | None = None
        self._failure: OSError | None = None
        self._last_step = 0
        self._last_time = 0.0

    @property
    def latest_ckpt_file_name(self) -> str:
        """The newest complete checkpoint; empty before the first one."""
        return str(self._saved[-1][0]) if self._saved else ""

    def on_train_begin(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        base = self._rank_prefix()
        resumed = arguments.initial_step > 0
        self._prefix = base if resumed else _unused_prefix(self._directory, base)
        self._saved = _existing(self._directory, self._prefix)
        self._last_step = arguments.cur_step_num
        self._last_time = time.monotonic()
        self._failure = None
        try:
            make_directory(self._directory)
        except OSError as error:
            raise CheckpointError(
                f"checkpoints cannot be saved in {self._directory}: {error.strerror}; give "
                "ModelCheckpoint another directory",
                slug="checkpoint-path",
            ) from error
        remove_stale_partials(self._directory, self._prefix)

    def on_train_step_end(self, run_context: RunContext) -> None:
        steps = run_context.original_args().cur_step_num - self._last_step
        if self._config.is_due(steps, time.monotonic() - self._last_time):
            self._save(run_context)

    def on_train_end(self, run_context: RunContext) -> None:
        if run_context.original_args().cur_step_num != self._last_step or self._failure:
            self._save(run_context)
        self._collect(run_context.original_args())
        if self._failure is not None:
            raise CheckpointError(
                f"the last checkpoint could not be saved in {self._directory}: {self._failure}",
                slug="checkpoint-not-saved",
            ) from self._failure

    def state_dict(self) -> dict[str, Any]:
        return {"prefix": self._prefix}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        base = self._rank_prefix()
        if re.fullmatch(rf"{re.escape(base)}(_\d+)?", state["prefix"]):
            self._prefix = state["prefix"]
        else:  # resumed with another prefix, of which another run may have files
            self._prefix = _unused_prefix(self._directory, base)
        self._saved = _existing(self._directory, self._prefix)

    def __exit__(self, *error: object) -> None:
        if self._pending is not None:
            self._collect(RunArguments())

    def _rank_prefix(self) -> str:
        return self._given_prefix + rank_suffix(rank())

    def _save(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        self._collect(arguments)
        config = self._config
        self._last_step = arguments.cur_step_num
        self._last_time = time.monotonic()
        name = f"{self._prefix}-{arguments.cur_epoch_num}_{arguments.cur_step_in_epoch}"
        save = save_checkpoint_async if config.async_save else save_checkpoint
        try:
            result = save(
                config.saved_network or arguments.train_network,
                self._directory / f"{name}.{config.format}",
                append_dict=config.appended(arguments),
                crc_check=config.crc_check,
                format=config.format,
                training_state=run_context.training_state() if config.training_state else None,
            )
        except OSError as error:
            self._note_failure(error)
            return
        if isinstance(result, Future):
            self._pending = result
        else:
            self._note_success(result, arguments)

    def _collect(self, arguments: RunArguments) -> None:
        """Wait for the write in the background, if there is one."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            self._note_success(pending.result(), arguments)
        except OSError as error:
            self._note_failure(error)

    def _note_success(self, path: Path, arguments: RunArguments) -> None:
        self._failure = None
        _log.info("checkpoint saved: %s", path)
        self._saved = [item for item in self._saved if item[0] != path]
        self._saved.append((path, time.time()))
        arguments.update(latest_ckpt_file=str(path), last_save_ckpt_step=self._last_step)
        config = self._config
        for old in superfluous(
            self._saved, config.keep_checkpoint_max, config.keep_checkpoint_per_n_minutes * 60
        ):
            old.unlink(missing_ok=True)
            self._saved = [item for item in self._saved if item[0] != old]

    def _note_failure(self, error: OSError) -> None:
        self._failure = error
        _log.error("checkpoint in %s not saved, training goes on: %s", self._directory, error)


def superfluous(
    saved: Sequence[tuple[Path, float]], newest: int, apart_seconds: float
) -> list[Path]:
    """The files to delete, of files with their times in seconds, oldest first.

    Kept are the last ``newest`` and, of the older ones, the oldest and then each that is
    ``apart_seconds`` younger than the one kept before it. 0 and 0 keep everything.
    """
    if not newest and not apart_seconds:
        return []
    older = saved[: -max(newest, 1)]
    if not apart_seconds:
        return [path for path, _ in older]
    found: list[Path] = []
    kept: float | None = None
    for path, moment in older:
        if kept is None or moment - kept >= apart_seconds:
            kept = moment
        else:
            found.append(path)
    return found


def _existing(directory: Path, prefix: str) -> list[tuple[Path, float]]:
    """The checkpoints with exactly this prefix, oldest first."""
    pattern = re.compile(rf"{re.escape(prefix)}-\d+_\d+\.({'|'.join(FORMATS)})$")
    found = [path for path in checkpoints_in(directory) if pattern.match(path.name)]
    return [(path, path.stat().st_mtime) for path in reversed(found)]


def _unused_prefix(directory: Path, prefix: str) -> str:
    number, candidate = 0, prefix
    while _existing(directory, candidate):
        number += 1
        candidate = f"{prefix}_{number}"
    return candidate
