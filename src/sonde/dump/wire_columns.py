"""The fields of many messages at once, as columns: the fast way beside ``protowire``.

All messages are walked in step, field by field, with array operations. It reads what is regular;
at the first thing that is not, it gives up, and ``protowire`` reads the same bytes one by one and
says what is wrong with them, and where.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sonde.dump.protowire import BYTES, VARINT

Longs = NDArray[np.int64]
Numbers = NDArray[np.int32]
Wires = NDArray[np.int8]
_MOST_BITS: Final = 56
"""Of a number; longer ones, such as those below zero, are irregular."""


class IrregularError(Exception):
    """The bytes are damaged, or rarer than this module cares for."""


class Columns(NamedTuple):
    """One row a field: the message it stands in, and its number or bytes.

    ``value`` and ``stop`` are those of ``protowire.Field``.
    """

    owner: Longs
    value: Longs
    stop: Longs


class Fields:
    """The fields of many messages, by their numbers."""

    def __init__(self, rounds: Sequence[tuple[Numbers, Wires, Columns]]) -> None:
        nothing = np.zeros(0, np.int64)
        rounds = [
            *rounds,
            (nothing.astype(np.int32), nothing.astype(np.int8), Columns(*[nothing] * 3)),
        ]
        numbers, wires, columns = zip(*rounds, strict=True)
        self._number = np.concatenate(numbers)
        self._wire = np.concatenate(wires)
        self._columns = Columns(*map(np.concatenate, zip(*columns, strict=True)))

    def has_any(self, numbers: Sequence[int]) -> bool:
        return bool(np.isin(self._number, numbers).any())

    def of(self, number: int, wire: int) -> Columns:
        """Those with one number, which must have this wire type, in the order of their messages,
        and inside one as they stand."""
        chosen = np.flatnonzero(self._number == number)
        if (self._wire[chosen] != wire).any():
            raise IrregularError
        owner = self._columns.owner[chosen]
        if (owner[1:] < owner[:-1]).any():
            chosen = chosen[np.argsort(owner, kind="stable")]
        return Columns(*(column[chosen] for column in self._columns))


def scan(data: NDArray[np.uint8], starts: Longs, stops: Longs) -> Fields:
    """The fields of the messages from ``starts`` to ``stops``; IrregularError if one is odd."""
    rounds: list[tuple[Numbers, Wires, Columns]] = []
    active = np.flatnonzero(starts < stops)
    position, stop = starts[active], stops[active]
    while active.size:
        key, position = _varints(data, position, stop)
        if (key < 8).any() or (key >= 1 << 31).any():
            raise IrregularError
        number, wire = (key >> 3).astype(np.int32), (key & 7).astype(np.int8)
        is_number = wire == VARINT
        if not (is_number | (wire == BYTES)).all():
            raise IrregularError
        value, begin = _varints(data, position, stop)
        position = np.where(is_number, begin, begin + value)
        if (position > stop).any():
            raise IrregularError
        row = Columns(active, np.where(is_number, value, begin), position)
        rounds.append((number, wire, row))
        left = np.flatnonzero(position < stop)
        if len(left) < len(active):
            active, position, stop = active[left], position[left], stop[left]
    return Fields(rounds)


def _varints(data: NDArray[np.uint8], position: Longs, stop: Longs) -> tuple[Longs, Longs]:
    """The numbers that begin at these positions, and where they end."""
    if (position >= stop).any():
        raise IrregularError
    byte = data[position]
    value = (byte & 0x7F).astype(np.int64)
    end = position + 1
    more, shift = np.flatnonzero(byte >= 0x80), 7
    while more.size:
        at = end[more]
        if shift >= _MOST_BITS or (at >= stop[more]).any():
            raise IrregularError
        byte = data[at]
        value[more] |= (byte & 0x7F).astype(np.int64) << shift
        end[more] += 1
        more, shift = more[byte >= 0x80], shift + 7
    return value, end
