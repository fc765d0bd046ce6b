"""Keeps the sums of outputs where a test would wait for the device: they name the module only.

A sum is a number on the device that nobody waits for; NaN and Inf do not get lost in it. In a step
that goes wrong the first sum that is not finite names the module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import calling_line
from sonde.adapters.torch.ranks.digests import plain
from sonde.adapters.torch.ranks.layout import plain_name
from sonde.adapters.torch.ranks.non_finite.followed_call import ScreenedOrigin
from sonde.adapters.torch.ranks.non_finite.followed_modules import line_of_module, module_text
from sonde.adapters.torch.replay.kept_tensor import tensors_in

_MOST_MODULES: Final = 2000
_MOST_SUMS: Final = 5000


@dataclass(slots=True, eq=False)
class OutputSums:
    """The sums of the running step. Hooks are on the modules only while an outermost one runs.
    Used from the training thread; ``shield`` takes failures of Sonde."""

    shield: Any
    _sums: list[tuple[ScreenedOrigin, torch.Tensor]] = field(default_factory=list)
    _handles: list[Any] = field(default_factory=list)

    def follow(self, module: nn.Module, args: Any) -> None:
        """A module begins: add up its inputs and what is inside it."""
        self.leave()
        self.add("the input of the model", calling_line(), args)
        for number, (name, inner) in enumerate(module.named_modules()):
            if number > _MOST_MODULES:
                break
            hook = _after(self, plain_name(name))
            self._handles.append(inner.register_forward_hook(hook))

    def leave(self, *, has_failed: bool = False) -> None:
        """Add up nothing more. ``has_failed``: see `CallScreen.leave`."""
        while self._handles and not has_failed:
            self._handles.pop().remove()

    def add(self, what: str, source: str, value: Any) -> None:
        with self.shield, private.unobserved(), torch.no_grad():
            tensor = next((each for each in tensors_in(value) if each.is_floating_point()), None)
            values = None if tensor is None else plain(tensor)
            if values is not None and len(self._sums) < _MOST_SUMS:
                total = values.sum(dtype=torch.float32)
                self._sums.append((ScreenedOrigin(what, source, len(self._sums)), total))

    def first(self) -> ScreenedOrigin | None:
        """The first of the running step that is not finite; None if all are."""
        with private.unobserved(), torch.no_grad():
            for each, total in self._sums:
                if not bool(torch.isfinite(total)):
                    return each
        return None

    def step_ended(self) -> None:
        self._sums.clear()


# A function, not a method: a program may copy a module while it has the hook.


def _after(owner: OutputSums, name: str) -> Callable[..., None]:
    def ended(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        owner.add(module_text(name, module), line_of_module(module), output)

    private.hide_from_compiler(ended)
    return ended
