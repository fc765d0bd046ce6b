"""The map of layers by steps: every picture has the greatest value of what its cells cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sonde.trends.database import LayerMatrix
from sonde.trends.layer_grid import ABSENT, LayerGrid


def _grid(
    layers: int, steps: int, *, seed: int = 0, first: int = 0
) -> tuple[LayerGrid, np.ndarray]:
    chance = np.random.default_rng(seed)
    values = chance.lognormal(size=(layers, steps)).astype(np.float32)
    values[chance.random(values.shape) < 0.1] = ABSENT
    values[chance.random(values.shape) < 0.02] = np.inf
    values[chance.random(values.shape) < 0.02] = np.nan
    return LayerGrid([f"layer{n}" for n in range(layers)], first, 1, values), values


@given(
    layers=st.integers(1, 40),
    steps=st.integers(1, 700),
    start=st.integers(-5, 700),
    size=st.integers(1, 700),
    top=st.integers(0, 45),
    height=st.integers(1, 45),
    rows=st.integers(1, 50),
    columns=st.integers(1, 300),
)
@example(layers=1, steps=382, start=4, size=13, top=0, height=1, rows=1, columns=1)
def test_cells_are_the_greatest_values_that_numpy_finds(
    layers: int, steps: int, start: int, size: int, top: int, height: int, rows: int, columns: int
) -> None:
    grid, values = _grid(layers, steps, seed=layers * steps, first=10)
    frame = grid.frame(
        10 + start, 10 + start + size - 1, top, top + height, rows=rows, columns=columns
    )
    cells = grid.cells(frame)
    assert cells.shape == (frame.rows, frame.columns)
    assert frame.rows <= rows
    assert frame.columns <= columns + 1
    for row in range(frame.rows):
        for column in range(0, frame.columns, max(frame.columns // 7, 1)):
            y = frame.top + row * frame.height
            x = frame.first - 10 + column * frame.width
            part = values[y : y + frame.height, x : x + frame.width]
            np.testing.assert_array_equal(cells[row, column], np.max(part))


def test_nan_is_greater_than_inf_and_inf_than_every_number() -> None:
    values = np.array([[1.0, np.inf, np.nan, ABSENT]], np.float32)
    grid = LayerGrid(["a"], 0, 1, values)
    assert np.isnan(grid.cells(grid.frame(0, 3, 0, 1, rows=1, columns=1))).all()
    assert grid.cells(grid.frame(0, 1, 0, 1, rows=1, columns=1)).tolist() == [[np.inf]]
    assert (grid.least, grid.greatest) == (1.0, 1.0)


def test_cells_of_another_grid_follow_the_names_of_the_layers() -> None:
    grid, _ = _grid(3, 8)
    values = np.arange(16, dtype=np.float32).reshape(2, 8)
    other = LayerGrid(["layer2", "layer0"], 0, 1, values)
    frame = grid.frame(0, 7, 0, 3, rows=3, columns=2)
    cells = other.cells(frame, grid.layers)
    assert cells.tolist() == [[11.0, 15.0], [ABSENT, ABSENT], [3.0, 7.0]]


def test_a_longer_run_extends_the_grid() -> None:
    whole, values = _grid(4, 100)
    part = LayerGrid(whole.layers, 0, 1, values[:, :60])
    more = LayerGrid(whole.layers[::-1], 60, 1, values[::-1, 60:])
    grown = part.extended(more)
    frame = whole.frame(0, 99, 0, 4, rows=4, columns=100)
    np.testing.assert_array_equal(grown.cells(frame), values)


def test_a_value_that_is_not_known_is_absent_and_one_that_is_nan_is_nan() -> None:
    values = np.array([[np.nan, np.nan, 2.0]])
    is_known = np.array([[False, True, True]])
    grid = LayerGrid.of(LayerMatrix(("a",), np.arange(3), values, is_known))
    cells = grid.cells(grid.frame(0, 2, 0, 1, rows=1, columns=3))[0]
    assert cells[0] == ABSENT
    assert np.isnan(cells[1])
    assert cells[2] == pytest.approx(2.0)


def test_a_few_extreme_cells_do_not_set_the_scale() -> None:
    values = np.linspace(1, 2, 10_000, dtype=np.float32).reshape(10, 1000)
    values[3, 7], values[5, 9] = 1e-12, 1e12
    values[0, 0], values[1, 1] = np.nan, np.inf
    grid = LayerGrid([str(n) for n in range(10)], 0, 1, values)
    assert 1 <= grid.least <= 1.02
    assert 1.98 <= grid.greatest <= 2
    few = LayerGrid(["a"], 0, 1, np.array([[0.0, 1e-9, 5.0]], np.float32))
    assert (few.least, few.greatest) == (pytest.approx(1e-9), 5.0)
