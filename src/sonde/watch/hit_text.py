"""Sentences about hits and origins for users; no code parses them."""

from __future__ import annotations

from typing import Final

from sonde.core.running_training import step_text
from sonde.watch.origins import Origin, Traced

MOST_IN_CHAIN: Final = 60
COLLECTIVES: Final = ("c10d_", "_c10d_functional_")
"""The beginnings of the names of ops that receive values of other ranks."""


def is_collective(op: str) -> bool:
    """Whether the op called ``op`` receives values of other ranks."""
    return op.rpartition("/")[2].startswith(COLLECTIVES)


def origin_note(op: str, traced: Traced, step: int) -> str:
    """A remark on an origin that is not in this step, or may not be on this rank; or nothing."""
    if traced.is_producer:
        return "; another rank may have made them" if is_collective(op) else ""
    return f"; since {step_text(traced.origin.step)}" if traced.origin.step < step else ""


def why_harmless(origin: Origin) -> str:
    """Why the values of an origin are not a hit."""
    if origin.kind == "leaf":
        how = f"{origin.op} contained them already"
    elif origin.argument is not None:
        how = f"an argument of {origin.op} asks for them ({origin.argument})"
    else:
        how = f"{origin.op} made them"
    return f"NaN or Inf that reached neither the loss nor an update of weights: {how}"


def origin_place(origin: Origin) -> str:
    """The op or leaf with its line, such as ``Default/log-op0 at train.py:12: y = x.log()``."""
    source = origin.source
    argument = f" ({origin.argument})" if origin.argument is not None else ""
    if source is None:
        return f"{origin.op}{argument}"
    used = "" if origin.kind == "op" else ", first used"
    return f"{origin.op}{argument}{used} at {source}: {source.code}"


def chain_from(origin: str, chain: tuple[str, ...]) -> tuple[str, ...]:
    """The part of ``chain`` that begins with ``origin``, which may be of an earlier step; both ends
    of a chain that is too long to read."""
    chain = chain[chain.index(origin) :] if origin in chain else (origin, *chain)
    if len(chain) <= MOST_IN_CHAIN:
        return chain
    half = MOST_IN_CHAIN // 2
    return (*chain[:half], *chain[-half:])
