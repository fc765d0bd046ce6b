"""What a rank decides in a step, and all ranks must decide alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
import xxhash
from torch import nn

from sonde.adapters.torch.debugging.optimizers import parameters_of
from sonde.adapters.torch.ranks.layout import plain_name
from sonde.adapters.torch.ranks.running_step import RunningStep
from sonde.core.weak_table import WeakTable
from sonde.ranks.report import EVAL_MODE, MODULES_IN_EVAL, STEPS_BEFORE

_MOST_NAMES: Final = 5
_MOST_MODULES: Final = 10_000
_MOST_GROUPS: Final = 32
_OTHERWISE_COMPARED: Final = ("params", "lr", "initial_lr", "param_names")


@dataclass(slots=True, eq=False)
class ModuleModes:
    """Which modules of a network in training are in eval mode. Used from the training thread."""

    _known: WeakTable[nn.Module, list[tuple[str, nn.Module]]] = field(default_factory=WeakTable)

    def in_eval(self, network: nn.Module, *, is_new: bool) -> str:
        """The names of the outermost ones. ``is_new``: look for modules that were added."""
        known = self._known.get(network)
        if known is None or is_new:
            known = self._known[network] = list(_inside(network))
        if all(each.training for _, each in known):
            return ""
        found: list[str] = []
        for name, module in known:
            if not module.training and not any(name.startswith(f"{each}.") for each in found):
                found.append(name)
        return listed(found)


def _inside(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for number, (name, module) in enumerate(network.named_modules()):
        if number >= _MOST_MODULES:
            return
        if label := plain_name(name):
            yield label, module


def listed(names: Sequence[str]) -> str:
    """Some names, with a hash of all where there are more: equal for equal names only."""
    shown = ", ".join(names[:_MOST_NAMES])
    if len(names) <= _MOST_NAMES:
        return shown
    digest = xxhash.xxh3_64_hexdigest("\n".join(names).encode())[:8]
    return f"{shown} and {len(names) - _MOST_NAMES} others (hash {digest})"


def _options(optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """Those that are numbers or switches, of its groups in their order."""
    found: dict[str, list[str]] = {}
    for group in optimizer.param_groups[:_MOST_GROUPS]:
        for name, value in group.items():
            if name not in _OTHERWISE_COMPARED and isinstance(value, (int, float, str, tuple)):
                found.setdefault(name, []).append(str(value))
    return {
        name: texts[0] if len(set(texts)) == 1 else ", ".join(texts)
        for name, texts in found.items()
    }


def decisions(
    optimizers: Sequence[torch.optim.Optimizer],
    step: RunningStep,
    parameter_name: Callable[[torch.Tensor], str],
    first_step: int,
) -> dict[str, str]:
    """By name what was decided in ``step``; what is not there is ``none``."""
    found = {"skipped step": str(step.is_skipped)}
    if first_step:
        found[STEPS_BEFORE] = str(first_step)
    frozen: list[str] = []
    for number, optimizer in enumerate(optimizers):
        rates = [group.get("lr") for group in optimizer.param_groups]
        text = ", ".join(f"{float(rate):.6g}" for rate in rates if rate is not None)
        found[f"learning rate of optimizer {number}" if number else "learning rate"] = text
        of = f"optimizer {number}" if number else "the optimizer"
        found[f"class of {of}"] = type(optimizer).__name__
        found |= {f"{name} of {of}": text for name, text in _options(optimizer).items()}
        frozen += [parameter_name(e) for e in parameters_of(optimizer) if not e.requires_grad]
    for name, what in (
        (EVAL_MODE, step.in_eval),
        (MODULES_IN_EVAL, step.modules_in_eval),
        ("parameters with requires_grad=False", listed(frozen)),
    ):
        if what:
            found[name] = what
    return found
