"""Observing a piece of a program with a sink that keeps everything in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sonde.adapters.torch.adapter import StepBy, TorchAdapter
from sonde.adapters.torch.compiled.gate import CompiledMode
from sonde.adapters.torch.eager.outside_step import Observed
from sonde.capture.requests import SelectionRequest
from sonde.capture.session import Session, Subscription
from sonde.core.graph import Graph, OpNode
from sonde.core.operators.patterns import OpPattern
from sonde.core.selection import Selection, parse_steps
from sonde.core.sink import OpCall, StepEnd, TensorView


@dataclass
class Seen:
    """One op call: its node, and values and tokens of its tensors."""

    node: OpNode
    step: int
    order: int
    inputs: list[NDArray[Any] | None]
    outputs: list[NDArray[Any] | None]
    input_tokens: list[object]
    output_tokens: list[object]
    attributes: dict[str, str]


@dataclass(repr=False)
class Watched:
    """A sink. ``steps`` has a graph and the calls of every step that ended."""

    values: bool = True
    steps: dict[int, tuple[Graph, list[Seen]]] = field(default_factory=dict)
    parts: dict[int, tuple[Graph, ...]] = field(default_factory=dict)
    complete: dict[int, bool] = field(default_factory=dict)
    dropped: int = 0
    closed: int = 0
    reports: list[str] = field(default_factory=list)
    problems: set[str] = field(default_factory=set)
    _running: list[Seen] = field(default_factory=list)
    _held: list[Any] = field(default_factory=list)
    adapter: TorchAdapter | None = None

    def begin_step(self, step: int) -> None:
        self._running = []

    def write(self, call: OpCall) -> None:
        self._running.append(
            Seen(
                call.node,
                call.step,
                call.order,
                [self._value(view) for view in call.inputs],
                [self._value(view) for view in call.outputs],
                [view.token for view in call.inputs],
                [view.token for view in call.outputs],
                dict(call.attributes),
            )
        )

    def _value(self, view: TensorView) -> NDArray[Any] | None:
        if view.problem is not None:
            self.problems.add(view.problem)
            return None
        if not self.values:
            self._held.append(view.hold())
            return None
        return view.numpy()

    def end_step(self, end: StepEnd) -> None:
        self.steps[end.step] = (end.graph, self._running)
        self.complete[end.step] = end.complete
        self.parts[end.step] = end.parts
        self._held.clear()

    def drop_step(self) -> None:
        self.dropped += 1
        self._running = []

    def close(self) -> None:
        self.closed += 1

    def fast_path(self) -> None:
        return None

    # ------------------------------------------------------------ looking

    def graph(self, step: int = 0) -> Graph:
        return self.steps[step][0]

    def calls(self, step: int = 0) -> list[Seen]:
        return self.steps[step][1]

    def names(self, step: int = 0) -> list[str]:
        return [node.name for node in self.graph(step).ops]

    def call(self, name: str, step: int = 0) -> Seen:
        return next(seen for seen in self.calls(step) if seen.node.name == name)


@contextmanager
def watch(
    *,
    steps: str = "all",
    ops: tuple[str, ...] | None = None,
    starts_at_once: bool = True,
    step_by: StepBy = "optimizer",
    initial_step: int = 0,
    values: bool = True,
    name: str = "Net",
    compiled: CompiledMode = "observe",
    observe: Collection[Observed] = (),
) -> Iterator[Watched]:
    """Observe the block."""
    sink = Watched(values=values)
    selection = Selection(
        parse_steps(steps), None if ops is None else tuple(map(OpPattern.parse, ops))
    )
    session = Session(
        [Subscription(sink, SelectionRequest(selection))],
        initial_step=initial_step,
        report=sink.reports.append,
    )
    adapter = TorchAdapter(
        session,
        name=name,
        starts_at_once=starts_at_once,
        step_by=step_by,
        compiled=compiled,
        observe=observe,
    )
    sink.adapter = adapter
    with adapter.attach():
        yield sink


def same(one: Any, other: Any) -> bool:
    """Whether two results of a training are equal bit for bit."""
    if isinstance(one, torch.Tensor):
        if one.dtype != other.dtype or one.shape != other.shape or one.layout != other.layout:
            return False
        if one.layout is not torch.strided:
            return same(one.to_dense(), other.to_dense())
        if one.is_quantized:
            return same(one.int_repr(), other.int_repr())
        if one.is_complex():
            one, other = torch.view_as_real(one), torch.view_as_real(other)
        return bool(
            np.array_equal(
                one.detach().contiguous().view(-1).view(torch.uint8).numpy(),
                other.detach().contiguous().view(-1).view(torch.uint8).numpy(),
            )
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def bare_and_watched(
    train: Callable[[], Any], *, seed: int = 0, **options: Any
) -> tuple[Any, Any, Watched]:
    """What ``train`` returns without and with Sonde, from the same seed."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    bare = train()
    torch.manual_seed(seed)
    np.random.seed(seed)
    with watch(**options) as watched:
        seen = train()
    return bare, seen, watched
