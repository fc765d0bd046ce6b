"""Which values are kept, besides those somebody looks at now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from weakref import WeakValueDictionary

from numpy.typing import NDArray

from sonde.core.graph import OpNode
from sonde.core.sink import OpCall, TensorView
from sonde.debugger.graphs import gradient_name
from sonde.debugger.kept import KeptTensor, KeptValues
from sonde.debugger.trainee import Held
from sonde.debugger.watches import Pattern


class Keeping:
    """The values kept and the patterns they are kept for. Used from the training thread only."""

    def __init__(self, budget_bytes: int) -> None:
        self.values = KeptValues(budget_bytes)
        self._budget = budget_bytes
        self._ops: dict[str, tuple[Pattern, int]] = {}
        self._parameters: dict[str, int] = {}
        # What was kept in this step, by contents: the input of one op is the output of another.
        self._step = -1
        self._known: WeakValueDictionary[object, NDArray[Any]] = WeakValueDictionary()

    @property
    def needs_ops(self) -> bool:
        return bool(self._ops)

    @property
    def keeps_parameters(self) -> bool:
        return bool(self._parameters)

    def add(self, patterns: Collection[str], steps: int, held: Sequence[Held]) -> None:
        """Keep what matches ``patterns`` for ``steps`` steps; 0: no more."""
        names = {each.name for each in held} | {gradient_name(each.name) for each in held}
        for text in patterns:
            if steps <= 0:
                self._ops.pop(text, None)
                self._parameters.pop(text, None)
            elif text in names:
                self._parameters[text] = steps
            else:
                self._ops[text] = (Pattern.parse(text), steps)

    def reserve(self, nbytes: int) -> None:
        """So much of the budget is used elsewhere."""
        self.values.set_budget(max(self._budget - nbytes, 0))

    def wants_op(self, node: OpNode) -> bool:
        return bool(self._ops) and self._steps_of(node) > 0

    def keep(self, call: OpCall) -> None:
        """Keep the inputs and outputs of ``call``; values that are kept already are not copied."""
        steps = max(self._steps_of(call.node), 1)
        if call.step != self._step:
            self._step = call.step
            self._known.clear()
        for view in (*call.inputs, *call.outputs):
            self._put(call.node.name, view, call.step, steps, view.token)

    def keep_parameters(self, held: Sequence[Held], step: int) -> None:
        """Those that were asked for, as step ``step`` is about to use them."""
        for each in held if self._parameters else ():
            if each.name in self._parameters:
                self._put(each.name, each.value(), step, self._parameters[each.name])
            name = gradient_name(each.name)
            if name in self._parameters:
                gradient = each.gradient()
                if gradient is not None:
                    self._put(name, gradient, max(step - 1, 0), self._parameters[name])

    def _steps_of(self, node: OpNode) -> int:
        return max(
            (
                steps
                for pattern, steps in self._ops.values()
                if pattern.matches(node.name, node.type, node.scope, is_leaf=node.kind != "op")
            ),
            default=0,
        )

    def _put(
        self, op: str, view: TensorView, step: int, most_steps: int, token: object = None
    ) -> None:
        if view.problem is None and view.is_filled and self.values.has_room_for(view.nbytes):
            array = None if token is None else self._known.get(token)
            if array is None:
                array = view.numpy()
            if token is not None:
                self._known[token] = array
            kept = KeptTensor(step, array, view.dtype)
            self.values.put((op, view.io, view.slot), kept, most_steps=most_steps)
