"""Checks low-precision ops with a small deviation strictly, each compiled alone.

Inside a fused kernel an op may get its inputs before they are rounded to bfloat16, so that a
deviation of a few roundings proves nothing. Compiled alone, on rounded inputs, only one rounding of
the result remains, and a larger deviation is an error.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from sonde.adapters.torch.compile_check import private
from sonde.adapters.torch.compile_check.agreement import ALONE_FACTOR, Fault, OpErrors
from sonde.adapters.torch.compile_check.private import pytree
from sonde.adapters.torch.compile_check.records import GraphCompiler
from sonde.adapters.torch.compile_check.tape import widened
from sonde.adapters.torch.eager.op_schema import tensors_in

_MOST_OF_A_KIND = 3
_REFUSALS = (RuntimeError, TypeError, ValueError, AssertionError, LookupError, AttributeError)
"""Errors of a decomposition that does not support these arguments, such as float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """A result of an op: of ``node``, number ``part`` of several if that is not None.

    ``args`` and ``kwargs`` are its arguments in compiled code, ``exact`` is its result on them in
    float64.
    """

    node: fx.Node
    part: int | None
    dtype: torch.dtype
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    exact: torch.Tensor
    errors: OpErrors

    @property
    def kind(self) -> tuple[Any, ...]:
        """The kind of an op: the compiler generates the same code for all ops of a kind."""
        tensors = tensors_in((*self.args, *self.kwargs.values()))
        dtypes = tuple(each.dtype for each in tensors)
        return (self.node.target, self.part, dtypes)

    @property
    def excess(self) -> float:
        return self.errors.compiled[0] / (self.errors.allowed_alone or 1.0)

    def fault(self) -> Fault:
        """Whether the op's decomposition is wrong even when run in float64."""
        try:
            result = self._decomposed(*widened(self.node.target, self.args, self.kwargs))
            if result is None:
                return "lowering"
            is_close = torch.allclose(
                result.double(), self.exact.double(), 1e-9, 1e-12, equal_nan=True
            )
        except _REFUSALS:
            return "unknown"
        return "lowering" if is_close else "decomposition"

    def least_error(self) -> float:
        """The error of the op's decomposition, run op by op in the op's own precision.

        0 if it has none, or if it is wrong and so cannot serve as a measure.
        """
        if self.fault() != "lowering":
            return 0.0
        try:
            result = self._decomposed(self.args, self.kwargs)
        except _REFUSALS:
            return 0.0
        return 0.0 if result is None else _off(result, self.exact)

    def _decomposed(self, args: Sequence[Any], kwargs: dict[str, Any]) -> torch.Tensor | None:
        decomposition = private.decompositions().get(self.node.target)
        if decomposition is None:
            return None
        with torch.no_grad():
            result = decomposition(*args, **kwargs)
        part = result if self.part is None or result is NotImplemented else result[self.part]
        return part if isinstance(part, torch.Tensor) else None


def first_wrong_suspect(
    suspects: Sequence[Suspect], compile_graph: GraphCompiler
) -> Suspect | None:
    """The first suspect whose kind of op is wrong when compiled alone; compiling may raise."""
    kinds: defaultdict[tuple[Any, ...], list[Suspect]] = defaultdict(list)
    for each in suspects:
        kinds[each.kind].append(each)
    chosen = [
        each
        for group in kinds.values()
        for each in sorted(group, key=lambda one: -one.excess)[:_MOST_OF_A_KIND]
    ]
    wrong_kinds = {
        each.kind
        for each, value in zip(chosen, _alone(chosen, compile_graph), strict=True)
        if _is_wrong(each, value)
    }
    return next((each for each in suspects if each.kind in wrong_kinds), None)


def _is_wrong(suspect: Suspect, value: torch.Tensor) -> bool:
    off = _off(value, suspect.exact)
    limit = suspect.errors.allowed_alone
    return off > limit and off > ALONE_FACTOR * suspect.least_error()


def _off(value: torch.Tensor, exact: torch.Tensor) -> float:
    """The norm of the difference over finite elements."""
    difference = value.double() - exact.double()
    return float(difference[torch.isfinite(difference)].norm())


def _alone(suspects: Iterable[Suspect], compile_graph: GraphCompiler) -> list[torch.Tensor]:
    """The results of the ops in one graph, in which none is the input of another."""
    graph = fx.Graph()
    inputs: list[torch.Tensor] = []

    def given(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        inputs.append(value.detach())
        return graph.placeholder(f"given_{len(inputs)}")

    asked = [(each, pytree.tree_map(given, (each.args, each.kwargs))) for each in suspects]
    results = []
    for each, (args, kwargs) in asked:
        target: Any = each.node.target
        made = graph.call_function(target, args, kwargs)
        if each.part is not None:
            made = graph.call_function(operator.getitem, (made, each.part))
        results.append(made)
    graph.output(tuple(results))
    module = fx.GraphModule(torch.nn.Module(), graph)
    with torch.no_grad(), private.quick_compiler():
        return list(compile_graph(module, list(inputs))(*inputs)) if results else []
