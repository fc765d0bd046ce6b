"""Compares the targets of losses with the inputs of the module: tokens, padding, labels."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from sonde.adapters.torch.diagnosis.losses.functions import CLASSIFYING, FunctionCalls, LossCall
from sonde.adapters.torch.diagnosis.modules import ModuleCalls, RootCall, tensors_in
from sonde.adapters.torch.diagnosis.probes.attention import padding_of
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.graph import Source

COMPARED_STEPS = 10
MOST_SAMPLES = 512
FEWEST_SAMPLES = 64
MOST_FEATURES = 4096


@dataclass(slots=True, eq=False)
class TargetComparison:
    """Looks at targets in the first steps, and keeps a few samples with their labels."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    functions: FunctionCalls
    _rows: list[torch.Tensor] = field(default_factory=list)
    _labels: list[torch.Tensor] = field(default_factory=list)
    _count: int = 0
    _loss: tuple[Source | None, str] = (None, "")

    @shielded
    def backward_begins(self, roots: list[torch.Tensor]) -> None:
        last = self.modules.last
        calls = [each for each in self.functions.in_this_step if each.name in CLASSIFYING]
        if last is None or not calls:
            return
        self._collect(last, calls[-1])
        if self.recorder.step <= COMPARED_STEPS:
            self._compare_targets(last, calls[-1])

    def _compare_targets(self, last: RootCall, call: LossCall) -> None:
        ids = token_ids(last)
        target = call.target.flatten()
        if ids is None or not ids.shape[1] > 2 or target.is_floating_point():
            return
        if target.numel() == ids.numel():
            shaped = target.view(ids.shape)
            same = float(shaped.eq(ids).float().mean())
            shifted = float(shaped[:, :-1].eq(ids[:, 1:]).float().mean())
        elif target.numel() == ids[:, 1:].numel():
            shaped = target.view(ids[:, 1:].shape)
            same = float(shaped.eq(ids[:, :-1]).float().mean())
            shifted = float(shaped.eq(ids[:, 1:]).float().mean())
        else:
            return
        if same > 0.999 and shifted < 0.9:
            self.recorder.event("target-is-input", call.source, call.name, same=same)
        elif shifted > 0.98:
            self.recorder.event("target-is-shifted", call.source, call.name, shifted=shifted)
        self._compare_padding(last, call, shaped)

    def _compare_padding(self, last: RootCall, call: LossCall, target: torch.Tensor) -> None:
        padding = padding_of(last)
        if padding is None:
            return
        padding = padding[:, -target.shape[1] :]
        pads = target[padding]
        if not pads.numel() or bool(pads.ne(pads[0]).any()):
            return
        pad, share = int(pads[0]), float(padding.double().mean())
        if call.options.get("ignore_index", -100) == pad or share < 0.1:
            return
        name = next(
            (path for path, one in last.module.named_modules() if isinstance(one, nn.Embedding)), ""
        )
        self.recorder.event(
            "padding-in-loss", call.source, name, share=share, pad=pad, function=call.name
        )

    def _collect(self, last: RootCall, call: LossCall) -> None:
        """Keep a few samples with their labels."""
        inputs = [each for each in tensors_in((last.args, last.kwargs)) if each.dim() >= 2]
        if self._count >= MOST_SAMPLES or not inputs or not inputs[0].is_floating_point():
            return
        rows, labels = inputs[0].detach(), call.target
        self._loss = call.source, call.name
        if labels.dim() == 1 and len(labels) == len(rows) and call.input.dim() == 2:
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


def token_ids(call: RootCall) -> torch.Tensor | None:
    """The first input that is a matrix of integers."""
    for tensor in tensors_in((call.args, call.kwargs)):
        if tensor.dim() == 2 and tensor.dtype in (torch.int64, torch.int32):
            return tensor
    return None
