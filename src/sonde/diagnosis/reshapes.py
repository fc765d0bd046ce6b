"""Which reshapes reorder elements as if they exchanged dimensions."""

from __future__ import annotations

from math import prod
from typing import Final

Shape = tuple[int, ...]
SWAPS_BATCH: Final = "view-swaps-batch"
"""The batch is exchanged with another dimension: a bug only if samples depend on each other."""
SPLITS_HEADS: Final = "view-splits-heads"
SWAPS_INNER: Final = "view-swaps-inner"
KINDS: Final = (SPLITS_HEADS, SWAPS_INNER, SWAPS_BATCH)


def reordering(old: Shape, new: Shape) -> str | None:
    """The kind of a reshape that puts the sizes of ``old`` into another order, as a transposition
    would; None for one that only splits or merges neighbouring dimensions."""
    if len(old) < 2 or len(new) < 2 or prod(old) != prod(new) or _keeps_order(old, new):
        return None
    if min(old[:2]) > 1 and old[0] != old[1]:
        if len(old) == len(new) and new == (old[1], old[0], *old[2:]):
            return SWAPS_BATCH
        if len(old) == 3 and new == (old[1], old[0] * old[2]):
            return SWAPS_BATCH  # The last states of a network of several layers.
    if old[0] != new[0]:
        return None
    if _swaps_inner(old, new):
        return SWAPS_INNER
    return SPLITS_HEADS if _moves_group(old[1:], new[1:]) else None


def _keeps_order(old: Shape, new: Shape) -> bool:
    """Whether the one shape is the other with some neighbouring dimensions merged."""
    fine, coarse = (old, new) if len(old) >= len(new) else (new, old)
    sizes = iter(each for each in fine if each != 1)
    for size in coarse:
        part = 1
        while part < size:
            part *= next(sizes, 0) or size + 1
        if part != size:
            return False
    return True


def _swaps_inner(old: Shape, new: Shape) -> bool:
    """Whether the dimensions after the batch are the same ones in another order, such as channels
    first and channels last."""
    return (
        len(old) == len(new) and old[1:] != new[1:] and sorted(old[1:]) == sorted(new[1:])
    ) and min(a for a, b in zip(old[1:], new[1:], strict=True) if a != b) > 1


def _moves_group(old: Shape, new: Shape) -> bool:
    """Whether a dimension is split or merged and moved past another one at once: (time, width) to
    (heads, time, part), (channels, height, width) to (height * width, channels), or back."""
    if len(old) < len(new):
        old, new = new, old
    if len(old) != 3 or len(new) != 2 or min(old[:2]) < 2:
        return False
    first, second, third = old
    return new in ((second, first * third), (second * third, first))
