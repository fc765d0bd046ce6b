"""Views, series and matrices, against numpy on the same arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.trends.made_stores import MadeTraining, add_step, open_writer, write_training

import sonde
from sonde.core.errors import SondeError
from sonde.core.graph import OpNode
from sonde.dump.reading.stored_statistics import stored_steps
from sonde.dump.statistic_store import engine
from sonde.dump.statistic_store.compaction import thin
from sonde.dump.statistic_store.files import list_files
from sonde.trends import database as trends_database
from sonde.trends.change import layer_trends
from sonde.trends.database import TrendDatabase

RELU = "Default/net/0-Linear/relu-op0"


def norm(array: NDArray[Any]) -> float:
    return float(np.linalg.norm(array.astype(np.float64)))


@pytest.fixture(scope="module")
def training() -> MadeTraining:
    return MadeTraining()


@pytest.fixture(scope="module")
def database(training: MadeTraining, tmp_path_factory: pytest.TempPathFactory) -> TrendDatabase:
    dump = tmp_path_factory.mktemp("trends")
    write_training(training, dump)
    return TrendDatabase(dump)


class Unfilled(MadeTraining):
    """Memory that is allocated, and seen by a view."""

    def nodes(self) -> list[OpNode]:
        scope = "Default/net/0-Linear"
        return [
            OpNode(f"{scope}/{kind}-op0", kind, scope, "forward", "op")
            for kind in ("empty", "as_strided")
        ]

    def _values(self, node: OpNode, step: int, chance: np.random.Generator) -> NDArray[Any]:
        return np.full((4, 5), np.nan, np.float32)


def test_tensors_has_every_statistic_of_every_tensor(
    training: MadeTraining, database: TrendDatabase
) -> None:
    found = database.query("select step, op, max, min, avg, l2norm, zero_count, count from tensors")
    assert len(found.rows) == sum(map(len, training.arrays.values()))
    for step, op, *numbers in found.rows:
        array = training.arrays[step][op].astype(np.float64)
        expected = [array.max(), array.min(), array.mean(), norm(array), (array == 0).sum(), 20]
        np.testing.assert_allclose(numbers, expected, rtol=1e-6, atol=1e-8)


def test_series_takes_the_last_parts_of_a_name_and_derived_statistics(
    training: MadeTraining, database: TrendDatabase
) -> None:
    found = database.query("from series('0-Linear/relu-op0', 'zero_fraction')")
    assert [row[1] for row in found.rows] == list(range(training.steps))
    shares = [(training.arrays[step][RELU] == 0).mean() for step in range(training.steps)]
    np.testing.assert_allclose([row[6] for row in found.rows], shares)


def test_series_of_points_has_median_and_extremes(
    training: MadeTraining, database: TrendDatabase
) -> None:
    found = database.series(RELU, "rms", points=3)
    rms = np.array([norm(training.arrays[step][RELU]) / 20**0.5 for step in range(30)])
    parts = rms.reshape(3, 10)
    np.testing.assert_array_equal(found.steps, [0, 10, 20])
    np.testing.assert_allclose(found.values, np.median(parts, axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.low, parts.min(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.high, parts.max(axis=1), rtol=1e-6)


def test_layers_ignores_views_and_saved_tensors(
    training: MadeTraining, database: TrendDatabase
) -> None:
    rows = database.query("from layers(7)").rows
    arrays = training.arrays[7]
    assert [row[1] for row in rows] == ["net/0-Linear", "net/1-Linear", "net/2-Linear"]
    for number, (_, _, gradient, activation, zeros, weight, ratio, bad) in enumerate(rows):
        scope = f"Default/net/{number}-Linear"
        relu = arrays[f"{scope}/relu-op0"]
        assert gradient == pytest.approx(norm(arrays[f"Gradients/{scope}/mm-op0"]), rel=1e-6)
        assert activation == pytest.approx(norm(relu) / 20**0.5, rel=1e-6)
        assert zeros == pytest.approx((relu == 0).mean())
        assert weight == pytest.approx(norm(arrays[f"{number}.weight"]), rel=1e-6)
        assert (ratio, bad) == (None, 0)


def test_integers_are_neither_gradients_nor_activations(tmp_path: Path) -> None:
    """The workspace of a backward op, masks, indices."""
    training = MadeTraining(layers=1, steps=3)
    scope = "Default/net/0-Linear"
    training.arrays[1][f"Gradients/{scope}/mm-op0"] = np.full(300, 255, np.uint8)
    training.arrays[1][f"{scope}/relu-op0"] = np.arange(4)
    write_training(training, tmp_path)
    asked = "select grad_norm is null, activation_rms is null from layers({})"
    found = [TrendDatabase(tmp_path).query(asked.format(step)).rows for step in range(3)]
    assert found == [((False, False),), ((True, True),), ((False, False),)]


def test_the_matrix_keeps_the_greatest_value_of_each_cell(
    training: MadeTraining, database: TrendDatabase
) -> None:
    found = database.layer_matrix("grad_norm", columns=4)
    assert found.layers == ("net/0-Linear", "net/1-Linear", "net/2-Linear")
    np.testing.assert_array_equal(found.steps, [0, 8, 16, 24])
    name = "Gradients/Default/net/1-Linear/mm-op0"
    norms = [norm(training.arrays[step][name]) for step in range(30)]
    expected = [max(norms[start : start + 8]) for start in (0, 8, 16, 24)]
    np.testing.assert_allclose(found.values[1], expected, rtol=1e-6)


def test_the_matrix_of_steps_that_are_far_apart_is_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = MadeTraining(steps=12)
    training.arrays[2_000_000_000] = training.arrays.pop(11)
    write_training(training, tmp_path, block_steps=5)
    found = TrendDatabase(tmp_path)
    whole = found.layer_matrix("grad_norm", columns=4)
    monkeypatch.setattr(trends_database, "_STEPS_AT_ONCE", 3)
    parts = found.layer_matrix("grad_norm", columns=4)
    np.testing.assert_array_equal(parts.values, whole.values)
    expected = [
        max(norm(training.arrays[step]["Gradients/Default/net/2-Linear/mm-op0"]) for step in part)
        for part in (range(11), [2_000_000_000])
    ]
    np.testing.assert_allclose(whole.values[2][[0, -1]], expected, rtol=1e-6)


def test_growth_names_the_growing_tensor_and_since_when(
    training: MadeTraining, database: TrendDatabase
) -> None:
    first = database.query("select op, first_norm, last_norm, since from growth(5)").rows[0]
    name = "Gradients/Default/net/1-Linear/mm-op0"
    means = [
        np.mean([norm(training.arrays[step][name]) for step in range(start, start + 5)])
        for start in range(0, 30, 5)
    ]
    assert first[0] == name
    assert first[1:3] == pytest.approx((means[0], means[-1]), rel=1e-6)
    assert first[3] == 0


def test_since_is_when_the_last_growth_or_decline_began(tmp_path: Path) -> None:
    training = MadeTraining(layers=1, steps=30)
    heights = {"forward": [1, 5, 2, 3, 4, 5], "decline": [9, 9, 8, 7, 6, 5], "back": [1, 5, 6, 2]}
    names = dict(zip(heights, training.arrays[0], strict=False))
    for step, arrays in training.arrays.items():
        for kind, name in names.items():
            height = heights[kind][min(step // 5, len(heights[kind]) - 1)]
            arrays[name] = np.full_like(arrays[name], height)
    write_training(training, tmp_path)
    found = dict(TrendDatabase(tmp_path).query("select op, since from growth(5)").rows)
    names_of = {each.name: each.name for each in training.nodes()}
    assert [found[names_of[each]] for each in names.values()] == [10, 5, None]


def test_the_layer_that_changes_most_comes_first(database: TrendDatabase) -> None:
    found = layer_trends(database.layer_matrix("grad_norm"))
    assert found[0].layer == "net/1-Linear"
    assert found[0].factor > 1000
    assert found[0].turned is None


def test_the_first_nan_is_found_on_every_rank(tmp_path: Path) -> None:
    for rank, (step, op) in {0: (11, RELU), 3: (4, "1.weight")}.items():
        training = MadeTraining(seed=rank)
        for later in range(step, training.steps):
            training.arrays[later][op][1, 2] = np.inf if rank else np.nan
        write_training(training, tmp_path, rank=rank, block_steps=7)
    rows = TrendDatabase(tmp_path).query("select rank, step, op from first_nonfinite").rows
    assert rows == ((3, 4, "1.weight"), (0, 11, RELU))


def test_memory_that_no_op_has_filled_is_no_value(tmp_path: Path) -> None:
    unfilled = Unfilled(layers=1, steps=3)
    write_training(unfilled, tmp_path)
    database = TrendDatabase(tmp_path)
    assert database.query("from first_nonfinite").rows == ()
    asked = "select grad_norm, activation_rms, non_finite_count from layers(1)"
    assert database.query(asked).rows == ((None, None, None),)


def test_the_first_nan_of_a_step_is_that_of_the_op_that_ran_first(tmp_path: Path) -> None:
    training = MadeTraining(steps=8)
    for step in range(5):
        del training.arrays[step]["0.weight"]  # Its number in the op table is the last one.
    for name in ("0.weight", RELU):
        training.arrays[5][name][0, 0] = np.nan
    directory = write_training(training, tmp_path, block_steps=4)
    found = TrendDatabase(tmp_path)
    assert found.query("select step, op from first_nonfinite").rows == ((5, "0.weight"),)
    ordered = found.query("select op from tensors where step = 5 order by position").rows
    assert [op for (op,) in ordered] == list(training.arrays[5])
    stored = {each.step: each for each in stored_steps(directory)}[5]
    assert [row.op_name for row in stored.read()] == list(training.arrays[5])


def test_nan_and_infinities_stay_what_they_are_through_all_forms(tmp_path: Path) -> None:
    training = MadeTraining(steps=6)
    bad = training.arrays[2][RELU]
    bad[0, :3] = [np.nan, np.inf, 1.0]
    training.arrays[3][RELU][0, 0] = -np.inf
    training.arrays[4][RELU] = np.zeros((0, 5), np.float32)
    directory = write_training(training, tmp_path, block_steps=3)
    found = TrendDatabase(tmp_path).query(
        "select step, max, min, l2norm from tensors where op = ? order by step", (RELU,)
    )
    rows = {step: numbers for step, *numbers in found.rows}
    assert np.isnan(rows[2]).all()
    assert (rows[3][1], rows[3][2]) == (-np.inf, np.inf)
    assert (rows[4][0], rows[4][1]) == (None, None)
    matrix = TrendDatabase(tmp_path).layer_matrix("activation_rms")
    assert matrix.is_known[0, 2]
    assert np.isnan(matrix.values[0, 2])
    assert np.isinf(matrix.values[0, 3])
    for file in list_files(directory, "rows"):
        thin(engine.connect(), file)
    again = TrendDatabase(tmp_path).layer_matrix("activation_rms")
    assert np.isnan(again.values[0, 2])


def test_the_rank_that_differs_is_named(tmp_path: Path) -> None:
    for rank in range(4):
        training = MadeTraining(steps=3)
        if rank == 2:
            training.arrays[1][RELU] *= 2
        write_training(training, tmp_path, rank=rank)
    rows = TrendDatabase(tmp_path).query("select rank, op, deviation from rank_outliers(1)").rows
    assert rows == ((2, RELU, pytest.approx(1.0)),)


def test_a_thinned_run_knows_the_first_of_many_steps_with_nan(tmp_path: Path) -> None:
    training = MadeTraining(layers=1, steps=300)
    for step in range(125, 300):
        training.arrays[step]["0.weight"][0, 0] = np.nan
    directory = write_training(training, tmp_path)
    thin(engine.connect(), list_files(directory, "rows")[0])
    database = TrendDatabase(tmp_path)
    assert database.query("select step from first_nonfinite").rows == ((125,),)
    asked = "select step, steps from series('0.weight', 'l2norm') where steps > 1"
    assert database.query(asked).rows == ((0, 100), (100, 15), (136, 64), (200, 100))


def test_a_thinned_run_answers_the_same_questions(tmp_path: Path) -> None:
    training = MadeTraining(steps=300)
    training.arrays[170]["1.weight"][0, 0] = np.nan
    directory = write_training(training, tmp_path)
    thin(engine.connect(), list_files(directory, "rows")[0])
    database = TrendDatabase(tmp_path)
    assert database.query("select step, op from first_nonfinite").rows == ((170, "1.weight"),)
    (row,) = database.query(f"from series('{RELU}', 'l2norm') where step = 200").rows
    norms = [norm(training.arrays[step][RELU]) for step in range(200, 300)]
    assert row[2] == 100
    assert row[7:] == pytest.approx((min(norms), max(norms)), rel=1e-6)


@pytest.mark.parametrize("every", [1, 5])
def test_a_thinned_row_is_the_value_of_all_its_steps_in_a_map(tmp_path: Path, every: int) -> None:
    training = MadeTraining(steps=300)
    training.arrays = {step: training.arrays[step] for step in range(0, 300, every)}
    training.arrays[170]["1.weight"][0, 0] = np.nan
    directory = write_training(training, tmp_path)
    full = TrendDatabase(tmp_path).layer_matrix("activation_rms", first=150, last=190)
    thin(engine.connect(), list_files(directory, "rows")[0])
    database = TrendDatabase(tmp_path)
    whole = database.layer_matrix("activation_rms", columns=300)
    assert whole.layers == full.layers
    kept = np.s_[:, 160 - 150 : 181 - 150 : every]
    np.testing.assert_array_equal(whole.values[:, 160:181:every], full.values[kept])
    arrays = [training.arrays[step][RELU] for step in range(200, 300, every)]
    greatest = max(np.sqrt(np.square(each).mean()) for each in arrays)
    zoomed = database.layer_matrix("activation_rms", first=230, last=239)
    for matrix, columns in ((whole, np.s_[200 : 301 - every]), (zoomed, np.s_[:])):
        assert matrix.is_known[:, columns].all()
        assert matrix.values[0, columns] == pytest.approx(greatest, rel=1e-6)
    (found,) = database.cell_tensors("activation_rms", whole.layers[0], 233, 234)
    assert (found.op, found.step, found.value) == (RELU, 200, pytest.approx(greatest, rel=1e-6))


def test_a_run_that_goes_on_is_asked_again(tmp_path: Path) -> None:
    training = MadeTraining(steps=9)
    ops, writer = open_writer(tmp_path / "rank_0" / "statistics", piece_seconds=0.0, block_steps=4)
    database = None
    for step, arrays in training.arrays.items():
        add_step(ops, writer, training, step, arrays)
        while database is None:
            try:
                database = TrendDatabase(tmp_path)
            except SondeError:
                assert writer.error is None
        while database.steps()[1] < step:
            assert writer.error is None
            database.refresh()
        count = database.query("select count(*) from tensors").rows[0][0]
        assert count == (step + 1) * len(training.nodes())
    writer.close()


def test_the_range_of_steps_is_asked_once_until_there_are_new_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = MadeTraining(steps=6)
    write_training(training, tmp_path)
    database = TrendDatabase(tmp_path)
    asked: list[str] = []
    query = database.query
    monkeypatch.setattr(database, "query", lambda sql: asked.append(sql) or query(sql))
    assert [database.steps() for _ in range(3)] == [(0, 5)] * 3
    assert len(asked) == 1
    ops, writer = open_writer(tmp_path / "rank_1" / "statistics")
    add_step(ops, writer, training, 9, training.arrays[5])
    writer.close()
    database.refresh()
    assert database.steps() == (0, 9)


def test_a_wrong_query_is_one_line(database: TrendDatabase) -> None:
    for sql in ("selec 1", "from nothing", "select nope from tensors", "from series('a', 'b')"):
        with pytest.raises(SondeError, match="the query cannot be answered") as raised:
            database.query(sql if "series" not in sql else f"from series('{RELU}', 'b')")
        assert "\n" not in str(raised.value)
    with pytest.raises(SondeError, match="did you mean 'l2norm'"):
        database.series(RELU, "l2nrm")
    with pytest.raises(SondeError, match="did you mean 'grad_norm'"):
        database.layer_matrix("gradnorm")


def test_a_directory_without_parquet_files_says_how_to_get_them(tmp_path: Path) -> None:
    (tmp_path / "rank_0").mkdir()
    with pytest.raises(SondeError, match="sonde run --stats writes them"):
        TrendDatabase(tmp_path)


def test_sonde_query_returns_a_data_frame(tmp_path: Path) -> None:
    write_training(MadeTraining(steps=4), tmp_path)
    frame = sonde.query(tmp_path, "select step, count(*) as rows from tensors group by step")
    assert sorted(frame["step"]) == [0, 1, 2, 3]
    assert set(frame["rows"]) == {18}
