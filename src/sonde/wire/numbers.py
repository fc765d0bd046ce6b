"""Numbers that may be non-finite, for JSON, which has no NaN.

A field with such a number has the type ``Number``: a number, or the text "nan", "inf" or "-inf".
"""

from __future__ import annotations

import math
from typing import Annotated, Final, TypeAlias

import msgspec

Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Every integer on the wire has 64 bits: MessagePack cannot encode larger ones, JSON can."""
Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Number: TypeAlias = float | Integer | str

_EXACT: Final = 2**53


def to_wire(value: float | int) -> Number:
    """``value`` in its wire form; integers that JavaScript would round become text, too."""
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else str(value)
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"
