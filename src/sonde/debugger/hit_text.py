"""What a hit says when it stops the training, and its values on the wire."""

from __future__ import annotations

from sonde.watch.conditions import Value
from sonde.wire.numbers import to_wire
from sonde.wire.shapes import HitRef, ParameterValue


def sentence(hit: HitRef) -> str:
    """Why a training stopped."""
    return f"{hit.name}: {hit.condition} at {hit.op}"


def wire_value(value: Value) -> ParameterValue:
    return ParameterValue(
        value.name,
        None if value.preset is None else to_wire(value.preset),
        None if value.actual is None else to_wire(value.actual),
    )
