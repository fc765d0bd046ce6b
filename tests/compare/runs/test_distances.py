"""Distances of pairs of tensors, and how tensors are laid out for it."""

from dataclasses import replace
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from sonde.compare.runs.layouts import lay_out
from sonde.compare.runs.measure import Measured, MeasureTask, measure, measure_all
from sonde.core.keys import TensorKey
from sonde.dump.reading.statistic_rows import StatisticRow
from sonde.dump.tensor_record import TensorRecord

Array = NDArray[Any]

FLOATS = hnp.arrays(
    np.float32,
    hnp.array_shapes(max_dims=3, max_side=6),
    elements=st.floats(-(2.0**40), 2.0**40, width=32),
)


def record(
    place: Path, name: str, values: Array, label: str | None = None, row: StatisticRow | None = None
) -> TensorRecord:
    np.save(place / f"{name}.npy", values)
    key = TensorKey(0, 0, name, "output", 0)
    return TensorRecord(
        key, 0, "Net", 0, "add", 0, "DefaultFormat", label, place, f"{name}.npy", None, row
    )


def measured(place: Path, a: Array, b: Array, **labels: Any) -> Measured:
    left = record(place, "a", a, labels.pop("label_a", None))
    return measure(MeasureTask(left, record(place, "b", b, labels.pop("label_b", None)), **labels))


@settings(max_examples=60, deadline=None)
@given(values=FLOATS)
def test_a_tensor_has_no_distance_from_itself(
    values: Array, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = measured(tmp_path_factory.mktemp("same"), values, values)
    assert found.error == 0.0
    assert found.pair.distances is not None
    assert found.pair.distances.is_equal
    assert found.pair.distances.max_ulp == 0
    assert found.pair.distances.cosine == 1.0


@settings(max_examples=60, deadline=None)
@given(data=st.data(), a=FLOATS)
def test_distances_are_symmetric_but_for_the_norm_of_the_reference(
    data: st.DataObject, a: Array, tmp_path_factory: pytest.TempPathFactory
) -> None:
    b = data.draw(hnp.arrays(np.float32, a.shape, elements=st.floats(-1e6, 1e6, width=32)))
    place = tmp_path_factory.mktemp("both")
    there, back = measured(place, a, b).pair.distances, measured(place, b, a).pair.distances
    assert there is not None
    assert back is not None
    for name in (
        "max_abs_error",
        "mean_abs_error",
        "max_relative_error",
        "mean_relative_error",
        "cosine",
        "max_ulp",
        "within_1",
        "within_5",
        "l2_error",
    ):
        assert getattr(there, name) == pytest.approx(getattr(back, name), rel=1e-12), name
    assert (there.norm_a, there.norm_b) == pytest.approx((back.norm_b, back.norm_a))


def test_distances_of_a_pair_worked_by_hand(tmp_path: Path) -> None:
    a = np.array([1.0, 2.0, 3.0, 4.004], np.float32)
    b = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    found = measured(tmp_path, a, b).pair.distances
    assert found is not None
    difference = float(a[3]) - 4.0
    assert found.max_abs_error == difference
    assert found.max_relative_error == pytest.approx(difference / float(a[3]))
    assert found.mean_relative_error == pytest.approx(difference / float(a[3]) / 4)
    assert found.relative_l2 == pytest.approx(difference / np.sqrt(30.0))
    assert (found.within_1, found.within_5) == (4, 4)
    assert found.max_ulp == round(difference / 2.0**-21)


def test_nan_on_one_side_only_is_an_infinite_error(tmp_path: Path) -> None:
    found = measured(tmp_path, np.float32([1, nan]), np.float32([1, 2]))
    assert found.error == inf
    both = measured(tmp_path, np.float32([1, nan]), np.float32([1, nan]))
    assert both.error == 0.0


def test_ulp_is_counted_in_the_dtype_the_tensors_had(tmp_path: Path) -> None:
    a, b = np.float32([1.0, 1.0078125]), np.float32([1.0, 1.0])  # one bfloat16 apart
    found = measured(tmp_path, a, b, label_a="BFloat16", label_b="BFloat16").pair.distances
    assert found is not None
    assert found.max_ulp == 1
    mixed = measured(tmp_path, a, b, label_a="BFloat16", label_b="Float32").pair.distances
    assert mixed is not None
    assert isnan(mixed.max_ulp)


def test_shapes_of_other_sizes_cannot_be_compared(tmp_path: Path) -> None:
    found = measured(tmp_path, np.zeros((2, 3)), np.zeros((2, 4)))
    assert found.pair.problem == "shapes [2, 3] and [2, 4] do not agree"
    assert found.pair.problem_kind == "shapes"
    assert isnan(found.error)


def test_a_damaged_file_is_reported_as_damaged(tmp_path: Path) -> None:
    good = record(tmp_path, "good", np.zeros(4))
    bad = record(tmp_path, "bad", np.zeros(4))
    (tmp_path / "bad.npy").write_bytes((tmp_path / "bad.npy").read_bytes()[:-8])
    found = measure(MeasureTask(bad, good))
    assert found.pair.problem_kind == "damaged"
    assert "bad.npy: byte 152: the file ends early" in str(found.pair.problem)


def test_many_pairs_are_measured_in_order_on_all_threads(tmp_path: Path) -> None:
    zero = record(tmp_path, "zero", np.zeros(3, np.float32))
    tasks = [
        MeasureTask(record(tmp_path, f"n{n}", np.full(3, n, np.float32)), zero) for n in range(40)
    ]
    found = list(measure_all(tasks, threads=4))
    assert [each.pair.a.op for each in found] == [f"n{n}" for n in range(40)]
    assert [each.max_abs_error for each in found] == list(range(40))


def row(**values: float) -> StatisticRow:
    return StatisticRow("add", "add", 0, "output", 0, 16, "float32", (4,), dict(values))


def by_statistics(place: Path, a: StatisticRow, b: StatisticRow) -> Measured:
    records = []
    for name, each in (("a", a), ("b", b)):
        made = record(place, name, np.zeros(4), row=each)
        object.__setattr__(made, "file_name", None)
        records.append(made)
    return measure(MeasureTask(records[0], records[1]))


def test_a_mean_is_compared_with_the_size_of_the_elements_not_with_itself(tmp_path: Path) -> None:
    """Means near zero are rounding: their relative difference says nothing."""
    a = row(max=1.0, min=-1.0, avg=1e-9, l2norm=2.0)
    b = row(max=1.0, min=-1.0, avg=-3e-9, l2norm=2.0)
    found = by_statistics(tmp_path, a, b)
    assert found.pair.by == "statistics"
    assert found.error == pytest.approx(4e-9)


def test_statistics_differ_by_the_largest_relative_difference(tmp_path: Path) -> None:
    a = row(max=1.0, min=-1.0, avg=0.0, l2norm=2.02)
    b = row(max=1.0, min=-1.0, avg=0.0, l2norm=2.0)
    assert by_statistics(tmp_path, a, b).error == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("turn", "name"),
    [((0, 2, 3, 1), "NHWC to NCHW"), ((0, 3, 1, 2), "NCHW to NHWC"), ((3, 2, 1, 0), None)],
)
def test_another_order_of_axes_is_recognised(turn: tuple[int, ...], name: str | None) -> None:
    b = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    laid = lay_out(np.ascontiguousarray(b.transpose(turn)), b, is_weight=False)
    assert laid is not None
    assert np.array_equal(laid[0], b)
    assert laid[1] is not None
    assert name is None or laid[1] == name


def test_channels_last_is_distinguished_from_channels_first_if_sizes_are_equal() -> None:
    b = np.random.default_rng(0).standard_normal((2, 6, 4, 4))
    laid = lay_out(np.ascontiguousarray(b.transpose(0, 2, 3, 1)), b, is_weight=False)
    assert laid is not None
    assert np.array_equal(laid[0], b)


def test_a_square_weight_that_was_transposed_is_turned_back() -> None:
    b = np.random.default_rng(0).standard_normal((8, 8))
    laid = lay_out(np.ascontiguousarray(b.T), b, is_weight=True)
    assert laid is not None
    assert (np.array_equal(laid[0], b), laid[1]) == (True, "transposed")


def test_a_square_weight_that_is_merely_different_stays_as_it_is() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 8, 8))
    laid = lay_out(a, b, is_weight=True)
    assert laid is not None
    assert (np.array_equal(laid[0], a), laid[1]) == (True, None)


def test_a_flattened_tensor_is_compared_element_by_element() -> None:
    b = np.arange(24.0).reshape(2, 12)
    laid = lay_out(b.reshape(2, 3, 4), b, is_weight=False)
    assert laid is not None
    assert (np.array_equal(laid[0], b), laid[1]) == (True, "reshaped")
    gradient = lay_out(np.ones((1, 5)), np.ones(5), is_weight=False)
    assert gradient is not None
    assert (gradient[0].shape, gradient[1]) == ((5,), None)


def test_counts_that_only_one_side_has_are_not_compared(tmp_path: Path) -> None:
    a = row(max=2.0, min=-1.0, l2norm=3.0, **{"nan count": 0})
    assert by_statistics(tmp_path, a, row(max=2.0, min=-1.0, l2norm=3.0)).error == 0.0
    assert by_statistics(tmp_path, a, row(max=nan, min=nan, l2norm=nan)).error == inf
    both = row(max=nan, min=nan, l2norm=nan)
    assert by_statistics(tmp_path, both, both).error == 0.0


def test_sums_in_single_precision_may_differ_a_little(tmp_path: Path) -> None:
    a, b = row(max=2.0, avg=0.1), row(max=2.0, avg=0.1 + 1e-8)
    assert by_statistics(tmp_path, a, b).error > 0.0
    assert by_statistics(tmp_path, a, replace(b, is_single=True)).error == 0.0
