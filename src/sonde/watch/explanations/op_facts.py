"""What an explanation is made from: one execution of an op, with the values of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sonde.core.errors import SondeError
from sonde.core.interruption import pass_on
from sonde.core.operators.kinds import kind_of
from sonde.core.sink import OpCall, TensorView
from sonde.core.statistics import Statistics
from sonde.watch.measured_tensor import MissingStatisticError

Array = NDArray[Any]
Mask = NDArray[np.bool_]
MOST_ELEMENTS: Final = 1 << 24
"""Larger tensors are explained by their statistics: places of values are not compared."""
_FOREACH: Final = "_foreach_"
_TRUTH: Final = {"True": "1", "False": "0"}


def _no_array() -> Array | None:
    return None


def _no_statistics() -> Statistics | None:
    return None


@dataclass(eq=False)
class TensorFacts:
    """One tensor. ``read`` returns its values, ``measure`` its statistics; None if they are not
    available. Each is called at most once."""

    slot: int
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], Array | None] = _no_array
    measure: Callable[[], Statistics | None] = _no_statistics

    @cached_property
    def array(self) -> Array | None:
        """Real numbers in the original shape; None for complex, unreadable or too large ones."""
        if self.dtype.startswith("complex") or self.size > MOST_ELEMENTS:
            return None
        try:
            found = self.read()
        except (SondeError, OSError, ValueError) as error:
            pass_on(error)
            return None
        if found is None or found.dtype.kind not in "fiub" or found.size != self.size:
            return None
        return found.reshape(self.shape)

    @cached_property
    def statistics(self) -> Statistics | None:
        try:
            return self.measure()
        except (SondeError, OSError, MissingStatisticError) as error:
            pass_on(error)
            return None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith(("float", "bfloat"))

    def number(self, name: str) -> float | None:
        """A statistic by its name, from the values or as recorded; None if it is not known."""
        if self.array is not None:
            return _measured(self.array, name)
        try:
            found = getattr(self.statistics, name, None)
        except MissingStatisticError:
            return None
        return None if found is None or np.isnan(found) else float(found)

    def count(self, kind: str) -> int:
        """The number of elements that are ``nan``, ``inf`` (of either sign) or ``non-finite``."""
        array = self.array
        if array is not None:
            return int(is_kind(array, kind).sum())
        nans = int(self.number("nan_count") or 0)
        infinities = int(self.number("positive_inf_count") or 0)
        infinities += int(self.number("negative_inf_count") or 0)
        return {"nan": nans, "inf": infinities}.get(kind, nans + infinities)


def is_kind(array: Array, kind: str) -> Mask:
    """Where elements are ``nan``, ``inf`` (of either sign) or ``non-finite``."""
    if array.dtype.kind != "f":
        return np.zeros(array.shape, np.bool_)
    if kind == "nan":
        return np.isnan(array)
    return np.isinf(array) if kind == "inf" else ~np.isfinite(array)


def _measured(array: Array, name: str) -> float | None:
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    counts = {
        "nan_count": lambda: is_kind(array, "nan").sum(),
        "positive_inf_count": lambda: (array == np.inf).sum(),
        "negative_inf_count": lambda: (array == -np.inf).sum(),
        "zero_count": lambda: (array == 0).sum(),
        "negative_count": lambda: (array < 0).sum(),
    }
    if name in counts:
        return float(counts[name]())
    if not finite.size:
        return None
    return float(finite.max() if name == "finite_max" else finite.min())


@dataclass(frozen=True, eq=False)
class OpFacts:
    """One execution of an op; ``attributes`` are its arguments that are not tensors.
    ``is_complete``: all its inputs are known. ``gradient_of``: the operator whose gradient it
    computes, in the backward pass."""

    type: str
    inputs: Sequence[TensorFacts]
    outputs: Sequence[TensorFacts]
    attributes: dict[str, str] = field(default_factory=dict)
    is_complete: bool = True
    gradient_of: str = ""

    @cached_property
    def kind(self) -> str:
        """The name of the operator in the table: ``sqrt`` for ``sqrt_`` and ``Sqrt``."""
        plain = self.type.removeprefix(_FOREACH).rstrip("_")
        return kind_of(plain) if plain[:1].isupper() else plain

    @cached_property
    def output(self) -> TensorFacts | None:
        """The first output with NaN or Inf."""
        return next((each for each in self.outputs if each.count("non-finite")), None)

    def input(self, slot: int) -> TensorFacts | None:
        return next((each for each in self.inputs if each.slot == slot), None)

    def scalar(self, *names: str) -> float | None:
        """The first of these arguments that is a number."""
        for name in names:
            text = self.attributes.get(name, "")
            try:
                return float(_TRUTH.get(text, text))
            except ValueError as error:
                pass_on(error)
                continue
        return None

    def dimensions(self, rank: int) -> tuple[int, ...] | None:
        """The dimensions that ``dim`` names, of a tensor of ``rank`` dimensions; all of them
        without ``dim``; None if they cannot be read."""
        text = self.attributes.get("dim", "").strip("[]() ")
        if text in ("", "None"):
            return tuple(range(rank))
        try:
            return tuple(int(each) % rank for each in text.split(",")) if rank else ()
        except ValueError as error:
            pass_on(error)
            return None

    def of_one_tensor(self) -> OpFacts:
        """For an op on lists of tensors: the execution for the first output with NaN or Inf."""
        output, count = self.output, len(self.outputs)
        if not self.type.startswith(_FOREACH) or output is None or len(self.inputs) % count:
            return self
        at = [each.slot for each in self.outputs].index(output.slot)
        chosen = self.inputs[at::count]
        renumbered = [
            TensorFacts(slot, each.dtype, each.shape, each.read, each.measure)
            for slot, each in enumerate(chosen)
        ]
        return replace(self, inputs=renumbered, outputs=[output])


def facts_of_call(call: OpCall) -> OpFacts:
    """The facts of an op of a running training; valid as long as its tensors are."""
    return OpFacts(
        call.node.type,
        [_facts_of_view(each) for each in call.inputs if each.is_filled],
        [_facts_of_view(each) for each in call.outputs if each.is_filled],
        dict(call.attributes),
        len(call.inputs) >= len(call.node.inputs) and all(each.is_filled for each in call.inputs),
    )


def _facts_of_view(view: TensorView) -> TensorFacts:
    def read() -> Array | None:
        return None if view.problem is not None else view.numpy()

    def measure() -> Statistics | None:
        return None if view.problem is not None else view.statistics()

    return TensorFacts(view.slot, view.dtype, tuple(view.shape), read, measure)
