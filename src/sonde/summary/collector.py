"""``SummaryCollector``: a callback that writes what a run does as TensorBoard event files."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import Tensor, nn

from sonde.core.callback import Callback, RunArguments, RunContext
from sonde.summary.errors import SummaryError
from sonde.summary.index import SummaryIndex, read_index
from sonde.summary.lineage import dataset_graph, eval_lineage, train_lineage
from sonde.summary.options import collected, directory, lineage_data, positive, positive_or_none
from sonde.summary.pictures import first_picture

if TYPE_CHECKING:
    from sonde.summary.recorder import Recorder

_log = logging.getLogger("sonde.summary")

TENSOR_STEPS = 20
"""About how many steps of a run get histograms and pictures, when nothing else is said."""
STEPS_BETWEEN_TENSORS = 10
"""Every how many collected steps, when the length of the run is not known."""
INDEX_SECONDS = 10.0


class SummaryCollector(Callback):
    """Collects loss, metrics, learning rate, histograms, pictures, graph and lineage.

    Numbers are collected in the first step and in every ``collect_freq``-th; histograms and
    pictures every ``collect_tensor_freq`` steps (without it, in about 20 steps of the run).
    ``collect_specified_data`` chooses what; ``keep_default_action=False`` leaves out all it does
    not name. ``custom_lineage_data`` adds names and values (texts and numbers) to the lineage.
    ``max_file_size`` begins a new event file before one grows larger; ``max_total_size`` deletes
    the oldest before all together do. Both are bytes.

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
        self._recorder: Recorder | None = None
        self._failed: set[str] = set()
        self._step = 0
        self._first_step = 1
        self._graph_due = False
        self._saved_at = 0.0
        _require_tensorboard()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
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
        """Write the index a last time and close the files; a run that failed is marked so."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            status = "finished" if error is None else "failed"
            self._shielded("the index", lambda: recorder.save(status))
            recorder.close()

    def on_train_begin(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        self._step = arguments.get("initial_step") or 0
        self._first_step = self._step + 1
        self._graph_due = self._wants.collect_graph
        self._failed.clear()
        self._shielded("the files", self._open, resumed=self._step > 0)
        self._lineage(arguments, first=True)

    def on_train_step_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        self._step = step = arguments.cur_step_num
        if self._recorder is None:
            return
        if self._graph_due:
            self._graph_due = False
            self._shielded("the graph", self._graph, arguments)
        if self._is_due(step, self._freq):
            self._shielded("the loss", self._loss, arguments)
            self._shielded("the learning rate", self._learning_rate, arguments)
        if self._is_due(step, self._tensor_frequency(arguments)):
            self._shielded("histograms", self._histograms, arguments)
            self._shielded("input data", self._picture, arguments)
        if time.monotonic() - self._saved_at > INDEX_SECONDS:
            self._save()

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        self._save()

    def on_train_end(self, run_context: RunContext) -> None:
        self._lineage(run_context.original_args(), first=False)
        self._save("finished")

    def on_eval_end(self, run_context: RunContext) -> None:
        """Numbers of an evaluation, at the step training has reached."""
        arguments = run_context.original_args()
        if self._recorder is None:
            self._shielded("the files", self._open, resumed=True)
        metrics = _numbers(arguments.get("metrics", {}))
        self._shielded("metrics", self._metrics, metrics)
        self._shielded("lineage", self._eval_lineage, arguments, metrics)
        self._save()

    def _open(self, *, resumed: bool) -> None:
        if dist.is_available() and dist.is_initialized() and dist.get_rank() != 0:
            return
        from sonde.summary.events import EventFiles
        from sonde.summary.recorder import Recorder

        index = (read_index(self._directory) if resumed else None) or SummaryIndex()
        index.status = "running"
        files = EventFiles(
            self._directory, max_file_size=self._max_file, max_total_size=self._max_total
        )
        self._recorder = Recorder(self._directory, files, index)

    def _loss(self, arguments: RunArguments) -> None:
        loss = _loss_of(arguments.get("net_outputs"))
        if self._recorder is not None and self._wants.collect_metric and loss is not None:
            self._recorder.scalar("loss", loss, self._step)

    def _learning_rate(self, arguments: RunArguments) -> None:
        groups = getattr(arguments.get("optimizer"), "param_groups", [])
        if self._recorder is None or not self._wants.collect_learning_rate:
            return
        for number, group in enumerate(groups):
            tag = "learning_rate" if len(groups) == 1 else f"learning_rate/group_{number}"
            self._recorder.scalar(tag, float(group["lr"]), self._step)

    def _histograms(self, arguments: RunArguments) -> None:
        network = arguments.get("train_network")
        if self._recorder is None or not isinstance(network, nn.Module):
            return
        for position, (name, parameter) in enumerate(network.named_parameters()):
            if not self._wants.wants_parameter(name, position):
                continue
            if self._wants.collect_histograms:
                self._recorder.histogram(f"weights/{name}", parameter, self._step)
            if self._wants.collect_gradients and parameter.grad is not None:
                self._recorder.histogram(f"gradients/{name}", parameter.grad, self._step)

    def _picture(self, arguments: RunArguments) -> None:
        if self._recorder is None or not self._wants.collect_input_data:
            return
        picture = first_picture(arguments.get("train_dataset_element"))
        if picture is not None:
            self._recorder.image("input_data", picture, self._step)

    def _graph(self, arguments: RunArguments) -> None:
        from sonde.summary.network_graph import network_graph

        network = arguments.get("train_network")
        if self._recorder is not None and isinstance(network, nn.Module):
            graph, kind = network_graph(network, arguments.get("train_dataset_element"))
            self._recorder.graph(graph, kind)

    def _lineage(self, arguments: RunArguments, *, first: bool) -> None:
        if self._wants.collect_train_lineage:
            self._shielded("lineage", self._train_lineage, arguments, first=first)
        if self._wants.collect_dataset_graph and first:
            self._shielded("the dataset graph", self._dataset_graph, arguments)

    def _train_lineage(self, arguments: RunArguments, *, first: bool) -> None:
        if self._recorder is None:
            return
        facts = {**train_lineage(arguments), **self._custom}
        if first:
            self._recorder.hyper_parameters(facts, ["loss"])
        else:
            facts["step_num"] = self._step
            loss = _loss_of(arguments.get("net_outputs"))
            if loss is not None:
                facts["loss"] = loss
        self._recorder.facts("lineage/train", facts, self._step)
        self._recorder.index.lineage["train"] = facts

    def _dataset_graph(self, arguments: RunArguments) -> None:
        dataset = arguments.get("train_dataset")
        if self._recorder is not None and dataset is not None:
            graph = dataset_graph(dataset)
            self._recorder.facts("lineage/dataset", graph, self._step)
            self._recorder.index.lineage["dataset"] = graph

    def _metrics(self, metrics: Mapping[str, float]) -> None:
        if self._recorder is not None and self._wants.collect_metric:
            for name, value in metrics.items():
                self._recorder.scalar(f"eval/{name}", value, self._step)

    def _eval_lineage(self, arguments: RunArguments, metrics: Mapping[str, float]) -> None:
        if self._recorder is not None and self._wants.collect_eval_lineage:
            facts = eval_lineage(arguments, metrics)
            self._recorder.facts("lineage/eval", facts, self._step)
            self._recorder.index.lineage["eval"] = facts

    def _save(self, status: str | None = None) -> None:
        if self._recorder is not None:
            self._saved_at = time.monotonic()
            self._shielded("the index", self._recorder.save, status)

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

    def _shielded(self, part: str, action: Callable[..., None], *given: Any, **named: Any) -> None:
        """Run a part of the collecting; when it fails, say so and leave it off from then on."""
        if part in self._failed:
            return
        try:
            action(*given, **named)
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


def _loss_of(output: Any) -> float | None:
    """The loss in a step's output: of a tuple the first, of a tensor the mean in float64."""
    while isinstance(output, (tuple, list)) and output:
        output = output[0]
    if isinstance(output, Tensor) and output.numel():
        return float(output.detach().double().mean())
    return float(output) if isinstance(output, (int, float)) else None


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that are one number."""
    return {
        name: float(value)
        for name, value in metrics.items()
        if isinstance(value, (int, float)) or getattr(value, "shape", None) == ()
    }


def _require_tensorboard() -> None:
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise SummaryError(
            "SummaryCollector writes TensorBoard files and needs tensorboard: "
            "pip install 'sonde[summary]'",
            slug="extra-missing",
        ) from None
