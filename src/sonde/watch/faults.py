"""The rules by which NaN and Inf are a fault (``docs/origins.md``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol

from sonde.core.graph import GRADIENTS
from sonde.core.observation import Observation, ObservedTensor
from sonde.watch.op_types import LOSS_READERS, ORDERING, SCALER_CHECK, VIEWS, is_in_place

Place = tuple[str, int]
"""An op and the slot of one of its outputs."""
_WITHOUT_INFINITY = ("bool", "int", "uint")
_INVERTING = ("reciprocal", "_to_copy")


class StepNode(Protocol):
    """A node of the graph of a step, of the core or of the wire."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def inputs(self) -> Sequence[Any]: ...
    @property
    def outputs(self) -> Sequence[Any]: ...


def find_fault(
    call: Observation, bad_inputs: Sequence[ObservedTensor], bad_outputs: Sequence[ObservedTensor]
) -> Literal["update", "loss", "nan"] | None:
    """What makes the NaN and Inf of ``call`` a fault: an update uses them, they are the loss, or
    the forward pass turns infinities into NaN."""
    node = call.node
    if node.kind != "op" or node.type == ORDERING:
        return None
    if node.phase == "optimizer":
        return "update"
    if node.phase == "backward":
        return "loss" if reads_loss(node) else None
    had_nan = any(view.has_nan() for view in bad_inputs)
    becomes_nan = bool(bad_inputs) and not had_nan and any(view.has_nan() for view in bad_outputs)
    return "nan" if becomes_nan else None


def reads_loss(node: StepNode) -> bool:
    """Whether a backward pass begins here; not if checkpointing runs ``ones_like`` again."""
    return node.type in LOSS_READERS and not any(
        (each.producer or "").startswith(GRADIENTS) for each in node.inputs
    )


def find_scales(nodes: Iterable[StepNode]) -> set[tuple[str | None, int]]:
    """The outputs that are the scale of a loss scaler: its check multiplies gradients by the
    reciprocal. A loss that only this factor makes infinite is finite."""
    by_name = {node.name: node for node in nodes}
    found: set[tuple[str | None, int]] = set()
    for check in by_name.values():
        if check.type != SCALER_CHECK or not check.inputs:
            continue
        edge, is_inverse = check.inputs[-1], False
        while (op := by_name.get(edge.producer)) is not None and op.type in _INVERTING:
            is_inverse |= op.type == "reciprocal"
            edge = op.inputs[0]
        if is_inverse and edge.producer is not None:
            found.add((edge.producer, edge.slot))
    return found


def find_used(nodes: Iterable[StepNode]) -> set[tuple[str | None, int]]:
    """The outputs that ops compute with. An op without an output that can be infinite (``isnan``, a
    comparison) only reads its inputs."""
    return {
        (edge.producer, edge.slot)
        for node in nodes
        if any(not each.dtype.startswith(_WITHOUT_INFINITY) for each in node.outputs)
        for edge in node.inputs
    }


def find_compared(nodes: Iterable[StepNode]) -> set[Place]:
    """The outputs of the forward pass that ops only read, without computing with them, such as a
    mask that is compared with another one. Not those that come from a gradient, nor what was
    written into a tensor from before the step: both may be weights that the program updates."""
    computing: set[str] = set()
    lasting: set[str] = set()
    found: set[Place] = set()
    read: set[Place] = set()
    for node in nodes:
        producers = [edge.producer for edge in node.inputs]
        if node.phase != "forward" or not computing.isdisjoint(producers):
            computing.add(node.name)
            continue
        is_of_first = is_in_place(node.type) or node.type in VIEWS
        if node.kind != "op" or (is_of_first and producers and producers[0] in lasting):
            lasting.add(node.name)
            continue
        found.update((node.name, slot) for slot in range(len(node.outputs)))
        read.update((edge.producer, edge.slot) for edge in node.inputs)
    return found & read


def find_results(nodes: Iterable[StepNode]) -> Callable[[Place], bool]:
    """A test whether an output is a result of the step that ran ``nodes``; no output is one if the
    step has a loss and an update.

    Without an update, each value that no op computes with is a result, unless the forward pass only
    compares it; without a loss, each value that no op of the forward pass computes with.
    """
    nodes = tuple(nodes)
    phases = {"scaled" if node.type == SCALER_CHECK else node.phase for node in nodes}
    backward = {node.name for node in nodes if node.phase == "backward"}
    has_update = bool(phases & {"optimizer", "scaled"})
    has_loss = any(node.phase == "backward" and reads_loss(node) for node in nodes)
    has_results = bool(phases) and not (has_loss and has_update)
    used = find_used(node for node in nodes if node.phase == "forward")
    used_later = find_used(node for node in nodes if node.phase != "forward")
    compared = find_compared(nodes) if has_loss and has_results else set()

    def is_result(place: Place) -> bool:
        if not has_results or place in used or place in compared:
            return False
        return place not in used_later or not (has_loss or place[0] in backward)

    return is_result
