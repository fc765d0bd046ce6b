"""Rows written on a thread of its own: whole files, read by other programs, merged and thinned."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
from tests.trends.made_stores import MadeTraining, add_step, open_writer, write_training

from sonde.dump.reading.stored_statistics import stored_steps
from sonde.dump.statistic_store import compaction, engine
from sonde.dump.statistic_store.compaction import compact, thin
from sonde.dump.statistic_store.files import list_files


def test_pandas_and_polars_open_the_files(tmp_path: Path) -> None:
    training = MadeTraining()
    directory = write_training(training, tmp_path)
    (rows,) = directory.glob("rows.*.parquet")
    (ops,) = directory.glob("ops.*.parquet")
    frame, table = pandas.read_parquet(rows), polars.read_parquet(rows)
    names = pandas.read_parquet(ops).set_index("id")["name"]
    assert len(frame) == len(table) == training.steps * len(training.nodes())
    for each in (frame, table.to_pandas()):
        for _, row in each.iterrows():
            array = training.arrays[int(row["step"])][names[int(row["op"])]].astype(np.float64)
            assert row["max"] == array.max()
            assert row["zero_count"] == (array == 0).sum()
            assert row["l2norm"] == pytest.approx(np.linalg.norm(array), rel=2**-23)


def test_floats_are_stored_as_split_bytes_with_zstd(tmp_path: Path) -> None:
    (file,) = write_training(MadeTraining(steps=200), tmp_path).glob("rows.*.parquet")
    query = f"from parquet_metadata('{file}') select path_in_schema, encodings, compression"
    found = {name: (how, codec) for name, how, codec in engine.connect().execute(query).fetchall()}
    assert found["l2norm"] == ("BYTE_STREAM_SPLIT", "ZSTD")
    assert found["op"][1] == "ZSTD"


def test_steps_can_be_read_while_the_training_goes_on(tmp_path: Path) -> None:
    training = MadeTraining(steps=12)
    ops, writer = open_writer(tmp_path, piece_seconds=0.0, block_steps=5)
    for step, arrays in training.arrays.items():
        add_step(ops, writer, training, step, arrays)
        while step not in {each.step for each in stored_steps(tmp_path)}:
            assert writer.error is None
        assert [each.step for each in stored_steps(tmp_path)] == list(range(step + 1))
    writer.close()
    assert [each.form for each in list_files(tmp_path, "rows")] == ["op_order"] * 3


def test_readers_see_every_step_once_while_files_are_merged(tmp_path: Path) -> None:
    training = MadeTraining(steps=40)
    ops, writer = open_writer(tmp_path, piece_seconds=0.0, block_steps=4)
    wrong: list[list[int]] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            seen = [each.step for each in stored_steps(tmp_path)]
            if seen != list(range(len(seen))):
                wrong.append(seen)

    reader = threading.Thread(target=read)
    reader.start()
    for step, arrays in training.arrays.items():
        add_step(ops, writer, training, step, arrays)
    writer.close()
    ended.set()
    reader.join()
    assert wrong == []


def test_many_pieces_are_merged_before_the_block_is_full(tmp_path: Path) -> None:
    training = MadeTraining(steps=70)
    directory = write_training(training, tmp_path, piece_seconds=0.0)
    assert [each.form for each in list_files(directory, "rows")] == ["op_order"]
    assert [each.step for each in stored_steps(directory)] == list(range(70))


def test_what_a_killed_training_left_is_sorted_by_op_later(tmp_path: Path) -> None:
    training = MadeTraining(steps=6)
    ops, writer = open_writer(tmp_path, piece_seconds=0.0)
    for step, arrays in training.arrays.items():
        add_step(ops, writer, training, step, arrays)
        while len(stored_steps(tmp_path)) <= step:
            assert writer.error is None
    assert {each.form for each in list_files(tmp_path, "rows")} == {"piece"}
    compact(engine.connect(), tmp_path, steps=1000)
    assert [each.form for each in list_files(tmp_path, "rows")] == ["op_order"]
    assert [each.step for each in stored_steps(tmp_path)] == list(range(6))
    writer.close()


def test_a_thinned_file_has_median_and_extremes_and_the_steps_around_the_first_nan(
    tmp_path: Path,
) -> None:
    training = MadeTraining(steps=400)
    for step in range(250, 400):
        training.arrays[step]["1.weight"][0, 0] = np.nan
    directory = write_training(training, tmp_path)
    (whole,) = list_files(directory, "rows")
    thinned = thin(engine.connect(), whole)
    assert list_files(directory, "rows") == (thinned,)
    assert not whole.path.exists()
    frame = pandas.read_parquet(thinned.path)
    full = frame[frame["steps"] == 1]
    assert set(full["step"]) == set(range(240, 261))
    numbers = pandas.read_parquet(next(directory.glob("ops.*"))).set_index("name")["id"]
    name = "Default/net/0-Linear/addmm-op0"
    (row,) = frame[(frame["op"] == numbers[name]) & (frame["step"] == 100)].to_dict("records")
    norms = [np.linalg.norm(training.arrays[step][name].astype(float)) for step in range(100, 200)]
    assert row["steps"] == 100
    assert row["l2norm_low"] == pytest.approx(min(norms))
    assert row["l2norm_high"] == pytest.approx(max(norms))
    assert sorted(norms)[49] <= row["l2norm"] * (1 + 1e-6) <= sorted(norms)[51] * (1 + 1e-5)


def test_old_steps_of_a_long_run_are_thinned_while_it_goes_on(tmp_path: Path) -> None:
    training = MadeTraining(layers=1, steps=300)
    directory = write_training(training, tmp_path, block_steps=50, full_steps=100)
    files = list_files(directory, "rows")
    assert [each.form for each in files] == ["thinned"] * 4 + ["op_order"] * 2
    assert [each.step for each in stored_steps(directory)][-100:] == list(range(200, 300))


def test_bands_of_a_sorted_file_have_about_the_same_number_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = MadeTraining(layers=2, steps=60)  # 12 rows a step
    monkeypatch.setattr(compaction, "BAND_ROWS", 240)
    (file,) = write_training(training, tmp_path).glob("rows.*.parquet")
    steps = pandas.read_parquet(file)["step"].to_numpy()
    bands = [set(part.tolist()) for part in np.split(steps, 3)]
    assert bands == [set(range(20)), set(range(20, 40)), set(range(40, 60))]


def test_thinning_keeps_the_steps_around_a_trigger(tmp_path: Path) -> None:
    training = MadeTraining(layers=1, steps=300)
    directory = write_training(
        training, tmp_path, block_steps=50, full_steps=100, triggered=(20, 148)
    )
    frames = [pandas.read_parquet(each.path) for each in list_files(directory, "rows")[:4]]
    frame = pandas.concat(frames)
    assert set(frame[frame["steps"] == 1]["step"]) == {*range(10, 31), *range(138, 159)}


def test_a_full_disk_ends_the_writing_and_not_the_training(tmp_path: Path) -> None:
    directory = tmp_path / "gone"
    ops, writer = open_writer(directory, piece_seconds=0.0)
    os.rmdir(directory)
    training = MadeTraining(steps=3)
    for step, arrays in training.arrays.items():
        add_step(ops, writer, training, step, arrays)
    writer.close()
    assert isinstance(writer.error, Exception)
