"""Caches values of tensors, within a memory budget, to be shown later."""

from __future__ import annotations

import weakref
from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from sonde.core.graph import OpNode
from sonde.core.keys import Io
from sonde.core.operators.patterns import OpPattern
from sonde.core.sink import OpCall, TensorView
from sonde.debugger.trainee import Held
from sonde.debugger.values.graphs import gradient_name
from sonde.wire.shapes import KeptOp

COMPARED_STEPS: Final = 2
"""Steps of what was only shown, or paused at, that are cached: to compare it with the step before.
"""
SlotKey = tuple[str, Io, int]
"""One input or output of an op: op, input or output, slot."""


@dataclass(frozen=True, slots=True, eq=False)
class CachedTensor:
    """Values of one step. ``dtype`` is the type of the tensor, which numpy may lack."""

    step: int
    array: NDArray[Any]
    dtype: str


class ValueCache:
    """Arrays by slot and step; the least recently used is dropped first.

    Used from the training thread only. The cache owns its arrays. An array may be cached for
    several slots (the output of one op is the input of another); it counts once against the
    budget, and stays until its last slot is dropped.
    """

    def __init__(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self.used_bytes = 0
        self._tensors: OrderedDict[tuple[SlotKey, int], CachedTensor] = OrderedDict()
        self._steps: dict[SlotKey, list[int]] = {}
        self._users: Counter[int] = Counter()  # slots by the id of their array
        self.dropped = 0

    def has_room_for(self, nbytes: int) -> bool:
        """Whether a tensor of that size can be cached at all."""
        return nbytes <= self._budget

    def put(self, slot: SlotKey, tensor: CachedTensor, *, most_steps: int = 1 << 30) -> None:
        """Cache ``tensor``, and at most ``most_steps`` steps of its slot."""
        self._drop(slot, tensor.step)
        if not self.has_room_for(tensor.array.nbytes):
            self.dropped += 1
            return
        steps = self._steps.setdefault(slot, [])
        while len(steps) >= most_steps:
            self._drop(slot, steps[0])
        self._users[id(tensor.array)] += 1
        if self._users[id(tensor.array)] == 1:
            self.used_bytes += tensor.array.nbytes
        self._tensors[slot, tensor.step] = tensor
        self._steps.setdefault(slot, []).append(tensor.step)
        self._make_room()

    def set_budget(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self._make_room()

    def _make_room(self) -> None:
        while self.used_bytes > self._budget:
            oldest, step = next(iter(self._tensors))
            self._drop(oldest, step)
            self.dropped += 1

    def find(self, slot: SlotKey, step: int | None) -> CachedTensor | None:
        """The values of ``step``; None: of the latest step."""
        steps = self._steps.get(slot)
        if not steps:
            return None
        key = (slot, max(steps) if step is None else step)
        found = self._tensors.get(key)
        if found is not None:
            self._tensors.move_to_end(key)
        return found

    def steps(self, slot: SlotKey) -> tuple[int, ...]:
        return tuple(sorted(self._steps.get(slot, ())))

    def bytes_by_op(self) -> Counter[str]:
        """The memory of the arrays of each op. An array of several ops counts for each of them."""
        arrays: dict[tuple[str, int], int] = {}
        for ((op, _, _), _), each in self._tensors.items():
            arrays[op, id(each.array)] = each.array.nbytes
        used: Counter[str] = Counter()
        for (op, _), nbytes in arrays.items():
            used[op] += nbytes
        return used

    def _drop(self, slot: SlotKey, step: int) -> None:
        tensor = self._tensors.pop((slot, step), None)
        if tensor is None:
            return
        self._users[id(tensor.array)] -= 1
        if not self._users[id(tensor.array)]:
            del self._users[id(tensor.array)]
            self.used_bytes -= tensor.array.nbytes
        steps = self._steps[slot]
        steps.remove(step)
        if not steps:
            del self._steps[slot]


class ValueRecorder:
    """Decides which values are cached: those that the user asked for by patterns, and those of the
    ops at which the training paused. Used from the training thread only."""

    def __init__(self, budget_bytes: int) -> None:
        self.values = ValueCache(budget_bytes)
        self._budget = budget_bytes
        self._ops: dict[str, tuple[OpPattern, int]] = {}
        self._parameters: dict[str, int] = {}
        # Those of the parameters that the user asked to keep; the others were only shown.
        self._asked: dict[str, int] = {}
        self._matched: dict[str, set[str]] = {}
        # Arrays of this step by token: the input of one op is the output of another.
        self._step = -1
        self._known: dict[object, weakref.ref[NDArray[Any]]] = {}

    @property
    def needs_ops(self) -> bool:
        return bool(self._ops)

    @property
    def keeps_parameters(self) -> bool:
        return bool(self._parameters)

    def add(self, patterns: Collection[str], steps: int, held: Sequence[Held]) -> None:
        """Cache the last ``steps`` steps of what matches ``patterns``; 0 stops that."""
        names = {each.name for each in held} | {gradient_name(each.name) for each in held}
        for text in patterns:
            if steps <= 0:
                for kept in (self._ops, self._parameters, self._asked, self._matched):
                    kept.pop(text, None)
            elif text in names:
                self._parameters[text] = self._asked[text] = steps
            else:
                self._ops[text] = (OpPattern.parse(text), steps)

    def kept(self) -> tuple[KeptOp, ...]:
        """The patterns that are kept on request, and the memory that each takes."""
        steps = {text: each for text, (_, each) in self._ops.items()} | self._asked
        used = self.values.bytes_by_op()
        return tuple(
            KeptOp(text, each, sum(used[op] for op in self._matched.get(text, {text})))
            for text, each in steps.items()
        )

    def keep_parameter(self, name: str) -> None:
        """Cache the last steps of a parameter or gradient, so that two steps can be compared."""
        self._parameters.setdefault(name, COMPARED_STEPS)

    def reserve(self, nbytes: int) -> None:
        """Reserve ``nbytes`` of the budget for values that are copied elsewhere."""
        self.values.set_budget(max(self._budget - nbytes, 0))

    def wants_op(self, node: OpNode) -> bool:
        return bool(self._ops) and self._steps_of(node) > 0

    def record(self, call: OpCall) -> None:
        """Cache the inputs and outputs of ``call``; values that are cached are not copied again."""
        steps = max(self._steps_of(call.node), COMPARED_STEPS)
        for text in self._matching(call.node):
            self._matched.setdefault(text, set()).add(call.node.name)
        if call.step != self._step:
            self._step = call.step
            self._known.clear()
        for view in (*call.inputs, *call.outputs):
            self._put(call.node.name, view, call.step, steps, view.token)

    def record_parameters(self, held: Sequence[Held], step: int) -> None:
        """Cache the parameters the user asked for, as step ``step`` is about to use them."""
        for each in held if self._parameters else ():
            if each.name in self._parameters:
                self._put(each.name, each.value(), step, self._parameters[each.name])
            name = gradient_name(each.name)
            if name in self._parameters:
                gradient = each.gradient()
                if gradient is not None:
                    self._put(name, gradient, max(step - 1, 0), self._parameters[name])

    def _steps_of(self, node: OpNode) -> int:
        return max((self._ops[text][1] for text in self._matching(node)), default=0)

    def _matching(self, node: OpNode) -> list[str]:
        is_leaf = node.kind != "op"
        return [
            text
            for text, (pattern, _) in self._ops.items()
            if pattern.matches(node.name, node.type, node.scope, is_leaf=is_leaf)
        ]

    def _put(
        self, op: str, view: TensorView, step: int, most_steps: int, token: object = None
    ) -> None:
        if view.problem is None and view.is_filled and self.values.has_room_for(view.nbytes):
            known = None if token is None else self._known.get(token)
            array = None if known is None else known()
            if array is None:
                array = view.numpy()
            if token is not None:
                self._known[token] = weakref.ref(array)
            cached = CachedTensor(step, array, view.dtype)
            self.values.put((op, view.io, view.slot), cached, most_steps=most_steps)
