"""Names of modules that the program builds while it trains, kept by the place that calls them.

``nn.CrossEntropyLoss()(net(x), y)`` makes a new module in every step. Named by identity it would
get a new name each time, and every step would be a new graph. So a *place* (the scope, line and
class of the call) has a list of slots, each with a name. The first module called there takes the
first slot, the second module of the same step (or of the same call of the module around it) the
next one. In the next step the count begins again, and the new modules take the same slots and so
the same names.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from types import FrameType

from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.source_lines import is_user_file

Place = tuple[str, str, str, int, str]
"""Scope of the caller, file, function and line of the call, class of the module."""

Turn = dict[Place, int]
"""How many slots of each place are taken in one step, or inside one call of the module around the
place. Every step and every call of a module has a new one."""


@dataclass(slots=True, eq=False)
class Slot:
    """A name of a place, and the module that has it or had it last.

    ``instance`` is the first half of the name. ``turn`` is the turn in which the module was first
    met. ``is_lasting``: it was called again in a later turn, so it is not one that is built anew.
    """

    name: str
    instance: str
    module: weakref.ref[nn.Module]
    turn: Turn
    is_lasting: bool = False


@dataclass(slots=True, eq=False)
class BuiltModules:
    """The slots of every place. Their number is bounded by the lines of the program and by how many
    modules a line builds in a step, not by the number of steps."""

    _slots: dict[Place, list[Slot]] = field(default_factory=dict)
    _names: dict[Place, set[str]] = field(default_factory=dict)

    def reuse(
        self, place: Place, module: nn.Module, turn: Turn, may_replace: Callable[[Slot], bool]
    ) -> Slot | None:
        """The slot that ``module``, new at ``place``, takes over; None if there is none.

        ``may_replace`` is asked about a slot whose module is still alive but was met in an earlier
        turn and not called since, such as garbage that awaits collection.
        """
        slots = self._slots.get(place, ())
        for number in range(turn.get(place, 0), len(slots)):
            slot = slots[number]
            is_left = slot.turn is not turn and not slot.is_lasting
            if slot.module() is None or (is_left and may_replace(slot)):
                turn[place] = number + 1
                slot.module, slot.turn, slot.is_lasting = weakref.ref(module), turn, False
                return slot
        return None

    def first(self, place: Place) -> Slot | None:
        slots = self._slots.get(place)
        return slots[0] if slots else None

    def names(self, place: Place) -> frozenset[str] | set[str]:
        """The names of all slots of ``place``."""
        return self._names.get(place, frozenset())

    def add(self, place: Place, module: nn.Module, name: str, instance: str, turn: Turn) -> Slot:
        """A new slot of ``place`` for ``module``."""
        slot = Slot(name, instance, weakref.ref(module), turn)
        slots = self._slots.setdefault(place, [])
        slots.append(slot)
        self._names.setdefault(place, set()).add(name)
        turn[place] = len(slots)
        return slot


class ModuleNames:
    """Which module has which name. A name is free again when its module has died, unless it is
    reserved for the modules that a place builds."""

    def __init__(self) -> None:
        self._holders: dict[str, weakref.ref[nn.Module]] = {}
        self._reserved: set[str] = set()
        # For names that several modules asked for: no smaller number is free.
        self._numbers: dict[str, int] = {}

    def holder(self, name: str) -> nn.Module | None:
        reference = self._holders.get(name)
        return None if reference is None else reference()

    def free(self, name: str, avoided: Container[str] = ()) -> str:
        """The first of ``name``, ``name_1``, ``name_2`` ... that is free and not ``avoided``."""

        def is_free(name: str) -> bool:
            return not (name in self._reserved or name in avoided or self.holder(name) is not None)

        if is_free(name):
            return name
        number = self._numbers.get(name, 1)
        while not is_free(f"{name}_{number}"):
            number += 1
        self._numbers[name] = number
        return f"{name}_{number}"

    def reserve(self, name: str) -> None:
        self._reserved.add(name)

    def take(self, name: str, reference: weakref.ref[nn.Module]) -> None:
        self._holders[name] = reference

    def release(self, name: str, reference: weakref.ref[nn.Module]) -> None:
        """Make ``name`` free, unless another module has it by now."""
        if self._holders.get(name) is reference:
            del self._holders[name]
            base, _, number = name.rpartition("_")
            if number.isdecimal() and int(number) < self._numbers.get(base, 1):
                self._numbers[base] = int(number)


def place_of(scope: str, module: nn.Module, frame: FrameType | None) -> Place:
    """The place in the user's code that calls ``module``, from ``frame`` outwards."""
    label = type(module).__qualname__
    for each in private.frames_from(frame):
        code = each.f_code
        if is_user_file(code.co_filename):
            return (scope, code.co_filename, code.co_name, each.f_lineno, label)
    return (scope, "", "", 0, label)
