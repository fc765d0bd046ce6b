"""Observes calls of losses, dropout and standard deviations: what they are given."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.modules import DROPPING, ModuleCalls, tensors_in
from sonde.adapters.torch.diagnosis.probes.attention import FUSED
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.graph import Source
from sonde.core.patching import wrap

CLASSIFYING = ("cross_entropy", "nll_loss")
BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
ELEMENTWISE = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", *BINARY)
DROPOUTS = (
    *("dropout", "dropout1d", "dropout2d", "dropout3d"),
    *("alpha_dropout", "feature_alpha_dropout"),
)
MOST_CLASSES = 64
VIEWING = ("Expand", "View", "Reshape", "Unsqueeze", "Squeeze", "Repeat", "Select", "Slice")
"""The starts of the names of nodes that only arrange elements."""


@dataclass(slots=True, eq=False)
class LossCall:
    """One call of a loss function, borrowed until the step ends."""

    name: str
    input: torch.Tensor
    target: torch.Tensor
    value: torch.Tensor
    reduction: str
    source: Source | None
    options: dict[str, Any]


@dataclass(slots=True, eq=False)
class FunctionCalls:
    """Follows functions of ``torch.nn.functional``; ``in_this_step`` are the calls of losses."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    in_this_step: list[LossCall] = field(default_factory=list)
    on_loss: list[Callable[[LossCall], None]] = field(default_factory=list)
    probe: list[torch.Tensor] | None = None
    _parts: list[tuple[int, float, Source | None, str]] = field(default_factory=list)
    _unused: LossCall | None = None

    def install(self, undo: ExitStack) -> None:
        for name in (*CLASSIFYING, *ELEMENTWISE):
            wrap(functional, name, self._around_loss(name), undo)
        for name in DROPOUTS:
            wrap(functional, name, self._around_dropout(name), undo)
        wrap(functional, FUSED, self._around_attention, undo)
        for owner in (torch, torch.Tensor):
            for name in ("std", "var"):
                wrap(owner, name, self._around_std(name), undo)

    @shielded
    def backward_begins(self, roots: list[torch.Tensor]) -> None:
        """Note over how many targets the loss of this backward pass is a mean."""
        call, self._unused = self._unused, None
        if call is None or call.reduction != "mean" or len(roots) != 1 or roots[0].numel() != 1:
            return
        value = float(call.value)
        ignored = call.options.get("ignore_index", -100)
        count = int(call.target.ne(ignored).sum())
        kind = f"{call.name} {call.input.shape[1:2]}"  # Heads of several tasks may share a line.
        weight = float(roots[0]) / value if value else 0.0
        self._parts.append((count, weight, call.source, kind))

    @shielded
    def step_ended(self) -> None:
        parts, self._parts = self._parts, []
        self.in_this_step.clear()
        self._unused = None
        if len(parts) < 2 or not all(count and weight for count, weight, _, _ in parts):
            return
        if len({part[2:] for part in parts}) > 1:
            return  # Losses of different lines are terms, not micro-batches.
        counts = [part[0] for part in parts]
        weights = [part[1] for part in parts]
        if max(weights) - min(weights) <= 1e-3 * max(weights) and max(counts) >= 1.5 * min(counts):
            self.recorder.event(
                "unequal-micro-batches",
                parts[0][2],
                parts[0][3].partition(" ")[0],
                fewest=min(counts),
                most=max(counts),
                weight=weights[0],
                parts=len(parts),
            )

    def _around_loss(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def loss(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                if self.probe is not None and args and isinstance(args[0], torch.Tensor):
                    self.probe.append(args[0])
                if torch.compiler.is_compiling():
                    return result
                if torch.is_grad_enabled():
                    self._lost(name, args, kwargs, result)
                elif args and isinstance(args[0], torch.Tensor):
                    self._evaluated(args[0])
                return result

            return loss

        return make

    @shielded
    def _lost(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> None:
        given = [*args, *(kwargs[each] for each in ("input", "target") if each in kwargs)]
        if len(given) < 2 or not all(isinstance(each, torch.Tensor) for each in given[:2]):
            return
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return
        options = {key: each for key, each in kwargs.items() if key not in ("input", "target")}
        reduction = str(kwargs.get("reduction", "mean"))
        call = LossCall(name, given[0], given[1], value, reduction, caller(), options)
        if name == "nll_loss" and self.in_this_step:
            last = self.in_this_step[-1]
            if last.name == "cross_entropy" and last.target is call.target:
                return
        self.in_this_step.append(call)
        self._unused = call
        del self.in_this_step[:-16]
        self._judge_shapes(call)
        for action in self.on_loss:
            action(call)

    @shielded
    def _evaluated(self, prediction: torch.Tensor) -> None:
        """Note a loss without gradients of what a network in train mode computed, if the mode
        changes its results."""
        call = self.modules.last_evaluated
        if call is None or not call.module.training or not _shares(prediction, call.output):
            return
        layer = _random_layer(call.module)
        if layer is not None:
            name = self.modules.name(layer)
            self.recorder.event("evaluated-in-train-mode", call.source, name, p=layer.p)

    def _judge_shapes(self, call: LossCall) -> None:
        given, target = call.input, call.target
        batch = target.shape[0] if target.dim() else 1
        if call.reduction == "sum" and given.shape[:1].numel() > 1:
            self.recorder.event("loss-summed", call.source, call.name, samples=int(given.shape[0]))
        if is_constant(given):
            return
        if given.dim() and given.shape[0] > 1 and given.stride(0) == 0 and given.requires_grad:
            self.recorder.event(
                "prediction-expanded", call.source, call.name, rows=int(given.shape[0])
            )
        elif call.name in ELEMENTWISE and _expands(given, target):
            name = "prediction-of-one" if given.numel() == 1 < batch else "loss-broadcast"
            self.recorder.event(
                name,
                call.source,
                call.name,
                input=str(tuple(given.shape)),
                target=str(tuple(target.shape)),
                elements=math.prod(np.broadcast_shapes(given.shape, target.shape)),
            )

    def _around_dropout(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def dropout(input: Any, p: float = 0.5, *rest: Any, **more: Any) -> Any:
                if not torch.compiler.is_compiling():
                    training = rest[0] if rest else more.get("training")
                    self._dropped(name, input, p, training)
                return original(input, p, *rest, **more)

            return dropout

        return make

    def _around_attention(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def attention(*args: Any, **kwargs: Any) -> Any:
            p = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
            if p and not torch.compiler.is_compiling():
                self._attended(p)
            return original(*args, **kwargs)

        return attention

    @shielded
    def _attended(self, p: float) -> None:
        self._note_mode(FUSED, "dropout_p", p)

    def _note_mode(self, function: str, argument: str, p: float) -> nn.Module | None:
        """Note values that are dropped in eval mode; returns the module that runs."""
        current = self.modules.current
        inner = current[-1] if current else None
        outer: nn.Module | None = None
        if isinstance(inner, DROPPING):
            if inner.training and _is_out_of_reach(inner, current[0]):
                outer, argument = current[-2], "module"
        elif inner is not None and not inner.training:
            outer = inner
        if outer is not None:
            name = self.modules.name(outer)
            self.recorder.event(
                "dropout-in-eval", caller(), name, p=p, function=function, argument=argument
            )
        return inner

    @shielded
    def _dropped(self, function: str, input: Any, p: float, training: bool | None) -> None:
        """``training`` is None if it is not given; it is True then."""
        if training is False or not isinstance(input, torch.Tensor) or not 0 < p < 1:
            return
        inner = self._note_mode(function, "" if training is None else "training", p)
        if input.dtype == torch.float16 and input.numel():
            largest = float(input.abs().max())
            limit = torch.finfo(torch.float16).max
            if largest <= limit < largest / (1 - p):
                self.recorder.event(
                    "half-overflow-dropout",
                    caller(),
                    "" if inner is None else self.modules.name(inner),
                    largest=largest,
                    scaled=largest / (1 - p),
                    limit=limit,
                    function=function,
                )

    def _around_std(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def std(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                if not torch.compiler.is_compiling():
                    self._deviated(name, args, result)
                return result

            return std

        return make

    @shielded
    def _deviated(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        if (
            not args
            or not isinstance(args[0], torch.Tensor)
            or not isinstance(result, torch.Tensor)
        ):
            return
        given = args[0]
        if not result.numel() or given.numel() != result.numel() or given.numel() == 0:
            return  # More than one element for each result, or none at all.
        if bool(torch.isnan(result).all()) and not bool(torch.isnan(given).any()):
            self.recorder.event("std-of-one-sample", caller(), name, shape=str(tuple(given.shape)))


def _random_layer(root: nn.Module) -> Any:
    """The first dropout in train mode."""
    return next(
        (
            each
            for each in root.modules()
            if isinstance(each, DROPPING) and each.training and each.p
        ),
        None,
    )


def _shares(prediction: torch.Tensor, output: Any) -> bool:
    """Whether it is a result of a network, or a view of one."""
    memory = prediction.untyped_storage().data_ptr()
    return any(each.untyped_storage().data_ptr() == memory for each in tensors_in(output))


def _is_out_of_reach(module: nn.Module, root: nn.Module) -> bool:
    """Whether a root in eval mode calls a module that it does not hold: its ``eval()`` did not
    reach the module, such as one that is made in ``forward``."""
    return not root.training and all(each is not module for each in root.modules())


def is_constant(tensor: torch.Tensor) -> bool:
    """Whether it is a parameter, or views of one: a prediction that depends on no input."""
    node = tensor.grad_fn
    while node is not None:
        if not node.name().startswith(VIEWING):
            return node.name().endswith("AccumulateGrad")
        node = node.next_functions[0][0]
    return tensor.requires_grad


def _expands(given: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether a loss repeats the prediction to compare it with the target; not if both have
    dimensions of 1 for the other, as where each is to be compared with each."""
    if given.shape == target.shape:
        return False
    if math.prod(np.broadcast_shapes(given.shape, target.shape)) == given.numel():
        return False
    pairs = list(zip(given.shape, target.shape, strict=False))
    repeats = any(one < two for one, two in pairs) and any(one > two for one, two in pairs)
    return given.dim() != target.dim() or not repeats
