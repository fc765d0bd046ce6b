"""Records the functions of torch that a program calls outside of modules: its loss, its clipping.

Recorded is a call with an argument that requires a gradient, that comes from a recorded call, or
that is a gradient of the step. The results of other calls (the targets of a loss) are constants:
they are kept by reference when a recorded call uses them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.source_lines import find_user_frame
from sonde.adapters.torch.replay.kept_tensor import KeptTensor, keep, map_tree, tensors_in
from sonde.adapters.torch.replay.random_states import autocast_states, take_random
from sonde.adapters.torch.replay.step_record import OutsideOp

_RANDOM = ("rand", "dropout", "bernoulli", "multinomial", "normal", "uniform", "gumbel", "rrelu")
_NOT_RECORDED = frozenset(
    (
        "backward",
        "__repr__",
        "__format__",
        "item",
        "tolist",
        "numpy",
        "__deepcopy__",
        "__reduce_ex__",
    )
)
_CHANGES_TENSOR = frozenset(
    ("register_hook", "retain_grad", "requires_grad_", "__setitem__", "__set__", "__delete__")
)
_VIEWS = frozenset(("T", "mT", "H", "mH", "data", "real", "imag"))
"""The attributes of a tensor that are tensors over its memory."""
_CONVERSIONS = frozenset(("to", "type", "float", "double", "half", "bfloat16", "contiguous", "cpu"))
"""Functions that return their argument itself where there is nothing to convert."""
_FLAGS = frozenset(("__set__", "requires_grad_", "__delete__"))
_GRADIENT = vars(torch._C.TensorBase).get("grad")


def changes_argument(name: str) -> bool:
    """Whether a function called ``name`` writes to its first argument: ``add_``, ``__iadd__``."""
    if name in _CHANGES_TENSOR:
        return True
    if name.endswith("__"):
        return name.startswith("__i") and name not in (
            "__index__",
            "__init__",
            "__invert__",
            "__int__",
            "__iter__",
        )
    return name.endswith("_")


@dataclass(slots=True, eq=False)
class KnownTensors:
    """The tensors that the step has made, and those that it differentiates, while it runs.

    ``unseen`` counts tensors with a graph that no recorded call has made.
    """

    unseen: int = 0
    _by_id: dict[int, KeptTensor] = field(default_factory=dict)
    _written: set[int | None] = field(default_factory=set)

    def find(self, tensor: torch.Tensor) -> KeptTensor | None:
        """What is kept of ``tensor``, if the step knows it."""
        found = self._by_id.get(id(tensor))
        return found if found is not None and found.is_same_tensor(tensor) else None

    def has(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._by_id and self.find(tensor) is not None

    def argument(self, tensor: torch.Tensor) -> KeptTensor:
        """``tensor`` as the argument of a recorded call."""
        found = self.find(tensor)
        if found is not None and found.leaf is not None:
            return found
        # A function of autograd has run if the tensor has a graph now.
        is_made = found is not None and (found.requires_grad or not tensor.requires_grad)
        if found is not None and is_made and found.is_unchanged:
            return found
        kept = keep(tensor)
        if found is not None and is_made and found.memory in self._written:
            kept.earlier = found
            self._by_id[id(tensor)] = kept
        elif tensor.requires_grad:
            self._by_id[id(tensor)] = kept
            self.unseen += kept.leaf is None
        return kept

    def note_write(self, kept: KeptTensor) -> None:
        """A recorded op wrote to the memory of ``kept``, which other tensors may share."""
        self._written.add(kept.memory)
        self._by_id[kept.key] = kept

    def leaves(self) -> list[torch.Tensor]:
        """The tensors that gradients are accumulated in, as far as recorded calls used them."""
        return [
            each.leaf
            for each in self._by_id.values()
            if each.leaf is not None and each.requires_grad
        ]

    def result(self, tensor: torch.Tensor) -> KeptTensor:
        """``tensor`` as the result of a recorded call."""
        kept = keep(tensor)
        self._by_id[id(tensor)] = kept
        return kept

    def add(self, kept: KeptTensor) -> None:
        self._by_id[kept.key] = kept

    def discard(self, tensors: Iterable[KeptTensor]) -> None:
        """Keep ``tensors`` no longer."""
        for each in tensors:
            if self._by_id.get(each.key) is each:
                del self._by_id[each.key]

    def clear(self) -> None:
        self._by_id.clear()
        self._written.clear()
        self.unseen = 0


class OutsideOps(TorchFunctionMode):
    """Is entered while the program runs outside of modules; hands each recorded call to ``record``.

    ``has_gradients``: whether the step has run a backward pass; ``gradients`` returns the gradients
    of parameters that were computed since its last call. ``failed`` gets exceptions of Sonde's own
    code.
    """

    def __init__(
        self,
        known: KnownTensors,
        has_gradients: Callable[[], bool],
        gradients: Callable[[], Iterable[KeptTensor]],
        record: Callable[[OutsideOp], None],
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__()
        self._known = known
        self._has_gradients = has_gradients
        self._gradients = gradients
        self._record = record
        self._failed = failed
        self._running = 0

    @property
    def is_running(self) -> bool:
        """Whether a function that the program called outside of modules runs; torch has taken this
        mode off the stack until it returns."""
        return self._running > 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        self._running += 1
        try:
            name = getattr(func, "__name__", "")
            is_possible = self._running == 1 and name not in _NOT_RECORDED
            if name == "__get__" and func.__self__.__name__ not in _VIEWS:
                is_possible = False
            if not is_possible or not self._is_wanted(func, name, args, given):
                return func(*args, **given)
            # A conversion writes nothing, so it can be described when its result is known: clipping
            # "converts" the norm of each parameter to the device that it is on.
            is_conversion = name in _CONVERSIONS
            op = None if is_conversion else self._begin(func, name, args, given)
            try:
                result = func(*args, **given)
            except Exception as error:
                op = op or self._begin(func, name, args, given)
                if op is not None:
                    op.error = error
                    self._record(op)
                raise
            if is_conversion and result is not args[0]:
                op = self._begin(func, name, args, given)
            if op is not None:
                self._complete(op, result)
            return result
        finally:
            self._running -= 1

    def _is_wanted(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bool:
        try:
            if private.is_transforming():
                return False
            with private.without_torch_functions():
                return self._concerns_step(func, name, args, kwargs)
        except Exception as error:
            self._failed(error)
            return False

    def _concerns_step(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bool:
        if name in _FLAGS and isinstance(args[0], torch.Tensor) and args[0].is_leaf:
            if name != "__set__" or getattr(func, "__self__", None) is not _GRADIENT:
                return False  # Flags of weights are kept with each call of their module.
            return self._has_gradients()
        for gradient in self._gradients():
            self._known.add(gradient)
        return any(self._is_known(each) for each in (*args, *kwargs.values()))

    def _is_known(self, value: Any) -> bool:
        if isinstance(value, torch.Tensor):
            return value.requires_grad or self._known.has(value)
        if isinstance(value, (tuple, list)):
            return any(self._is_known(each) for each in value)
        return False

    def _begin(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> OutsideOp | None:
        try:
            with private.unobserved():
                _, frame = find_user_frame(sys._getframe(2))
                draws = any(each in name for each in _RANDOM)
                return OutsideOp(
                    func,
                    name,
                    map_tree(args, torch.Tensor, self._known.argument),
                    map_tree(kwargs, torch.Tensor, self._known.argument),
                    None,
                    None if frame is None else (frame.f_code, frame.f_lineno),
                    torch.is_grad_enabled(),
                    autocast_states(),
                    take_random(with_python=False) if draws else None,
                )
        except Exception as error:
            self._failed(error)
            return None

    def _complete(self, op: OutsideOp, result: Any) -> None:
        try:
            with private.unobserved():
                is_change = changes_argument(op.name)
                if not is_change and next(tensors_in(result), None) is None:
                    return
                op.results = map_tree(result, torch.Tensor, self._known.result)
                if is_change and op.name not in _FLAGS:
                    op.written = tuple(self._written(op))
                self._record(op)
        except Exception as error:
            self._failed(error)

    def _written(self, op: OutsideOp) -> Iterable[tuple[KeptTensor, KeptTensor]]:
        """The tensors of the first argument as they were, and as they are after the call."""
        for before in tensors_in(op.args[:1], KeptTensor):
            tensor = before.leaf
            after = KeptTensor(
                before.key,
                before.alias,
                private.version_of(before.alias),
                before.requires_grad,
                tensor,
                earlier=before,
            )
            self._known.note_write(after)
            yield before, after


def push_function_mode_below(mode: TorchFunctionMode) -> None:
    """Enter ``mode`` beneath the modes that are active now; do nothing if it is active.

    The program leaves its own modes by popping the topmost.
    """
    above = private.function_modes()
    if any(each is mode for each in above):
        return
    for _ in above:
        private.pop_function_mode()
    for each in (mode, *above):
        private.push_function_mode(each)


def pop_function_mode_below(mode: TorchFunctionMode) -> None:
    """Leave ``mode``, whatever modes are above it; do nothing if it is not active."""
    before = private.function_modes()
    if not any(each is mode for each in before):
        return
    for _ in before:
        private.pop_function_mode()
    for each in before:
        if each is not mode:
            private.push_function_mode(each)
