"""Measures parameters: membership, gradients and updates, in a few steps of each optimizer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median

import torch
from torch import nn

from sonde.adapters.torch.debugging.signals.norms import norms
from sonde.adapters.torch.debugging.signals.updates import ParameterUpdates, SampledUpdates
from sonde.adapters.torch.diagnosis.loop.calls import OptimizerState, parameters_of
from sonde.adapters.torch.diagnosis.modules import ModuleCalls
from sonde.adapters.torch.diagnosis.parameter_names import names_in_containers, names_in_variables
from sonde.adapters.torch.diagnosis.recorder import (
    EvidenceRecorder,
    shielded,
    variables_in_own_frame,
)
from sonde.core.weak_table import WeakTable
from sonde.diagnosis.evidence import ParameterEvidence, UpdateSample

EARLY = (0, 1, 2, 3, 5, 8, 12, 20, 30)
EVERY = 50
MOST_VALUES = 4096
"""Values of each parameter whose update is measured, evenly spaced."""
MOST_ELEMENTS = 1 << 18
"""Elements of one parameter that are looked at as a whole; of larger ones the first."""
MOST_ROWS = 64
WINDOW = 12
JUMP = 3.0
MOST_JUMPS = 12
"""Steps that are measured because the loss jumped."""
STILL_EQUAL = 1e-3
"""Rounding makes rows that start equal different by that much, relative to the largest element."""


def is_sampled(step: int) -> bool:
    """Whether a step is measured: some of the first, then every 50th."""
    return step in EARLY or (step > 0 and step % EVERY == 0)


@dataclass(slots=True, eq=False)
class _Measured:
    """A parameter whose update is measured: the norm of its gradient, and a copy where its values
    are not sampled."""

    parameter: torch.Tensor
    entry: ParameterEvidence
    gradient: float | None = None
    copy: torch.Tensor | None = None
    is_later: bool = False


@dataclass(slots=True, eq=False)
class ParameterSignals:
    """Keeps a `ParameterEvidence` for each parameter of optimizers and of the loss's graph."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    known: dict[int, ParameterEvidence] = field(default_factory=dict)
    _searched: WeakTable[torch.optim.Optimizer, int] = field(default_factory=WeakTable)
    """Optimizers whose parameters were looked for in variables."""
    _sums: WeakTable[torch.Tensor, float] = field(default_factory=WeakTable)
    """Of parameters that the loss reaches and no optimizer holds."""
    _calls_in_containers: dict[str, int] = field(default_factory=dict)
    _jumps: int = 0
    _measured: list[_Measured] = field(default_factory=list)
    _updates: SampledUpdates | None = None

    @shielded
    def before_step(self, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
        if not is_sampled(state.seen.steps) and not self._follows_jump():
            return
        self.name_all(optimizer, state)
        self._measured.clear()
        for parameter in parameters_of(optimizer):
            entry = self.known.get(id(parameter))
            gradient = parameter.grad
            if entry is None or not parameter.is_floating_point():
                continue
            if gradient is not None and (gradient.is_sparse or gradient.shape != parameter.shape):
                continue
            self._measured.append(_Measured(parameter, entry))
        held = [each.parameter for each in self._measured]
        for each, norm in zip(self._measured, norms([one.grad for one in held]), strict=True):
            each.gradient = None if each.parameter.grad is None else float(norm)
        self._updates = SampledUpdates(MOST_VALUES, with_gradients=True)
        self._updates.before_step(held)
        for each in self._measured:
            if not each.parameter.numel() or not _fills_memory(each.parameter):  # Not sampled.
                each.copy = part(each.parameter).clone()

    def _follows_jump(self) -> bool:
        """Whether the loss is far above those before: the steps of a divergence are few."""
        losses = self.recorder.evidence.losses[-WINDOW:]
        if len(losses) < WINDOW or self._jumps >= MOST_JUMPS:
            return False
        is_jump = self.recorder.loss > JUMP * median(losses) > 0
        self._jumps += is_jump
        return is_jump

    @shielded
    def after_step(self, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
        updates, self._updates = self._updates, None
        if state.backwards_inside > 1:  # LBFGS: no gradient belongs to the step.
            self._measured.clear()
        elif updates is not None:
            if state.backwards_inside:  # A trainer's closure computed it inside the step.
                for each in self._measured:
                    each.gradient, each.is_later = _norm_of(each.parameter.grad), True
            self._note_updates(optimizer, updates.after_step(), is_sampled(state.seen.steps - 1))
        self._measured.clear()
        if not state.seen.state_keys and optimizer.state:
            first = next(iter(optimizer.state.values()))
            state.seen.state_keys = tuple(str(key) for key in first) if first else ()

    def _note_updates(
        self, optimizer: torch.optim.Optimizer, found: ParameterUpdates, is_planned: bool
    ) -> None:
        rates = {
            id(parameter): float(group.get("lr") or 0.0)
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        for number, each in enumerate(self._measured):
            parameter, entry = each.parameter, each.entry
            weight, update = float(found.weights[number]), float(found.changes[number])
            lost, zeros = (float(row[number]) for row in (found.lost, found.zeros))
            if each.copy is not None:
                now = part(parameter)
                weight = float(each.copy.double().norm())
                update = float((now.double() - each.copy.double()).norm())
                lost = float(now.eq(each.copy).double().mean()) if each.gradient else 0.0
            if each.is_later:  # The gradient of the step before was sampled.
                lost = zeros = 0.0
            entry.samples.append(
                UpdateSample(
                    step=self.recorder.step,
                    rate=rates.get(id(parameter), 0.0),
                    weight=weight,
                    update=update,
                    gradient=each.gradient,
                    lost=0.0 if math.isnan(lost) else lost,
                    zeros=0.0 if math.isnan(zeros) else zeros,
                    is_planned=is_planned,
                )
            )
            if update > 0 and not parameter.requires_grad and not each.gradient:
                self.recorder.event("frozen-moved", None, entry.name, update=update)
            if entry.is_zero_now:
                entry.is_zero_now = not bool(part(parameter).ne(0).any())
            if entry.has_equal_rows_now:
                entry.has_equal_rows_now = _has_equal_rows(parameter, STILL_EQUAL)

    def name_all(self, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
        """Make or renew the entries of the parameters of ``optimizer``."""
        listed = list(parameters_of(optimizer))
        state.seen.parameters = len(listed)
        state.seen.frozen = sum(not each.requires_grad for each in listed)
        names = self._names()
        holders = {name: number for number, (name, _) in names.items()}
        for number, parameter in enumerate(listed):
            entry = self.entry(parameter, names, f"{state.seen.name}.{number}")
            entry.optimizer, entry.position = state.seen.name, number
            is_named = id(parameter) in names or not entry.is_in_module
            entry.is_replaced = not is_named and entry.name in holders
        if optimizer not in self._searched:
            self._searched[optimizer] = len(listed)
            self._name_bare(listed)

    def _name_bare(self, listed: list[torch.Tensor]) -> None:
        """Name parameters of no module after the variables that hold them, or their keys."""
        bare = [each for each in listed if not self.known[id(each)].is_in_module]
        found = names_in_variables(bare, variables_in_own_frame()) if bare else {}
        for number, name in found.items():
            self.known[number].name = name

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
        entry.loss = type(module).__name__ if module in self.modules.losses else ""
        entry.module = name.rpartition(".")[0]
        entry.module_calls = max(entry.module_calls, self.modules.count(module))
        calls = self._calls_in_containers
        if calls:
            parts = entry.module.split(".")
            prefixes = (".".join(parts[:length]) for length in range(1, len(parts)))
            inside = max((calls.get(prefix, 0) for prefix in prefixes), default=0)
            entry.sibling_calls = max(entry.sibling_calls, inside)

    def _count_in_containers(self) -> None:
        """Note, for each list or dictionary of modules, how often any module in it ran."""
        counted: dict[str, int] = {}
        for root in self.modules.roots:
            for path, module in root.named_modules():
                if isinstance(module, (nn.ModuleList, nn.ModuleDict)):
                    inside = max(map(self.modules.count, module.modules()))
                    counted[path] = max(counted.get(path, 0), inside)
        self._calls_in_containers = counted

    def _names(self) -> dict[int, tuple[str, nn.Module]]:
        """The name of each parameter in a known root, and its module. Where several networks have
        parameters of the same name, the variable that holds the network comes first."""
        self._count_in_containers()
        found: dict[int, tuple[str, nn.Module]] = {}
        owners: dict[str, dict[int, str]] = {}
        for root in self.modules.roots:
            counts = self.modules.roots.get(root)
            variable = "" if counts is None else counts.variable
            for path, module in root.named_modules():
                for name, parameter in module._parameters.items():
                    if parameter is not None:
                        full = f"{path}.{name}" if path else name
                        known = found.get(id(parameter))
                        if known is None or len(known[0]) < len(full):
                            found[id(parameter)] = (full, module)
                            owners.setdefault(full, {})[id(parameter)] = variable
        for loss in self.modules.losses:
            variable = self.modules.losses.get(loss) or type(loss).__name__
            for path, module in loss.named_modules():
                for name, parameter in module._parameters.items():
                    if parameter is not None:
                        place = ".".join(filter(None, (variable, path, name)))
                        found.setdefault(id(parameter), (place, module))
        for full, holders in owners.items():
            for key, variable in holders.items() if len(holders) > 1 else ():
                if found[key][0] == full and variable.isidentifier():
                    found[key] = (f"{variable}.{full}", found[key][1])
        return found

    @shielded
    def reached(self, parameters: list[torch.Tensor]) -> None:
        """Note the parameters that are leaves of a loss's graph."""
        names = self._names()
        loose = [each for each in parameters if id(each) not in names]
        others = names_in_containers(self.modules.roots) if loose else {}
        for parameter in parameters:
            entry = self.entry(parameter, names, others.get(id(parameter), ""))
            entry.reached += 1
            if entry.optimizer is None and self.recorder.step:
                self._note_write(parameter, entry)
        self.recorder.evidence.walks += 1

    def _note_write(self, parameter: torch.Tensor, entry: ParameterEvidence) -> None:
        """Note that a parameter that no optimizer holds is not what it was at the last walk."""
        total = float(part(parameter)[:MOST_VALUES].double().sum())
        known = self._sums.get(parameter)
        entry.writes += known is not None and known != total
        self._sums[parameter] = total


def _norm_of(gradient: torch.Tensor | None) -> float | None:
    if gradient is None or gradient.is_sparse:
        return None
    return float(gradient.detach().double().norm())


def part(tensor: torch.Tensor) -> torch.Tensor:
    """At most `MOST_ELEMENTS` elements of ``tensor``, flat; a view where that is possible."""
    return tensor.detach().reshape(-1)[:MOST_ELEMENTS]


def _has_equal_rows(parameter: torch.Tensor, tolerance: float = 1e-6) -> bool:
    rows = parameter.detach()[:MOST_ROWS].flatten(1)
    if rows.shape[0] < 2 or rows.numel() == 0:
        return False
    scale = float(rows.abs().max())
    return scale > 0 and float((rows - rows[:1]).abs().max()) <= tolerance * scale


def _fills_memory(parameter: torch.Tensor) -> bool:
    strides = parameter.stride()
    order = sorted(range(parameter.dim()), key=lambda each: -strides[each])
    return parameter.permute(order).is_contiguous()
