"""Measures parameters: membership, gradients and updates, in a few steps of each optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from sonde.adapters.torch.diagnosis.calls import OptimizerState, parameters_of
from sonde.adapters.torch.diagnosis.modules import ModuleCalls
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.weak_table import WeakTable
from sonde.diagnose.evidence import ParameterEvidence, UpdateSample

EARLY = (0, 1, 2, 3, 5, 8, 12, 20, 30)
EVERY = 50
MOST_ELEMENTS = 1 << 18
"""Elements of one parameter that are measured; of larger ones the first."""
MOST_ROWS = 64


def is_sampled(step: int) -> bool:
    """Whether a step is measured: some of the first, then every 50th."""
    return step in EARLY or (step > 0 and step % EVERY == 0)


@dataclass(slots=True, eq=False)
class ParameterSignals:
    """Keeps a `ParameterEvidence` for each parameter of optimizers and of the loss's graph."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    known: dict[int, ParameterEvidence] = field(default_factory=dict)
    _named: WeakTable[torch.optim.Optimizer, int] = field(default_factory=WeakTable)
    _before: list[tuple[torch.Tensor, ParameterEvidence, torch.Tensor, torch.Tensor | None]] = (
        field(default_factory=list)
    )

    @shielded
    def before_step(self, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
        if not is_sampled(state.seen.steps) or state.has_closure:
            return
        self.name_all(optimizer, state)
        self._before.clear()
        for parameter in parameters_of(optimizer):
            entry = self.known.get(id(parameter))
            if entry is None or not parameter.is_floating_point():
                continue
            gradient = parameter.grad
            if gradient is not None and (gradient.is_sparse or gradient.shape != parameter.shape):
                continue
            kept = None if gradient is None else part(gradient).clone()
            self._before.append((parameter, entry, part(parameter).clone(), kept))

    @shielded
    def after_step(self, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
        rates = {
            id(parameter): float(group.get("lr", 0.0))
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        step = self.recorder.step
        for parameter, entry, weight, gradient in self._before:
            rate = rates.get(id(parameter), 0.0)
            entry.samples.append(_sample(step, rate, part(parameter), weight, gradient))
            if parameter.dim() >= 2:
                entry.is_zero_now = not bool(part(parameter).ne(0).any())
                entry.has_equal_rows_now = _has_equal_rows(parameter)
        self._before.clear()
        if not state.seen.state_keys and optimizer.state:
            first = next(iter(optimizer.state.values()))
            state.seen.state_keys = tuple(str(key) for key in first) if first else ()

    def name_all(self, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
        """Make or renew the entries of the parameters of ``optimizer``."""
        listed = list(parameters_of(optimizer))
        state.seen.parameters = len(listed)
        state.seen.frozen = sum(not each.requires_grad for each in listed)
        names = self._names()
        for number, parameter in enumerate(listed):
            entry = self.entry(parameter, names, f"{state.seen.name}.{number}")
            entry.optimizer, entry.position = state.seen.name, number

    def entry(
        self, parameter: torch.Tensor, names: dict[int, tuple[str, nn.Module]], otherwise: str = ""
    ) -> ParameterEvidence:
        known = self.known.get(id(parameter))
        named = names.get(id(parameter))
        if known is not None and known.shape == tuple(parameter.shape):
            known.requires_grad = parameter.requires_grad
            known.is_in_module = known.is_in_module or named is not None
            if named is not None:
                self._rename(known, *named)
            return known
        made = ParameterEvidence(
            name=otherwise or "parameter",
            module="",
            shape=tuple(parameter.shape),
            dtype=str(parameter.dtype).removeprefix("torch."),
            requires_grad=parameter.requires_grad,
            is_in_module=named is not None,
            is_contiguous=parameter.is_contiguous(),
        )
        if named is not None:
            self._rename(made, *named)
        if parameter.dim() >= 2 and parameter.is_floating_point():
            made.is_zero_at_start = not bool(part(parameter).ne(0).any())
            made.has_equal_rows_at_start = _has_equal_rows(parameter)
            made.is_zero_now = made.is_zero_at_start
            made.has_equal_rows_now = made.has_equal_rows_at_start
        self.known[id(parameter)] = made
        self.recorder.evidence.parameters.append(made)
        return made

    def _rename(self, entry: ParameterEvidence, name: str, module: nn.Module) -> None:
        entry.name = name
        entry.module = name.rpartition(".")[0]
        entry.module_calls = max(entry.module_calls, self.modules.calls.get(module) or 0)
        entry.sibling_calls = max(entry.sibling_calls, self._calls_of_siblings(name, module))

    def _calls_of_siblings(self, name: str, module: nn.Module) -> int:
        """How often elements of the same list or dictionary of modules ran."""
        most = 0
        parts = name.split(".")[:-1]
        for root in self.modules.roots:
            holder: nn.Module | None = root
            for piece in parts:
                if isinstance(holder, (nn.ModuleList, nn.ModuleDict)):
                    for each in holder.children():
                        inside = (self.modules.calls.get(one) or 0 for one in each.modules())
                        most = max(most, *inside, 0)
                holder = getattr(holder, piece, None)
                if not isinstance(holder, nn.Module):
                    break
        return most

    def _names(self) -> dict[int, tuple[str, nn.Module]]:
        found: dict[int, tuple[str, nn.Module]] = {}
        for root in self.modules.roots:
            for path, module in root.named_modules():
                for name, parameter in module._parameters.items():
                    if parameter is not None:
                        full = f"{path}.{name}" if path else name
                        known = found.get(id(parameter))
                        if known is None or len(known[0]) < len(full):
                            found[id(parameter)] = (full, module)
        return found

    @shielded
    def reached(self, parameters: list[torch.Tensor]) -> None:
        """Note the parameters that are leaves of a loss's graph."""
        names = self._names()
        for parameter in parameters:
            self.entry(parameter, names).reached += 1
        self.recorder.evidence.walks += 1


def part(tensor: torch.Tensor) -> torch.Tensor:
    """At most `MOST_ELEMENTS` elements of ``tensor``, flat; a view where that is possible."""
    return tensor.detach().reshape(-1)[:MOST_ELEMENTS]


def _has_equal_rows(parameter: torch.Tensor) -> bool:
    rows = parameter.detach()[:MOST_ROWS].flatten(1)
    if rows.shape[0] < 2 or rows.numel() == 0:
        return False
    scale = float(rows.abs().max())
    return scale > 0 and float((rows - rows[:1]).abs().max()) <= 1e-6 * scale


def _sample(
    step: int,
    rate: float,
    now: torch.Tensor,
    before: torch.Tensor,
    gradient: torch.Tensor | None,
) -> UpdateSample:
    change = now.double() - before.double()
    lost = zeros = 0.0
    norm = None
    if gradient is not None:
        has = gradient.ne(0)
        count = int(has.sum())
        zeros = 1 - count / max(1, gradient.numel())
        lost = float((has & now.eq(before)).sum()) / count if count else 0.0
        norm = float(gradient.double().norm())
    return UpdateSample(
        step=step,
        rate=rate,
        weight=float(before.double().norm()),
        update=float(change.norm()),
        gradient=norm,
        lost=lost,
        zeros=zeros,
    )
