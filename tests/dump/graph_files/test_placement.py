"""The placement of a distributed tensor as text: what is written is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.dump.graph_files.placement import (
    AxisPlacement,
    RecordedPlacement,
    parse_placement,
    placement_text,
)


class Printed:
    """Something with the ``repr`` of a placement of torch."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


KINDS = {
    "Replicate()": AxisPlacement("replicated"),
    "Shard(dim=0)": AxisPlacement("sharded", 0),
    "Shard(dim=1)": AxisPlacement("sharded", 1),
    "Partial(sum)": AxisPlacement("partial", reduction="sum"),
    "Partial(avg)": AxisPlacement("partial", reduction="avg"),
    "_StridedShard(dim=0, sf=2)": AxisPlacement("sharded", 0, is_inner=True),
    "_NormPartial(2.0)": AxisPlacement("partial", reduction="norm"),
}


@given(
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3),
    sizes=st.lists(st.integers(2, 4), min_size=3, max_size=3),
    shape=st.lists(st.integers(0, 9), max_size=4),
    first=st.integers(0, 5),
)
def test_text_is_read_back(
    kinds: list[str], sizes: list[int], shape: list[int], first: int
) -> None:
    sizes = sizes[: len(kinds)]
    strides = []
    below = 1
    for size in reversed(sizes):
        strides.insert(0, below)
        below *= size
    # The ranks along each axis through the last rank of the grid.
    last = first + sum(stride * (size - 1) for stride, size in zip(strides, sizes, strict=True))
    ranks = [
        [last - stride * (size - 1 - number) for number in range(size)]
        for stride, size in zip(strides, sizes, strict=True)
    ]
    text = placement_text([Printed(kind) for kind in kinds], shape, sizes, ranks)
    assert parse_placement(text) == RecordedPlacement(
        tuple(KINDS[kind] for kind in kinds),
        tuple(shape),
        tuple(sizes),
        first if len(kinds) > 1 else ranks[0][0],
        tuple(strides),
    )


def test_ranks_that_are_not_evenly_spaced_are_left_out() -> None:
    text = placement_text([Printed("Shard(dim=0)")], [4], [3], [[0, 3, 1]])
    assert text == "Shard(dim=0) of [4] over 3 ranks"
    found = parse_placement(text)
    assert found is not None
    assert found.strides == ()


@pytest.mark.parametrize(
    "text", ["", "nonsense", "Shard(dim=0) of [4]", "Shard(dim=0) of [4] over 2x2 ranks"]
)
def test_other_text_is_no_placement(text: str) -> None:
    assert parse_placement(text) is None
