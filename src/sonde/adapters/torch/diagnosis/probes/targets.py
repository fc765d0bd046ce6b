"""Compares the targets of losses with the inputs of the module: tokens, padding, labels."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from sonde.adapters.torch.diagnosis.losses.functions import (
    BINARY,
    CLASSIFYING,
    FunctionCalls,
    LossCall,
)
from sonde.adapters.torch.diagnosis.modules import ModuleCalls, RootCall, tensors_in
from sonde.adapters.torch.diagnosis.probes.attention import (
    end_padding,
    is_tokens,
    padding_in,
    padding_of,
)
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.graph import Source
from sonde.diagnosis.evidence import TrainingEvidence

COMPARED_STEPS = 10
MOST_SAMPLES = 512
FEWEST_SAMPLES = 64
MOST_FEATURES = 4096
COUNTED = 0.9
"""The share of padding that has a gradient where no mask removes it; a first padding that stands
for the end of a text may count."""
FEWEST_WORDS = 16
"""Classes from which on a matrix of targets is read as text, whose ends may be padding."""


@dataclass(slots=True, eq=False)
class _PaddedLoss:
    """A loss with padding among its targets; ``counted``: the share of this padding for which the
    prediction gets a gradient, known after the backward pass."""

    call: LossCall
    padding: torch.Tensor
    embedding: str
    pad: float
    counted: float = 0.0

    def look(self, gradient: torch.Tensor) -> None:
        """See where the gradient of the prediction is zero: masks, weights and selections after
        the loss make it so."""
        padding = self.padding.flatten()
        if self.call.name in CLASSIFYING:
            rows = gradient.detach().movedim(1, -1).flatten(0, -2)
        else:
            rows = gradient.detach().reshape(len(padding), -1)
        if len(rows) == len(padding):
            self.counted = float(rows[padding].ne(0).any(1).double().mean())


@dataclass(slots=True, eq=False)
class TargetComparison:
    """Looks at targets in the first steps, and keeps a few samples with their labels."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    functions: FunctionCalls
    _rows: list[torch.Tensor] = field(default_factory=list)
    _labels: list[torch.Tensor] = field(default_factory=list)
    _count: int = 0
    _padded: list[_PaddedLoss] = field(default_factory=list)
    _loss: tuple[Source | None, str] = (None, "")

    @shielded
    def backward_begins(self, roots: list[torch.Tensor]) -> None:
        last = self.modules.last
        calls = self.functions.in_this_step
        if last is None or not calls:
            return
        self._collect(last, calls[-1])
        if self.recorder.step > COMPARED_STEPS:
            return
        classifying = [each for each in calls if each.name in CLASSIFYING]
        if classifying:
            self._compare_targets(last, classifying[-1])
        elif calls[-1].input.shape == calls[-1].target.shape:
            self._compare_sequences(last, calls[-1])

    def _compare_targets(self, last: RootCall, call: LossCall) -> None:
        target = call.target
        if target.is_floating_point():
            return
        matrices = list(enumerate(filter(is_tokens, tensors_in((last.args, last.kwargs)))))
        # The input of a decoder is as long as the target; that of an encoder may be longer.
        matrices.sort(key=lambda each: each[1].numel() != target.numel())
        for number, ids in matrices:
            shaped = _beside(target.flatten(), ids)
            if shaped is None:
                continue
            columns = shaped.shape[1]
            same = float(shaped.eq(ids[:, :columns]).float().mean())
            following = shaped if columns < ids.shape[1] else shaped[:, :-1]
            shifted = float(following.eq(ids[:, 1:]).float().mean())
            if same > 0.999 and shifted < 0.9:
                if not number:  # A later one may be the labels, given to a model with a loss.
                    self.recorder.event("target-is-input", call.source, call.name, same=same)
            elif shifted > 0.98:
                self.recorder.event(
                    "target-is-shifted", call.source, call.name, shifted=shifted, matrix=number
                )
            padding = padding_in(ids, last.module)
            if padding is not None:
                self._note_padding(last, call, shaped, padding[:, -columns:])
                return
        if is_tokens(target) and call.input.dim() == 3 and call.input.shape[1] >= FEWEST_WORDS:
            padding = end_padding(target)
            if padding is not None:
                self._note_padding(last, call, target, padding)

    def _compare_sequences(self, last: RootCall, call: LossCall) -> None:
        """Look for padding in a loss that compares numbers, with one or more for each position."""
        padding = padding_of(last)
        target = call.target
        if padding is None or target.shape[:2] != padding.shape:
            return
        if bool(target.isnan().any()) or any(
            target is each for each in tensors_in((last.args, last.kwargs))
        ):
            return  # An input that is to be rebuilt has its zeros too.
        self._note_padding(last, call, target, padding)

    def _note_padding(
        self, last: RootCall, call: LossCall, target: torch.Tensor, padding: torch.Tensor
    ) -> None:
        pads = target[padding]
        if not pads.numel() or bool(pads.ne(pads[0]).any()):
            return
        share = float(padding.double().mean())
        if share < 0.1 or (
            call.name in CLASSIFYING and call.options.get("ignore_index", -100) == int(pads[0])
        ):
            return
        name = next(
            (path for path, one in last.module.named_modules() if isinstance(one, nn.Embedding)), ""
        )
        if call.input.requires_grad and call.input.dim() > 1:
            padded = _PaddedLoss(call, padding, name, pads.flatten()[0].item())
            call.input.register_hook(padded.look)  # type: ignore[no-untyped-call]
            self._padded.append(padded)

    @shielded
    def backward_ended(self) -> None:
        """Note the losses of this backward pass in which padding counts."""
        padded, self._padded = self._padded, []
        for each in padded:
            if each.counted >= COUNTED:
                self.recorder.event(
                    "padding-in-loss",
                    each.call.source,
                    each.embedding,
                    share=float(each.padding.double().mean()),
                    pad=each.pad,
                    function=each.call.name,
                )

    def _collect(self, last: RootCall, call: LossCall) -> None:
        """Keep a few samples with their labels."""
        inputs = [each for each in tensors_in((last.args, last.kwargs)) if each.dim() >= 2]
        if self._count >= MOST_SAMPLES or not inputs or not inputs[0].is_floating_point():
            return
        rows, labels = inputs[0].detach(), _labels_of(call)
        self._loss = call.source, call.name
        if labels is not None and len(labels) == len(rows):
            flat = rows.flatten(1)
            if flat.shape[1] <= MOST_FEATURES and rows.device.type == "cpu":
                self._rows.append(flat.float().clone())
                self._labels.append(labels.detach().clone())
                self._count += len(rows)

    def finish(self) -> None:
        if self._count >= MOST_SAMPLES // 2:
            self._note_neighbours()

    def _note_neighbours(self) -> None:
        rows, labels = torch.cat(self._rows)[:MOST_SAMPLES], torch.cat(self._labels)[:MOST_SAMPLES]
        known = {row.tobytes(): number for number, row in enumerate(rows.numpy())}
        kept = torch.tensor(sorted(known.values()))  # A sample and its repetitions count once.
        rows, labels = rows[kept], labels[kept]
        if len(rows) < FEWEST_SAMPLES:
            return
        spread = rows.std(0)
        rows = (rows - rows.mean(0)) / torch.where(spread > 0, spread, torch.ones_like(spread))
        distances = torch.cdist(rows, rows)
        distances.fill_diagonal_(float("inf"))
        nearest = distances.topk(5, largest=False).indices
        agreement = float(labels[nearest].eq(labels[:, None]).float().mean())
        shares = torch.bincount(labels.clamp(min=0)).float() / len(labels)
        finite = distances[torch.isfinite(distances)]
        near = float(distances.min(1).values.median())
        self.recorder.event(
            "neighbours",
            *self._loss,
            agreement=agreement,
            chance=float((shares**2).sum()),
            entropy=float(-(shares[shares > 0] * shares[shares > 0].log()).sum()),
            nearness=near / float(finite.median()),
            samples=len(labels),
        )


def _labels_of(call: LossCall) -> torch.Tensor | None:
    """One class for each sample, if the loss compares classes or truth values."""
    target = call.target
    if call.name in CLASSIFYING:
        is_class = target.dim() == 1 and call.input.dim() == 2 and not target.is_floating_point()
        return target if is_class else None
    is_single = call.name in BINARY and target.dim() and target.numel() == len(target)
    if not is_single or bool((target.ne(0) & target.ne(1)).any()):
        return None
    return target.flatten().long()


def _beside(target: torch.Tensor, ids: torch.Tensor) -> torch.Tensor | None:
    """The targets in rows as those of ``ids``, if there is one for each token, or for each but one
    of a row."""
    if ids.shape[1] <= 2:
        return None
    for shape in (ids.shape, ids[:, 1:].shape):
        if target.numel() == shape.numel():
            return target.view(shape)
    return None


def token_ids(call: RootCall, evidence: TrainingEvidence) -> torch.Tensor | None:
    """The input that is a matrix of integers: the one that the target is the next token of, such
    as that of a decoder, else the first."""
    matrices = list(filter(is_tokens, tensors_in((call.args, call.kwargs))))
    shifted = evidence.first("target-is-shifted")
    number = 0 if shifted is None else int(shifted.numbers["matrix"] or 0)
    return matrices[number] if number < len(matrices) else None
