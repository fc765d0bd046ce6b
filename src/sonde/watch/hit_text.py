"""What a hit says of where its values come from. Made for people; nothing reads it back."""

from __future__ import annotations

from typing import Final

from sonde.watch.origins import Origin, Traced

MOST_IN_CHAIN: Final = 60
_COLLECTIVES: Final = ("c10d_", "_c10d_functional_")
"""Ops that give a rank what others had, by the beginning of their names."""


def since(op: str, traced: Traced, step: int) -> str:
    """What is to be said of an origin that is not in this step, or not in this rank."""
    if traced.is_producer:
        is_shared = op.rpartition("/")[2].startswith(_COLLECTIVES)
        return "; another rank may have made them" if is_shared else ""
    return f"; since step {traced.origin.step}" if traced.origin.step < step else ""


def why_expected(origin: Origin) -> str:
    """Why the values of an origin are no hit."""
    if origin.kind == "leaf":
        how = f"{origin.op} came in with them"
    elif origin.asked is not None:
        how = f"{origin.op} was told to make them ({origin.asked})"
    else:
        how = f"{origin.op} made them"
    return f"NaN or Inf that reached neither the loss nor an update of weights: {how}"


def chain_from(origin: str, chain: tuple[str, ...]) -> tuple[str, ...]:
    """The chain of this step from where it all began, which may have been in an earlier step; of
    one that is too long to be read both ends."""
    chain = chain[chain.index(origin) :] if origin in chain else (origin, *chain)
    if len(chain) <= MOST_IN_CHAIN:
        return chain
    half = MOST_IN_CHAIN // 2
    return (*chain[:half], *chain[-half:])
