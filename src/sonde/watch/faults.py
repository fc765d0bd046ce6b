"""The rules by which NaN and Inf are a fault (``docs/origins.md``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol

from sonde.core.graph import GRADIENTS
from sonde.watch.observation import Observation, ObservedTensor
from sonde.watch.op_types import LOSS_READERS, ORDERING, SCALER_CHECK

Place = tuple[str, int]
"""An op and the slot of one of its outputs."""
_WITHOUT_INFINITY = ("bool", "int", "uint")


class StepNode(Protocol):
    """A node of the graph of a step, of the core or of the wire."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def phase(self) -> str: ...
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


def find_results(nodes: Iterable[StepNode]) -> Callable[[Place], bool]:
    """A test whether an output is a result of the step that ran ``nodes``; no output is one if the
    step has a loss and an update.

    Without an update, each value that no op computes with is a result; without a loss, each value
    that no op of the forward pass computes with.
    """
    phases: set[str] = set()
    used: dict[str, set[tuple[str | None, int]]] = {"forward": set(), "later": set()}
    backward: set[str] = set()
    for node in nodes:
        phases.add("scaled" if node.type == SCALER_CHECK else node.phase)
        if node.phase == "backward":
            backward.add(node.name)
            if reads_loss(node):
                phases.add("loss")
        if any(not each.dtype.startswith(_WITHOUT_INFINITY) for each in node.outputs):
            when = "forward" if node.phase == "forward" else "later"
            used[when] |= {(edge.producer, edge.slot) for edge in node.inputs}
    has_update, has_loss = bool(phases & {"optimizer", "scaled"}), "loss" in phases
    has_results = bool(phases) and not (has_loss and has_update)

    def is_result(place: Place) -> bool:
        if not has_results or place in used["forward"]:
            return False
        return place not in used["later"] or not (has_loss or place[0] in backward)

    return is_result
