"""Parts that were cut from a tensor give that tensor again when they are merged."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.compare.run_layout import AxisRule, RunLayout
from sonde.compare.runs.merging.grid import RankGrid, named_grid, rank_grid
from sonde.compare.runs.merging.layout_file import read_layout
from sonde.compare.runs.merging.plan import (
    MergePlan,
    RowOrder,
    is_equal_along,
    merge_parts,
    merged_shape,
)
from sonde.core.errors import ConfigError, SondeError
from sonde.dump.graph_files.placement import RecordedPlacement, parse_placement

RULES = st.sampled_from(["one", "sum", "mean", "concat 0", "concat 1"])


def placement(text: str) -> RecordedPlacement:
    found = parse_placement(text)
    assert found is not None
    return found


def rule(text: str) -> AxisRule:
    name, _, dim = text.partition(" ")
    return AxisRule("concat", int(dim)) if dim else AxisRule(name)  # type: ignore[arg-type]


@given(
    texts=st.lists(RULES, min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    rows=st.integers(0, 7),
    columns=st.integers(1, 7),
)
def test_parts_give_the_whole(texts: list[str], sizes: list[int], rows: int, columns: int) -> None:
    rules = [rule(text) for text in texts]
    whole = np.arange(rows * columns, dtype=np.float64).reshape(rows, columns) * 64
    parts = {(): whole}
    for axis, size in zip(rules, sizes, strict=False):
        parts = {
            (*place, number): part
            for place, values in parts.items()
            for number, part in enumerate(cut(axis, values, size))
        }
    merged = merge_parts(parts, rules)
    np.testing.assert_array_equal(merged, whole)
    shapes = {place: values.shape for place, values in parts.items()}
    assert merged_shape(shapes, tuple(rules)) == whole.shape


def cut(axis: AxisRule, values: np.ndarray, size: int) -> list[np.ndarray]:
    if axis.rule == "concat":
        return np.array_split(values, size, axis=axis.dim)
    if axis.rule == "sum":
        return [values - (size - 1), *[np.ones_like(values)] * (size - 1)]
    return [values] * size


def test_a_strided_shard_is_merged_before_the_axis_that_it_divides() -> None:
    """FSDP2 over tensor parallelism: rank (i, j) of 2 x 2 has part 2 j + i."""
    whole = np.arange(8.0)
    quarters = np.split(whole, 4)
    parts = {(i, j): quarters[2 * j + i] for i, j in product(range(2), repeat=2)}
    rules = [AxisRule("concat", 0, is_inner=True), AxisRule("concat", 0)]
    np.testing.assert_array_equal(merge_parts(parts, rules), whole)


def test_rows_are_put_in_order_also_where_a_row_became_several() -> None:
    order = RowOrder((0, 2, 1, 3), frozenset({0}))
    rules = (AxisRule("concat", 0),)
    plan = MergePlan(rules, "inferred", order=order)
    dealt = {(0,): np.array([[0], [2]]), (1,): np.array([[1], [3]])}
    assert plan.merge(dealt, rules).ravel().tolist() == [0, 1, 2, 3]
    flat = {(0,): np.array([0, 0, 2, 2]), (1,): np.array([1, 1, 3, 3])}
    assert plan.merge(flat, rules).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_parts_are_merged_block_by_block_where_positions_come_first() -> None:
    whole = np.array([10 * position + sample for position in range(3) for sample in range(4)])
    parts = {
        (0,): np.array([0, 1, 10, 11, 20, 21]),
        (1,): np.array([2, 3, 12, 13, 22, 23]),
    }
    rules = (AxisRule("concat", 0, blocks=3),)
    np.testing.assert_array_equal(merge_parts(parts, rules), whole)
    columns = {place: each.reshape(1, 6, 1) for place, each in parts.items()}
    merged = merge_parts(columns, [AxisRule("concat", 1, blocks=3)])
    np.testing.assert_array_equal(merged, whole.reshape(1, 12, 1))


def test_samples_are_put_in_order_where_positions_come_first() -> None:
    rules = (AxisRule("concat", 0, blocks=3),)
    plan = MergePlan(rules, "inferred", order=RowOrder((0, 2, 1, 3), frozenset({0})))
    dealt = {
        (0,): np.array([0, 2, 10, 12, 20, 22]),
        (1,): np.array([1, 3, 11, 13, 21, 23]),
    }
    assert plan.merge(dealt, rules).tolist() == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]


def test_equality_is_bitwise() -> None:
    nan = np.array([np.nan])
    assert is_equal_along({(0,): nan, (1,): nan.copy()}, 0)
    assert not is_equal_along({(0,): np.array([0.0]), (1,): np.array([-0.0])}, 0)


@pytest.mark.parametrize(
    ("count", "texts", "sizes"),
    [
        (4, ["Shard(dim=0) of [8] over 2 ranks from 0 by 1"], [2, 2]),
        (8, ["Shard(dim=0), Replicate() of [8] over 2x4 ranks from 0 by 4x1"], [2, 4]),
        (
            8,
            [
                "Shard(dim=0) of [8] over 2 ranks from 0 by 4",
                "Shard(dim=0) of [8] over 2 ranks from 0 by 1",
            ],
            [2, 2, 2],
        ),
        (2, [], [2]),
        (1, [], []),
        (6, ["Shard(dim=0) of [8] over 4 ranks from 0 by 1"], [6]),
    ],
)
def test_the_grid_follows_from_the_placements(
    count: int, texts: list[str], sizes: list[int]
) -> None:
    grid = rank_grid(range(count), map(placement, texts))
    assert [axis.size for axis in grid.axes] == sizes
    assert [rank for _, _, rank in grid.places()] == list(range(count))


def test_a_placement_over_a_flattened_mesh_covers_several_axes() -> None:
    grid = named_grid(range(4), {"dp": 2, "tp": 2})
    found = grid.axes_of(placement("Shard(dim=0) of [8] over 4 ranks from 0 by 1"))
    assert set(found) == {0, 1}
    assert (
        RankGrid((0,), ()).axes_of(placement("Replicate() of [8] over 2 ranks from 0 by 1")) == {}
    )


LAYOUT = """mesh: {dp: 2, tp: 2}
tensors:
  - name: '*.weight'
    placement: {tp: shard 1, dp: replicate}
  - name: '*'
    placement: {dp: mean}
"""


def test_a_layout_is_read(tmp_path: Path) -> None:
    file = tmp_path / "layout.yaml"
    file.write_text(LAYOUT)
    found = read_layout(file, 4)
    assert found.mesh == {"dp": 2, "tp": 2}
    assert found.rules_of("0.weight") == {"tp": AxisRule("concat", 1), "dp": AxisRule("one")}
    assert found.rules_of("0.bias") == {"dp": AxisRule("mean")}
    assert RunLayout().rules_of("0.bias") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mesh: {dp: 3}\n", "1: mesh has 3 ranks, the dump has 4"),
        ("", "1: mesh has 0 ranks"),
        ("mesh: {dp: x}\n", "1: dp needs a number of ranks"),
        ("mesh: {dp: [1]}\n", "1: dp needs a number of ranks"),
        ("mesh: {dp: 4}\nmore: 1\n", "2: 'more' is not known"),
        ("mesh: {dp: 4}\ntensors: 3\n", "2: 'tensors' is not a list"),
        ("mesh: {dp: 4}\ntensors:\n  - name: x\n", "3: a tensor has 'name' and 'placement'"),
        (
            "mesh: {dp: 4}\ntensors:\n  - name: x\n    placement: {tp: sum}\n",
            "4: 'tp' is no axis of 'mesh'",
        ),
        (
            "mesh: {dp: 4}\ntensors:\n  - name: x\n    placement: {dp: cut}\n",
            "4: 'cut' is not known",
        ),
        ("mesh: [", "is not YAML"),
    ],
)
def test_errors_in_a_layout_have_their_lines(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "layout.yaml"
    file.write_text(text)
    with pytest.raises(SondeError) as caught:
        read_layout(file, 4)
    assert said in str(caught.value)
    assert isinstance(caught.value, ConfigError) or "is not YAML" in said
