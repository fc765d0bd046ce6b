"""Observes parameters that two modules share, and whether a later change separates them.

A tie is broken if a parameter of the same shape takes the place of the shared one in one module
(``emb.weight = ...``), or if one of the modules is replaced (``self.emb = nn.Embedding(...)``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import nn
from torch.nn.parameter import is_lazy

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.recorder import (
    EvidenceRecorder,
    shielded,
    variables_in_own_frame,
)
from sonde.core.graph import Source
from sonde.core.patching import wrap

_Slot = tuple[weakref.ref[nn.Module], str, Source | None]
_BrokenTie = tuple[weakref.ref[nn.Module], str, Source | None, _Slot]
MOST_TIES = 64


class _Tie(NamedTuple):
    """Two paths of parameters below ``holder`` that were one parameter."""

    holder: weakref.ref[nn.Module]
    left: str
    right: str
    source: Source | None


@dataclass(slots=True, eq=False)
class WeightTies:
    """Follows the registration of parameters, and judges before each step."""

    recorder: EvidenceRecorder
    _slots: dict[int, list[_Slot]] = field(default_factory=dict)
    _broken: list[_BrokenTie] = field(default_factory=list)
    _ties: list[_Tie] = field(default_factory=list)

    def install(self, undo: ExitStack) -> None:
        wrap(nn.Module, "register_parameter", self._around_register, undo)

    def _around_register(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def register_parameter(module: nn.Module, name: str, param: Any) -> Any:
            old = module._parameters.get(name)
            result = original(module, name, param)
            if isinstance(param, nn.Parameter):
                self._registered(module, name, old, param)
            return result

        return register_parameter

    @shielded
    def _registered(self, module: nn.Module, name: str, old: Any, new: nn.Parameter) -> None:
        source = caller()
        slots = self._slots.setdefault(id(new), [])
        slots[:] = [each for each in slots if _holds(each[0](), each[1], new)]
        if slots and len(self._ties) < MOST_TIES:
            self._note_tie(slots[0], module, name, source)
        slots.append((weakref.ref(module), name, source))
        if old is None or old is new or is_lazy(old) or is_lazy(new) or old.shape != new.shape:
            return
        others = [each for each in self._slots.get(id(old), ()) if _holds(each[0](), each[1], old)]
        if others:
            self._broken.append((weakref.ref(module), name, source, others[0]))

    def _note_tie(self, slot: _Slot, module: nn.Module, name: str, source: Source | None) -> None:
        """Note the tie by its paths in the module whose code makes it."""
        for holder in _modules_of_caller():
            paths = {id(each): path for path, each in holder.named_modules() if path}
            left, right = paths.get(id(slot[0]())), paths.get(id(module))
            if left is not None and right is not None and left != right:
                made = _Tie(weakref.ref(holder), f"{left}.{slot[1]}", f"{right}.{name}", source)
                self._ties.append(made)
                return

    @shielded
    def before_step(self, *_: object) -> None:
        """Report the ties that were broken since the last step, unless both are tied again."""
        broken, self._broken = self._broken, []
        for holder, name, source, (other, other_name, tied) in broken:
            module, partner = holder(), other()
            if module is None or partner is None:
                continue
            if not _holds(partner, other_name, module._parameters.get(name)):
                self.recorder.event(
                    "tie-broken", source, f"{type(module).__name__}.{name}", tied=str(tied or "")
                )
        if not self.recorder.step:
            self._judge_paths()

    def _judge_paths(self) -> None:
        """Before the first step: the paths of a tie must still lead to one parameter."""
        known = {each.subject for each in self.recorder.evidence.named("tie-broken")}
        for tie in self._ties:
            holder = tie.holder()
            named = {} if holder is None else dict(holder.named_parameters(remove_duplicate=False))
            left, right = named.get(tie.left), named.get(tie.right)
            if left is None or right is None or left is right or known:
                continue
            if not is_lazy(left) and left.shape == right.shape:
                self.recorder.event(
                    "tie-broken", tie.source, tie.right, tied=str(tie.source or ""), other=tie.left
                )


def _holds(module: nn.Module | None, name: str, parameter: Any) -> bool:
    return module is not None and module._parameters.get(name) is parameter


def _modules_of_caller() -> list[nn.Module]:
    """The modules in the variables of the nearest frame of the program's own code."""
    values = [value for _, value in variables_in_own_frame()]
    return [each for each in values if isinstance(each, nn.Module)][:8]
