"""What a hit says: why it stops, where its values come from."""

from __future__ import annotations

from typing import Final

from sonde.conditions import Value
from sonde.debugger.judging import Found
from sonde.dump.origin_tracker import Spoiled
from sonde.dump.overflow_origin import Origin
from sonde.wire.numbers import to_wire
from sonde.wire.shapes import ParameterValue

MOST_IN_CHAIN: Final = 60
_COLLECTIVES: Final = ("c10d_", "_c10d_functional_")
"""Ops that give a rank what others had, by the beginning of their names."""


def whence(found: Found, spoiled: Spoiled, step: int) -> str:
    """What is to be said of an origin that is not in this step, or not in this rank."""
    origin = spoiled.origin
    if spoiled.is_producer:
        is_shared = found.op.rpartition("/")[2].startswith(_COLLECTIVES)
        return "; another rank may have made them" if is_shared else ""
    return f"; since step {origin.step}" if origin.step < step else ""


def excuse(origin: Origin) -> str:
    if origin.kind == "leaf":
        return f"{origin.op} came in with infinities; no NaN has come of them"
    how = f" ({origin.asked})" if origin.asked is not None else ""
    return f"the infinities of {origin.op}{how} were put in on purpose; no NaN has come of them"


def chain_from(origin: str, chain: tuple[str, ...]) -> tuple[str, ...]:
    """The chain of this step from where it all began, which may have been in an earlier step; of
    one that is too long to be read both ends."""
    chain = chain[chain.index(origin) :] if origin in chain else (origin, *chain)
    if len(chain) <= MOST_IN_CHAIN:
        return chain
    half = MOST_IN_CHAIN // 2
    return (*chain[:half], *chain[-half:])


def sentence(found: Found) -> str:
    name = found.watch.spec.name or f"watchpoint {found.watch.spec.id}"
    return f"{name}: {found.watch.label} at {found.op}"


def wire_value(value: Value) -> ParameterValue:
    return ParameterValue(
        value.name,
        None if value.preset is None else to_wire(value.preset),
        None if value.actual is None else to_wire(value.actual),
    )
