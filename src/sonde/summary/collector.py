"""``SummaryCollector``: a callback that records a run as TensorBoard event files."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from sonde.core.callback import Callback, RunArguments, RunContext
from sonde.core.files.directories import make_directory
from sonde.dump.lineage import LINEAGE
from sonde.summary.errors import SummaryError
from sonde.summary.index import SummaryIndex, read_index
from sonde.summary.options import collected, directory, lineage_data, positive, positive_or_none

if TYPE_CHECKING:
    from sonde.summary.contents import Contents

_log = logging.getLogger("sonde.summary")

TENSOR_STEPS = 20
"""About how many steps of a run get histograms and pictures by default."""
STEPS_BETWEEN_TENSORS = 10
"""Every how many collected steps that happens if the length of the run is unknown."""
INDEX_SECONDS = 10.0


class SummaryCollector(Callback):
    """Collects loss, metrics, learning rate, histograms, pictures, graph and lineage.

    Numbers are collected in the first step and in every ``collect_freq``-th; histograms and
    pictures every ``collect_tensor_freq`` steps (without it, in about 20 steps of the run).
    ``collect_specified_data`` chooses the contents; with ``keep_default_action=False`` only what it
    names is collected. ``custom_lineage_data`` adds names and values (texts and numbers) to the
    lineage. ``max_file_size`` begins a new event file before one grows larger; ``max_total_size``
    deletes the oldest before all together do. Both are bytes.

    Only rank 0 writes. A failure while collecting is logged once and ends that part of the
    collecting, never the training.
    """

    def __init__(
        self,
        summary_dir: str | os.PathLike[str],
        collect_freq: int = 10,
        collect_specified_data: Mapping[str, Any] | None = None,
        keep_default_action: bool = True,
        custom_lineage_data: Mapping[str, Any] | None = None,
        collect_tensor_freq: int | None = None,
        max_file_size: int | None = None,
        *,
        max_total_size: int | None = None,
    ) -> None:
        self._directory = directory(summary_dir)
        self._freq = positive("collect_freq", collect_freq)
        self._tensor_freq = positive_or_none("collect_tensor_freq", collect_tensor_freq)
        self._max_file = positive_or_none("max_file_size", max_file_size)
        self._max_total = positive_or_none("max_total_size", max_total_size)
        self._wants = collected(collect_specified_data, keep_default_action)
        self._custom = lineage_data(custom_lineage_data)
        self._contents: Contents | None = None
        self._failed: set[str] = set()
        self._step = 0
        self._first_step = 1
        self._graph_due = False
        self._saved_at = 0.0
        _require_tensorboard()
        try:
            make_directory(self._directory)
        except OSError as error:
            raise SummaryError(
                f"SummaryCollector: {self._directory} cannot be made: {error.strerror}",
                slug="summary-directory",
            ) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write the index with the final status of the run, and close the files."""
        if self._contents is not None:
            self._save("finished" if error is None else "failed")
            self._contents.recorder.close()
            self._contents = None

    def on_train_begin(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        self._step = arguments.get("initial_step") or 0
        self._first_step = self._step + 1
        self._graph_due = self._wants.collect_graph
        self._failed.clear()
        self._open(resumed=self._step > 0)
        LINEAGE.note("summaries", str(self._directory.absolute()))
        self._collect("lineage", lambda contents: contents.lineage_at_begin(arguments))
        self._collect("the dataset graph", lambda contents: contents.dataset_graph(arguments))

    def on_train_step_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        self._step = step = arguments.cur_step_num
        if self._contents is None:
            return
        if self._graph_due:
            self._graph_due = False
            self._collect("the graph", lambda contents: contents.graph(arguments))
        if self._is_due(step, self._freq):
            self._collect("the loss", lambda contents: contents.loss(arguments))
            self._collect("the learning rate", lambda contents: contents.learning_rate(arguments))
        if self._is_due(step, self._tensor_frequency(arguments)):
            self._collect("histograms", lambda contents: contents.histograms(arguments))
            self._collect("input data", lambda contents: contents.picture(arguments))
        if time.monotonic() - self._saved_at > INDEX_SECONDS:
            self._save()

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        self._save()

    def on_train_end(self, run_context: RunContext) -> None:
        self._collect(
            "lineage", lambda contents: contents.lineage_at_end(run_context.original_args())
        )
        self._save("finished")

    def on_eval_end(self, run_context: RunContext) -> None:
        """Write the results of an evaluation, at the step that the training has reached."""
        arguments = run_context.original_args()
        if self._contents is None:
            self._open(resumed=True)
        self._collect("metrics", lambda contents: contents.metrics(arguments))
        self._collect("lineage", lambda contents: contents.eval_lineage(arguments))
        self._save()

    def _open(self, *, resumed: bool) -> None:
        if dist.is_available() and dist.is_initialized() and dist.get_rank() != 0:
            return
        with self._shielded("the files"):
            from sonde.summary.contents import Contents
            from sonde.summary.events import EventFiles
            from sonde.summary.recorder import Recorder

            index = (read_index(self._directory) if resumed else None) or SummaryIndex()
            index.status = "running"
            files = EventFiles(
                self._directory, max_file_size=self._max_file, max_total_size=self._max_total
            )
            recorder = Recorder(self._directory, files, index)
            self._contents = Contents(recorder, self._wants, self._custom)

    def _collect(self, part: str, write: Callable[[Contents], None]) -> None:
        """Write a part of the contents, unless that has failed before."""
        if self._contents is not None and part not in self._failed:
            self._contents.step = self._step
            with self._shielded(part):
                write(self._contents)

    def _save(self, status: str | None = None) -> None:
        if self._contents is not None and "the index" not in self._failed:
            self._saved_at = time.monotonic()
            with self._shielded("the index"):
                self._contents.recorder.save(status)

    def _is_due(self, step: int, frequency: int) -> bool:
        return step == self._first_step or step % frequency == 0

    def _tensor_frequency(self, arguments: RunArguments) -> int:
        if self._tensor_freq is not None:
            return self._tensor_freq
        batches, epochs = arguments.get("batch_num"), arguments.get("epoch_num")
        if not batches or not epochs:
            return self._freq * STEPS_BETWEEN_TENSORS
        steps = int(batches) * int(epochs)
        return self._freq * max(1, math.ceil(steps / (TENSOR_STEPS * self._freq)))

    @contextmanager
    def _shielded(self, part: str) -> Iterator[None]:
        """Log an exception of the block, and let this part be skipped from then on."""
        try:
            yield
        except Exception as error:  # collecting must never end the training
            self._failed.add(part)
            _log.warning(
                "summary: %s of step %d could not be written to %s and will no longer be: %s: %s",
                part,
                self._step,
                self._directory,
                type(error).__name__,
                error,
            )


def _require_tensorboard() -> None:
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise SummaryError(
            "SummaryCollector writes TensorBoard files and needs tensorboard: "
            "pip install 'sonde[summary]'",
            slug="extra-missing",
        ) from None
