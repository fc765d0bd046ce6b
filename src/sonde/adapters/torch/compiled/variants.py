"""The code that a backend made of one compiled graph: plain, and with observers.

Both are compiled when they are first needed, and kept: an unwanted step runs the same code as
without Sonde, and switching between them compiles nothing again.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from sonde.adapters.torch import private
from sonde.adapters.torch.compiled import compiler_private as compiler
from sonde.adapters.torch.compiled.graph import AotGraph, hint, tensor_of
from sonde.adapters.torch.compiled.observers import Look, insert, observe, observing_op, register
from sonde.adapters.torch.guard import FailureGuard

if TYPE_CHECKING:
    from sonde.adapters.torch.compiled.capture import CompiledGraphs

Run = Callable[[list[Any]], Any]
Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape and strides."""

CAPTURES: list[CompiledGraphs] = []
"""The captures that run."""


@dataclass(slots=True, eq=False)
class Variant:
    """One piece of code; ``kernels`` is how many Inductor made for it."""

    run: Run
    kernels: int | None
    looks: dict[int, Look] = field(default_factory=dict)
    wanted: frozenset[int] = frozenset()


@dataclass(eq=False)
class CompiledCode:
    """The code of one compiled graph, which the backend returns in place of its own.

    Made while the graph is being compiled. It outlives the capture it was compiled in, and serves
    later ones. ``interprets``: observed code is the graph run op by op, not the backend's.
    ``names`` are those of the ops that were wanted when it was first observed.
    """

    _boxed_call = True

    graph: AotGraph
    module: fx.GraphModule
    inputs: list[Any]
    backend: compiler.Compile
    interprets: bool
    names: dict[int, str] = field(default_factory=dict)
    plain: Variant | None = None
    observed: Variant | None = None
    _circumstances: compiler.Circumstances = field(default_factory=compiler.Circumstances)
    _layouts: list[Layout | None] | None = None
    _is_unobservable: bool = False

    def __post_init__(self) -> None:
        self._number = register(self)

    def __call__(self, args: list[Any]) -> Any:
        for graphs in CAPTURES:
            if graphs.is_here():
                return graphs.runs.run(self, args, sys._getframe(1))
        return self.make_plain().run(args)

    def emit(self, number: int, values: Sequence[torch.Tensor]) -> None:
        """Pass what the observer of op ``number`` was given to the capture that runs this code."""
        for graphs in CAPTURES:
            if graphs.runs.running:
                graphs.runs.emit(number, values)

    def variant_for(self, wanted: frozenset[int], unobservable: FailureGuard) -> Variant:
        """The code that observes the ``wanted`` ops, compiled now if need be.

        The plain code where nothing is wanted, or observed code cannot be made; the error then goes
        to ``unobservable``.
        """
        if wanted and not self._is_unobservable:
            # Cleared on success: a graph that cannot be observed is not tried again.
            self._is_unobservable = True
            with unobservable:
                variant = self.make_observed(wanted)
                self._is_unobservable = False
                return variant
        return self.make_plain()

    def make_plain(self) -> Variant:
        if self.plain is None:
            self.plain = self._make(lambda module: self.backend(module, self.inputs))
        return self.plain

    def make_observed(self, wanted: frozenset[int]) -> Variant:
        """Code that observes at least ``wanted``, as far as the ops exist in it."""
        if self.observed is None or not wanted <= self.observed.wanted:
            wanted |= self.observed.wanted if self.observed is not None else frozenset()
            looks: dict[int, Look] = {}
            way = self._interpret if self.interprets else self._instrument
            variant = self._make(functools.partial(way, wanted, looks))
            variant.looks = looks
            variant.wanted = wanted
            self.observed = variant
        return self.observed

    def plain_kernels(self) -> int | None:
        """How many kernels the plain code has, or would have; None if unknown."""
        if self.plain is not None:
            return self.plain.kernels
        with self._circumstances.again(), compiler.keep_strides_apart():
            return compiler.count_kernels(
                lambda: self.backend(compiler.copy_of(self.module), self.inputs)
            )

    def _instrument(
        self, wanted: frozenset[int], looks: dict[int, Look], module: fx.GraphModule
    ) -> Run:
        op, _ = observing_op()

        def change(graph: fx.Graph) -> None:
            looks.update(insert(graph, self.graph, wanted, op, self._number))

        with compiler.inductor_pass(change):
            return self.backend(module, self.inputs)

    def _interpret(
        self, wanted: frozenset[int], looks: dict[int, Look], module: fx.GraphModule
    ) -> Run:
        looks.update(insert(module.graph, self.graph, wanted, observe, self._number))
        compiler.seed_random_ops(module.graph)
        return compiler.boxed(module)

    def _make(self, make: Callable[[fx.GraphModule], Run]) -> Variant:
        module = compiler.copy_of(self.module)
        if self._layouts is None:
            # AOTAutograd compiles this graph now: the strides reported now hold for all variants.
            run = make(module)
            self._layouts = _layouts(self.module, compiler.reported_strides())
            return Variant(run, compiler.kernels_of(run))
        with self._circumstances.again(), compiler.keep_strides_apart():
            run = make(module)
        kernels = compiler.kernels_of(run)
        if self.graph.is_backward:
            return Variant(run, kernels)
        return Variant(functools.partial(_run_aligned, run, self._layouts), kernels)


private.hide_from_compiler(CompiledCode.__call__, CompiledCode.emit)


def _layouts(module: fx.GraphModule, reported: Sequence[Any]) -> list[Layout | None]:
    """Shape and strides of each output that AOTAutograd expects: as reported, else as traced."""
    output = next(iter(reversed(module.graph.nodes)))
    leaves = output.args[0] if isinstance(output.args[0], (list, tuple)) else output.args
    found: list[Layout | None] = []
    for position, leaf in enumerate(leaves):
        value = tensor_of(leaf)
        if value is None:
            found.append(None)
            continue
        strides = reported[position] if position < len(reported) else value.stride()
        if strides is None:
            found.append(None)
        else:
            found.append((tuple(map(hint, value.shape)), tuple(map(hint, strides))))
    return found


def _run_aligned(run: Run, layouts: Sequence[Layout | None], args: list[Any]) -> Any:
    """``run``, its outputs laid out as the backward code expects them."""
    outputs = run(args)
    if len(layouts) != len(outputs):
        return outputs
    return [_aligned(output, layout) for output, layout in zip(outputs, layouts, strict=True)]


def _aligned(output: Any, layout: Layout | None) -> Any:
    if layout is None or not isinstance(output, torch.Tensor) or output.requires_grad:
        return output
    shape, strides = layout
    if tuple(output.shape) != shape:
        if strides != _dense(shape, strides):
            return output
        strides = _dense(tuple(output.shape), strides)
    sizes = output.shape
    is_same = all(
        size <= 1 or have == want
        for size, have, want in zip(sizes, output.stride(), strides, strict=True)
    )
    if is_same or any(size > 1 and not want for size, want in zip(sizes, strides, strict=True)):
        return output
    made = torch.empty_strided(sizes, strides, dtype=output.dtype, device=output.device)
    return made.copy_(output)


def _dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor without gaps whose dimensions lie in the order of ``strides``."""
    found = [0] * len(shape)
    step = 1
    for dim in sorted(range(len(shape)), key=lambda dim: strides[dim]):
        found[dim] = step
        step *= max(1, shape[dim])
    return tuple(found)
