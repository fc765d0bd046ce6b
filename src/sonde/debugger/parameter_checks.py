"""Evaluates watchpoints on parameters between ops, and copies the values they compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sonde.debugger.parts import RankParts
from sonde.debugger.trainee import Held
from sonde.wire.shapes import HitRef

_PLAN_EVERY: Final = 50
_STEPPING_SHARE: Final = 0.25


class ParameterChecks:
    """Checks of the parameters of one rank. Used from the training thread.

    The hit at which to stop the training is returned, or None.
    """

    def __init__(self, parts: RankParts) -> None:
        self._parts = parts
        self._first_step = parts.state.step
        # Parameters that were checked before an optimizer changed them.
        self._known: set[str] = set()
        self._known_list: Sequence[Held] = ()

    def find_new(self) -> Sequence[Held]:
        """The parameters that became known since the last call, and have their initial values.

        A network becomes known when it runs, which may be in any step.
        """
        unchanged = self._parts.trainee.unchanged_yet()
        if unchanged is self._known_list:
            return ()
        self._known_list = unchanged
        new = [each for each in unchanged if each.name not in self._known]
        self._known.update(each.name for each in new)
        return new

    def check_initial(self, new: Sequence[Held]) -> HitRef | None:
        """Evaluate the watchpoints on initial weights."""
        watching = self._parts.watching
        watching.plan()
        with self._parts.trainee.unobserved():
            return watching.initial({each.name for each in new}, self._parts.state.step)

    def copy_new(self, new: Sequence[Held]) -> None:
        """Copy the values of ``new`` that the next step is compared with."""
        parts = self._parts
        wanted = set(parts.watching.compared_parameters())
        copied = [each for each in new if each.name in wanted]
        if copied:
            with parts.trainee.unobserved():
                parts.previous.add(copied, parts.state.step)
                parts.recorder.reserve(parts.previous.used_bytes)

    def check_updated(self) -> HitRef | None:
        """Evaluate the watchpoints on weights after an update."""
        parts = self._parts
        if not parts.watching.specs:
            return None
        if (parts.state.step - self._first_step) % _PLAN_EVERY == 0:
            parts.watching.plan()
        with parts.trainee.unobserved():
            return parts.watching.parameters(parts.state.step)

    def _weights_to_compare(self, held: Sequence[Held]) -> set[str]:
        """The weights that the user, who runs steps one by one, may compare with the step before:
        all of them if they take little of the memory for kept values, else none."""
        weights = {each.name: each.value().nbytes for each in held if each.is_weight}
        room = self._parts.previous.budget_bytes * _STEPPING_SHARE
        return set(weights) if sum(weights.values()) <= room else set()

    def copy_all(self) -> None:
        """Copy the values that the next step is compared with; called after the pause at the end
        of a step, in which the user may have changed watchpoints."""
        parts = self._parts
        wanted = {*parts.watching.compared_parameters(), *parts.previous.opened}
        is_stepping = parts.control.is_stepping
        is_idle = not (wanted or parts.previous.used_bytes or parts.recorder.keeps_parameters)
        if is_idle and not is_stepping:
            return
        with parts.trainee.unobserved():
            held = parts.trainee.held()
            if is_stepping:
                wanted |= self._weights_to_compare(held)
            parts.previous.renew([each for each in held if each.name in wanted], parts.state.step)
            parts.recorder.reserve(parts.previous.used_bytes)
            parts.recorder.record_parameters(held, parts.state.step)
