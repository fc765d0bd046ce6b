"""Checks of a run that does not learn.

Which weights did a step change? Which gradients are missing, zero, vanishing, exploding? Do the
weights have NaN or Inf? Each check returns a report that prints readably, is true without problems,
and lists the problems as findings.

Numbers are computed in float64 from values of any precision. Empty tensors are never a finding.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from sonde.core.arguments import check_value_type, wrong_type
from sonde.core.errors import UsageError
from sonde.core.finding import Finding
from sonde.train.check_findings import gradient_finding, unchanged_finding, weight_finding
from sonde.train.checkpoint.checkpoint import load_checkpoint
from sonde.train.update_reasons import observed_step, too_small, why_unchanged

Weights = nn.Module | Mapping[str, Any] | str | os.PathLike[str]

VANISHING_MEAN = 1e-9
EXPLODING_NORM = 1e3


@dataclass(frozen=True, slots=True)
class WeightChange:
    """How one weight differs before and after.

    ``largest`` is the largest absolute difference, ``ratio`` as in ``change_ratio``. A NaN on
    either side makes both NaN; the weight is then unchanged only if all its bits are the same.
    """

    name: str
    changed: bool
    largest: float
    ratio: float


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """The weights that changed. True if there are weights and all changed."""

    changes: tuple[WeightChange, ...]
    findings: tuple[Finding, ...] = ()
    frozen: tuple[str, ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        return tuple(change.name for change in self.changes if change.changed)

    @property
    def unchanged(self) -> tuple[str, ...]:
        return tuple(change.name for change in self.changes if not change.changed)

    def __bool__(self) -> bool:
        return bool(self.changes) and not self.unchanged

    def __str__(self) -> str:
        lines = [f"same value: {finding.message}" for finding in self.findings]
        lines += [f"All params num: {len(self.changes)}", f"same params num: {len(self.unchanged)}"]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class GradientState:
    """One gradient: L2 norm, mean absolute value, share of exact zeros; NaN or Inf shows in them.

    ``verdict`` is ok, missing, zero, underflow, vanishing, exploding, not finite, not in the
    optimizer, or too small for the precision.
    """

    name: str
    verdict: str
    norm: float = 0.0
    mean: float = 0.0
    zeros: float = 0.0

    @property
    def numbers(self) -> str:
        """Its numbers in words; empty without a gradient."""
        if self.verdict == "missing":
            return ""
        return f"norm {self.norm:.6g}, mean {self.mean:.6g}, zeros {self.zeros:.1%}"


@dataclass(frozen=True, slots=True)
class GradientReport:
    """The gradients of all trainable weights. True if each is ok."""

    gradients: tuple[GradientState, ...]
    findings: tuple[Finding, ...]
    total_norm: float

    def named(self, verdict: str) -> tuple[str, ...]:
        """The weights with this verdict."""
        return tuple(state.name for state in self.gradients if state.verdict == verdict)

    def __bool__(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        head = f"{len(self.gradients)} gradients, total norm {self.total_norm:.6g}"
        return "\n".join([head, *(finding.message for finding in self.findings)])


@dataclass(frozen=True, slots=True)
class WeightReport:
    """NaN and Inf in weights. True if there are none."""

    checked: int
    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        bad = [finding.message for finding in self.findings]
        return "\n".join([f"{self.checked} weights, {len(bad)} with NaN or Inf", *bad])


def check_update(network: nn.Module, step: Callable[[], Any]) -> UpdateReport:
    """Run ``step``, one training step; report the trainable weights it did not change, and why: no
    gradient, a gradient of zeros, one that underflowed or was cleared, NaN, no optimizer that holds
    the weight, a rate of zero or one that is too small for the precision of the weight.

    Frozen weights (``requires_grad=False``) are listed separately. The step is not undone.
    """
    check_value_type("network", network, nn.Module, "check_update")
    if not callable(step):
        raise wrong_type("step", "check_update", "must be a function that does one step", step)
    trainable = {name: p for name, p in network.named_parameters() if p.requires_grad}
    frozen = tuple(name for name, p in network.named_parameters() if not p.requires_grad)
    before = {name: p.detach().clone() for name, p in trainable.items()}
    with observed_step(network, trainable) as seen:
        step()
    changes = tuple(_change(name, before[name], p.detach()) for name, p in trainable.items())
    findings = tuple(
        unchanged_finding(change.name, why_unchanged(*_held(network, trainable[change.name]), seen))
        for change in changes
        if not change.changed and trainable[change.name].numel()
    )
    return UpdateReport(changes, findings, frozen)


def compare_weights(before: Weights, after: Weights) -> UpdateReport:
    """The weights that differ between two checkpoint files, dicts of tensors, or networks.

    Only common names are compared; it is an error if there are none.
    """
    old, new = _tensors(before), _tensors(after)
    common = [name for name in old if name in new]
    if not common:
        raise UsageError("the two have no weight name in common", slug="no-common-weights")
    changes = tuple(_change(name, old[name], new[name]) for name in common)
    findings = tuple(
        weight_finding("weight-unchanged", change.name, f"{change.name} is the same in both")
        for change in changes
        if not change.changed
    )
    return UpdateReport(changes, findings)


def check_gradients(
    network: nn.Module,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    vanishing_mean: float = VANISHING_MEAN,
    exploding_norm: float = EXPLODING_NORM,
) -> GradientReport:
    """Check the current gradients (call it after ``backward``).

    With ``optimizer`` also whether it holds the weights, and whether its rate is large enough for
    their precision. Underflow: all elements are zero, in float16. Vanishing: the mean absolute
    value is below ``vanishing_mean``. Exploding: the L2 norm is above ``exploding_norm``. The total
    norm is that of all gradients together, NaN if any has NaN.
    """
    check_value_type("network", network, nn.Module, "check_gradients")
    states = tuple(
        _used_by(
            optimizer, parameter, _gradient_state(name, parameter, vanishing_mean, exploding_norm)
        )
        for name, parameter in network.named_parameters()
        if parameter.requires_grad
    )
    findings = tuple(
        gradient_finding(state.name, state.verdict, state.numbers)
        for state in states
        if state.verdict != "ok"
    )
    return GradientReport(states, findings, math.sqrt(sum(state.norm**2 for state in states)))


def check_weights(weights: Weights) -> WeightReport:
    """Count NaN and Inf in a network (buffers too), a dict of tensors or a checkpoint file."""
    tensors = _tensors(weights)
    findings = []
    for name, tensor in tensors.items():
        if not (tensor.is_floating_point() or tensor.is_complex()):
            continue
        nans, infs = int(torch.isnan(tensor).sum()), int(torch.isinf(tensor).sum())
        if nans or infs:
            message = f"{name}: {nans} NaN, {infs} Inf of {tensor.numel()}"
            findings.append(weight_finding("weight-not-finite", name, message))
    return WeightReport(len(tensors), tuple(findings))


def _tensors(weights: Weights) -> dict[str, torch.Tensor]:
    if isinstance(weights, nn.Module):
        weights = weights.state_dict()
    elif isinstance(weights, str | os.PathLike):
        weights = load_checkpoint(weights)
    elif not isinstance(weights, Mapping):
        rule = "must be a network, a dict of tensors or a checkpoint file"
        raise wrong_type("weights", None, rule, weights)
    return {
        name: value.detach() for name, value in weights.items() if isinstance(value, torch.Tensor)
    }


def _change(name: str, before: torch.Tensor, after: torch.Tensor) -> WeightChange:
    if before.shape != after.shape:
        return WeightChange(name, True, math.nan, math.nan)
    after = after.to(before.device)
    if before.dtype == after.dtype and _same_bits(before, after):
        return WeightChange(name, False, 0.0, 0.0)
    wide = torch.complex128 if before.is_complex() else torch.float64
    difference = after.to(wide) - before.to(wide)
    largest = float(difference.abs().max()) if difference.numel() else 0.0
    return WeightChange(name, largest != 0.0, largest, change_ratio(before, after))


def change_ratio(before: torch.Tensor, after: torch.Tensor) -> float:
    """The L2 norm of the change divided by the norm before; Inf for a change from all zeros."""
    wide = torch.complex128 if before.is_complex() else torch.float64
    old = before.to(wide)
    size, moved = float(old.norm()), float((after.to(wide) - old).norm())
    return moved / size if size else (math.inf if moved else 0.0)


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    def bits(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.contiguous().reshape(-1).view(torch.uint8)

    return left.numel() == 0 or torch.equal(bits(left), bits(right))


def _gradient_state(
    name: str, parameter: nn.Parameter, vanishing_mean: float, exploding_norm: float
) -> GradientState:
    gradient = parameter.grad
    if gradient is None:
        return GradientState(name, "missing")
    values = gradient.detach().coalesce().values() if gradient.is_sparse else gradient.detach()
    if not values.numel():
        return GradientState(name, "ok")
    wide = values.abs().double()
    norm, mean = float(wide.norm()), float(wide.sum()) / gradient.numel()
    zeros = 1 - int(torch.count_nonzero(values)) / gradient.numel()
    if not math.isfinite(norm) and not bool(torch.isfinite(wide).all()):
        verdict = "not finite"
    elif zeros == 1:
        verdict = "underflow" if gradient.dtype is torch.float16 else "zero"
    elif norm > exploding_norm:
        verdict = "exploding"
    else:
        verdict = "vanishing" if mean < vanishing_mean else "ok"
    return GradientState(name, verdict, norm, mean, zeros)


def _used_by(
    optimizer: torch.optim.Optimizer | None, parameter: nn.Parameter, state: GradientState
) -> GradientState:
    """``state``, or what hinders ``optimizer`` from using a gradient that is good by itself."""
    if optimizer is None or state.verdict not in ("ok", "vanishing"):
        return state
    rates = [
        float(group.get("lr", 0.0))
        for group in optimizer.param_groups
        if any(each is parameter for each in group["params"])
    ]
    if not rates:
        return replace(state, verdict="not in the optimizer")
    if rates[0] > 0 and state.verdict == "ok" and too_small(parameter, rates[0]) is not None:
        return replace(state, verdict="too small for the precision")
    return state


def _held(network: nn.Module, parameter: nn.Parameter) -> tuple[nn.Parameter, list[nn.Module]]:
    """The weight and the modules that hold it."""
    holders = [
        module
        for module in network.modules()
        if any(each is parameter for each in module.parameters(recurse=False))
    ]
    return parameter, holders
