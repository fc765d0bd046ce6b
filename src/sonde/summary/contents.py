"""The parts of a summary, each taken from the arguments of a run and written to the recorder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sonde.core.callback import RunArguments
from sonde.summary.lineage import dataset_graph, eval_lineage, train_lineage
from sonde.summary.network_graph import network_graph
from sonde.summary.options import Collected
from sonde.summary.recorder import Recorder

CHANNELS = (1, 3, 4)
SMALLEST_SIDE = 4


@dataclass(slots=True)
class Contents:
    """Writes what ``wants`` chooses. Any method may raise: the run's objects may be of any kind.

    ``step`` is the latest step of the training; ``custom_lineage`` is added to its lineage.
    """

    recorder: Recorder
    wants: Collected
    custom_lineage: Mapping[str, Any]
    step: int = 0

    def loss(self, arguments: RunArguments) -> None:
        loss = _loss_of(arguments.get("net_outputs"))
        if self.wants.collect_metric and loss is not None:
            self.recorder.scalar("loss", loss, self.step)

    def learning_rate(self, arguments: RunArguments) -> None:
        if not self.wants.collect_learning_rate:
            return
        groups = getattr(arguments.get("optimizer"), "param_groups", [])
        for number, group in enumerate(groups):
            tag = "learning_rate" if len(groups) == 1 else f"learning_rate/group_{number}"
            self.recorder.scalar(tag, float(group["lr"]), self.step)

    def histograms(self, arguments: RunArguments) -> None:
        network = arguments.get("train_network")
        if not isinstance(network, nn.Module):
            return
        for position, (name, parameter) in enumerate(network.named_parameters()):
            if not self.wants.wants_parameter(name, position):
                continue
            if self.wants.collect_histograms:
                self.recorder.histogram(f"weights/{name}", parameter, self.step)
            if self.wants.collect_gradients and parameter.grad is not None:
                self.recorder.histogram(f"gradients/{name}", parameter.grad, self.step)

    def picture(self, arguments: RunArguments) -> None:
        if self.wants.collect_input_data:
            picture = first_picture(arguments.get("train_dataset_element"))
            if picture is not None:
                self.recorder.image("input_data", picture, self.step)

    def graph(self, arguments: RunArguments) -> None:
        network = arguments.get("train_network")
        if isinstance(network, nn.Module):
            self.recorder.graph(*network_graph(network, arguments.get("train_dataset_element")))

    def lineage_at_begin(self, arguments: RunArguments) -> None:
        if self.wants.collect_train_lineage:
            facts = {**train_lineage(arguments), **self.custom_lineage}
            self.recorder.hyper_parameters(facts, ["loss"])
            self._lineage("train", facts)

    def lineage_at_end(self, arguments: RunArguments) -> None:
        if self.wants.collect_train_lineage:
            facts = {**train_lineage(arguments), **self.custom_lineage, "step_num": self.step}
            loss = _loss_of(arguments.get("net_outputs"))
            self._lineage("train", facts if loss is None else {**facts, "loss": loss})

    def dataset_graph(self, arguments: RunArguments) -> None:
        dataset = arguments.get("train_dataset")
        if self.wants.collect_dataset_graph and dataset is not None:
            self._lineage("dataset", dataset_graph(dataset))

    def metrics(self, arguments: RunArguments) -> None:
        if self.wants.collect_metric:
            for name, value in _metrics_of(arguments).items():
                self.recorder.scalar(f"eval/{name}", value, self.step)

    def eval_lineage(self, arguments: RunArguments) -> None:
        if self.wants.collect_eval_lineage:
            self._lineage("eval", eval_lineage(arguments, _metrics_of(arguments)))

    def _lineage(self, part: str, facts: dict[str, Any]) -> None:
        self.recorder.facts(f"lineage/{part}", facts, self.step)
        self.recorder.index.lineage[part] = facts


def _loss_of(output: Any) -> float | None:
    """The loss in a step's output: of a tuple the first, of a tensor the mean in float64."""
    while isinstance(output, (tuple, list)) and output:
        output = output[0]
    if isinstance(output, Tensor) and output.numel():
        return float(output.detach().double().mean())
    return float(output) if isinstance(output, (int, float)) else None


def _metrics_of(arguments: RunArguments) -> dict[str, float]:
    """The metrics that are one number."""
    return {
        name: float(value)
        for name, value in arguments.get("metrics", {}).items()
        if isinstance(value, (int, float)) or getattr(value, "shape", None) == ()
    }


def first_picture(element: Any) -> Tensor | None:
    """The first sample of a batch's first tensor, as uint8 ``(C, H, W)``, if it is a picture.

    A picture is ``(N, C, H, W)`` or ``(N, H, W, C)`` with 1, 3 or 4 channels. Bytes are shown as
    they are, floats from 0 to 1 times 255, other numbers stretched from their smallest to their
    largest; NaN and Inf are shown black.
    """
    tensor = _first_tensor(element)
    if tensor is None or tensor.ndim != 4 or tensor.shape[0] == 0 or tensor.is_complex():
        return None
    sample = tensor[0].detach().cpu()
    if sample.shape[0] not in CHANNELS and sample.shape[-1] in CHANNELS:
        sample = sample.movedim(-1, 0)
    if sample.shape[0] not in CHANNELS or min(sample.shape[1:]) < SMALLEST_SIDE:
        return None
    return sample if sample.dtype == torch.uint8 else _as_bytes(sample.float())


def _as_bytes(sample: Tensor) -> Tensor:
    finite = torch.isfinite(sample)
    if not bool(finite.any()):
        return torch.zeros(sample.shape, dtype=torch.uint8)
    low, high = sample[finite].min(), sample[finite].max()
    if low < 0 or high > 1:
        sample = (sample - low) / (high - low).clamp(min=torch.finfo(torch.float32).tiny)
    shown = (sample.where(finite, torch.zeros(())) * 255).round().clamp(0, 255)
    return shown.to(torch.uint8)


def _first_tensor(element: Any) -> Tensor | None:
    if isinstance(element, Tensor):
        return element
    if isinstance(element, Mapping):
        element = list(element.values())
    if isinstance(element, (tuple, list)):
        return next((one for one in element if isinstance(one, Tensor)), None)
    return None
