"""Observes data: rows of batches, by hash, and targets."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.loop.calls import OptimizerState
from sonde.adapters.torch.diagnosis.losses.functions import (
    BINARY,
    CLASSIFYING,
    MOST_CLASSES,
    LossCall,
)
from sonde.adapters.torch.diagnosis.modules import RootCall, tensors_in
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.graph import Source
from sonde.core.patching import wrap

MOST_ROWS = 20_000
"""Rows that are hashed for each question."""
MOST_BYTES = 256 << 20
"""Bytes that are hashed in all."""
ENOUGH_FEATURES = 4
COUNTED_STEPS = 200
MOST_TARGETS = 1 << 16


@dataclass(slots=True, eq=False)
class DataCalls:
    """Hashes rows of training and evaluation inputs, and counts targets."""

    recorder: EvidenceRecorder
    trained: set[int] = field(default_factory=set)
    evaluated: dict[Source | None, tuple[set[int], set[int]]] = field(default_factory=dict)
    """For each line the rows evaluated, and those of them that had been trained on before."""
    targets: dict[int, int] = field(default_factory=dict)
    _sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    _last_input: Callable[[], torch.Tensor | None] = field(default=lambda: None)
    _bytes: int = 0
    _most_trained: int = 0
    _constant: int = 0
    _loss: tuple[Source | None, str] = (None, "")

    def install(self, undo: ExitStack) -> None:
        for owner in (torch.utils.data, torch.utils.data.dataset):
            wrap(owner, "random_split", self._around_split, undo)
        wrap(torch.utils.data.Subset, "__init__", self._around_subset, undo)

    def _around_split(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def random_split(*args: Any, **kwargs: Any) -> Any:
            self._split()
            return original(*args, **kwargs)

        return random_split

    def _around_subset(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make(subset: Any, *args: Any, **kwargs: Any) -> None:
            self._choose()
            original(subset, *args, **kwargs)

        return make

    @shielded
    def _split(self) -> None:
        self.recorder.event("data-split", caller(), "random_split")

    @shielded
    def _choose(self) -> None:
        self.recorder.event("subset-made", caller(), "Subset")

    def finish(self) -> None:
        """Compare the rows of training with those of evaluation."""
        for source, (rows, shared) in self.evaluated.items():
            self.recorder.event(
                "evaluated",
                source,
                "",
                rows=len(rows),
                shared=len(shared),
                trained=max(self._most_trained, len(self.trained)),
            )
        count, total, squares = self._sums
        if count:
            spread = squares / count - (total / count) ** 2
            self.recorder.event("target-spread", None, "mse_loss", constant=spread)
        if self.targets:
            most = max(self.targets.values())
            total = sum(self.targets.values())
            shares = [each / total for each in self.targets.values() if each]
            entropy = -sum(each * math.log(each) for each in shares)
            self.recorder.event("target-spread", *self._loss, constant=entropy)
            self.recorder.event(
                "targets", *self._loss, classes=len(self.targets), most=most, total=total
            )

    # ------------------------------------------------------------ rows and targets

    @shielded
    def root_called(self, call: RootCall, trained: bool) -> None:
        """Hash the rows of the first input of a root module."""
        tensors = [each for each in tensors_in((call.args, call.kwargs)) if each.dim() >= 2]
        if trained and tensors:
            if self._last_input() is tensors[0]:
                self.recorder.event("input-kept", call.source)
            self._last_input = weakref.ref(tensors[0])
        if not tensors or not _is_telling(tensors[0]):
            return
        if trained:
            if len(self.trained) < MOST_ROWS:
                self.trained.update(self.hashes(tensors[0]))
        elif not call.module.training:
            rows, shared = self.evaluated.setdefault(call.source, (set(), set()))
            if len(rows) < MOST_ROWS:
                found = self.hashes(tensors[0])
                rows.update(found)
                shared.update(self.trained.intersection(found))

    @shielded
    def before_step(self, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
        """The first step of an optimizer begins another training, such as that of the next fold."""
        if not state.seen.steps:
            self._most_trained = max(self._most_trained, len(self.trained))
            self.trained.clear()

    @shielded
    def lost(self, call: LossCall) -> None:
        """Count the classes of targets."""
        target, given = call.target, call.input
        if self.recorder.step < COUNTED_STEPS and target.numel() <= MOST_TARGETS:
            self._note_spread(call)
        if call.name in BINARY and call.options.get("pos_weight") is None:
            self._count_binary(call)
        if call.name not in CLASSIFYING or target.is_floating_point() or given.dim() != 2:
            return
        if call.options.get("weight") is not None:
            return
        self._loss = call.source, call.name
        classes = given.shape[1]
        too_late = self.recorder.step >= COUNTED_STEPS or target.numel() > MOST_TARGETS
        if too_late or classes > MOST_CLASSES:
            return
        counted = torch.bincount(target.flatten().clamp(min=0), minlength=classes).tolist()
        for number, count in enumerate(counted):
            self.targets[number] = self.targets.get(number, 0) + count
        predicted = given.argmax(1)
        commonest = max(self.targets, key=lambda each: self.targets[each])
        self._note_decisions(predicted.eq(commonest), target.eq(commonest))

    def _note_decisions(self, predicted: torch.Tensor, right: torch.Tensor) -> None:
        """Note in how many batches in a row only the commonest class is predicted; batches in which
        no other is right do not count."""
        if not bool(predicted.all()):
            self._constant = 0
        elif not bool(right.all()):
            self._constant += 1
        else:
            return
        self.recorder.measure("prediction-constant", *self._loss, batches=self._constant)

    def _count_binary(self, call: LossCall) -> None:
        """Count truth values as two classes; a decision is a logit above 0, or a probability above
        a half."""
        target, given = call.target.flatten(), call.input.flatten()
        if self.recorder.step >= COUNTED_STEPS or target.numel() > MOST_TARGETS:
            return
        if call.options.get("weight") is not None or bool((target.ne(0) & target.ne(1)).any()):
            return
        self._loss = call.source, call.name
        ones = int(target.sum())
        for number, count in ((0, target.numel() - ones), (1, ones)):
            self.targets[number] = self.targets.get(number, 0) + count
        commonest = max(self.targets, key=lambda each: self.targets[each])
        above = given > (0.5 if call.name == "binary_cross_entropy" else 0.0)
        self._note_decisions(above.eq(bool(commonest)), target.eq(commonest))

    def _note_spread(self, call: LossCall) -> None:
        """Note the sums for the loss of the best constant prediction."""
        if call.name == "mse_loss" and call.reduction == "mean":
            target = call.target.detach().double()
            self._sums[0] += target.numel()
            self._sums[1] += float(target.sum())
            self._sums[2] += float(target.square().sum())

    def hashes(self, tensor: torch.Tensor) -> list[int]:
        """A hash for each row; none where all that may be hashed has been."""
        if self._bytes > MOST_BYTES or tensor.device.type != "cpu" or tensor.is_sparse:
            return []
        self._bytes += tensor.numel() * tensor.element_size()
        rows = tensor.detach().contiguous().flatten(1) if tensor.dim() > 1 else tensor[:, None]
        values = rows.view(torch.uint8) if rows.dtype == torch.bfloat16 else rows
        return [hash(row.tobytes()) for row in values.numpy()]


def _is_telling(tensor: torch.Tensor) -> bool:
    """Whether equal rows mean equal samples: real numbers, or long rows of integers."""
    features = tensor[0].numel() if tensor.shape[0] else 0
    if tensor.is_floating_point():
        return features >= ENOUGH_FEATURES
    return not tensor.is_complex() and features >= 16
