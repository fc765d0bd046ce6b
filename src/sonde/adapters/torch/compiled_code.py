"""One compiled graph as the code a backend made of it: plain, and with observers.

Both are made when they are first needed, and kept: a step that nobody wants runs the very code it
would without Sonde, and going from one to the other compiles nothing again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from sonde.adapters.torch import compiler
from sonde.adapters.torch.aot_graph import AotGraph
from sonde.adapters.torch.observing import Look, Watcher, insert, observe, observing_op, register

Run = Callable[[list[Any]], Any]


@dataclass(slots=True, eq=False)
class Variant:
    """One piece of code; ``kernels`` is how many Inductor made for it."""

    run: Run
    kernels: int | None
    looks: dict[int, Look] = field(default_factory=dict)
    wanted: frozenset[int] = frozenset()


class CompiledCode:
    """Compiles ``module`` with ``backend``. Made while the graph is being compiled.

    ``interprets``: observed code is the graph run op by op, whatever the backend makes of it.
    """

    def __init__(
        self,
        graph: AotGraph,
        module: fx.GraphModule,
        inputs: Sequence[Any],
        backend: compiler.Compile,
        watcher: Watcher,
        *,
        interprets: bool,
    ) -> None:
        self.graph = graph
        self._module = module
        self._inputs = list(inputs)
        self._backend = backend
        self._number = register(watcher)
        self._interprets = interprets
        self._circumstances = compiler.Circumstances()
        self._strides: list[Any] | None = None
        self.plain: Variant | None = None
        self.observed: Variant | None = None

    @property
    def module(self) -> fx.GraphModule:
        return self._module

    def make_plain(self) -> Variant:
        if self.plain is None:
            self.plain = self._make(lambda module: self._backend(module, self._inputs))
        return self.plain

    def make_observed(self, wanted: frozenset[int]) -> Variant:
        """Code that observes at least ``wanted``, as far as the ops exist in it."""
        if self.observed is None or not wanted <= self.observed.wanted:
            wanted |= self.observed.wanted if self.observed is not None else frozenset()
            looks: dict[int, Look] = {}
            way = self._interpret if self._interprets else self._instrument
            variant = self._make(functools.partial(way, wanted, looks))
            variant.looks = looks
            variant.wanted = wanted
            self.observed = variant
        return self.observed

    def plain_kernels(self) -> int | None:
        """How many kernels the plain code has, or would have; None if that cannot be told."""
        if self.plain is not None:
            return self.plain.kernels
        with self._circumstances.again(), compiler.keep_strides_apart():
            return compiler.count_kernels(
                lambda: self._backend(compiler.copy_of(self._module), self._inputs)
            )

    def _instrument(
        self, wanted: frozenset[int], looks: dict[int, Look], module: fx.GraphModule
    ) -> Run:
        op = observing_op()

        def change(graph: fx.Graph) -> None:
            looks.update(insert(graph, self.graph, wanted, op, self._number))

        with compiler.inductor_pass(change):
            return self._backend(module, self._inputs)

    def _interpret(
        self, wanted: frozenset[int], looks: dict[int, Look], module: fx.GraphModule
    ) -> Run:
        looks.update(insert(module.graph, self.graph, wanted, observe, self._number))
        return compiler.boxed(module)

    def _make(self, make: Callable[[fx.GraphModule], Run]) -> Variant:
        module = compiler.copy_of(self._module)
        if self._strides is None:
            # AOTAutograd waits for it: what it is told of outputs now holds for all variants.
            run = make(module)
            self._strides = compiler.told_strides() or _traced_strides(self._module)
            return Variant(run, compiler.kernels_of(run))
        with self._circumstances.again(), compiler.keep_strides_apart():
            run = make(module)
        kernels = compiler.kernels_of(run)
        if self.graph.is_backward:
            return Variant(run, kernels)
        return Variant(functools.partial(_run_aligned, run, self._strides), kernels)


def _traced_strides(module: fx.GraphModule) -> list[Any]:
    """The strides of the outputs as they were when the graph was traced."""
    output = next(iter(reversed(module.graph.nodes)))
    found: list[Any] = []
    for leaf in output.args[0] if isinstance(output.args[0], (list, tuple)) else output.args:
        value = leaf.meta.get("val") if isinstance(leaf, fx.Node) else None
        is_plain = isinstance(value, torch.Tensor) and all(
            isinstance(size, int) for size in (*value.shape, *value.stride())
        )
        found.append(value.stride() if is_plain and value is not None else None)
    return found


def _run_aligned(run: Run, strides: Sequence[Any], args: list[Any]) -> Any:
    """``run``, its outputs laid out as the backward code expects them."""
    outputs = run(args)
    if len(strides) != len(outputs):
        return outputs
    return [_aligned(output, wanted) for output, wanted in zip(outputs, strides, strict=True)]


def _aligned(output: Any, strides: Sequence[int] | None) -> Any:
    if (
        strides is None
        or not isinstance(output, torch.Tensor)
        or len(strides) != output.dim()
        or output.requires_grad
    ):
        return output
    order = sorted(range(len(strides)), key=lambda dim: -strides[dim])
    wanted = [0] * len(strides)
    step = 1
    for dim in reversed(order):
        wanted[dim] = step
        step *= max(1, int(output.shape[dim]))
    sizes = output.shape
    if all(
        size <= 1 or have == want
        for size, have, want in zip(sizes, output.stride(), wanted, strict=True)
    ) or any(size > 1 and not stride for size, stride in zip(sizes, strides, strict=True)):
        return output
    return torch.empty_strided(
        output.shape, wanted, dtype=output.dtype, device=output.device
    ).copy_(output)
