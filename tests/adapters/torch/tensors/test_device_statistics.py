"""Statistics by torch on the tensor's own device, against the host kernel, on CPU tensors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.csv_rows import ALL, statistics_of
from tests.adapters.torch.dumping import dump_of, dumping
from tests.adapters.torch.trainings import TRAININGS
from tests.kernels.awkward import EIGHTHS, FLOATS, INTEGERS, eighths, floats, integers, name_of
from torch.utils._python_dispatch import TorchDispatchMode

import sonde
from sonde import kernels
from sonde.adapters.torch.tensors.device_statistics import device_row, gather
from sonde.core.statistics import (
    AVG,
    COUNT,
    DTYPE,
    L2NORM,
    MAX,
    MIN,
    ROW_COLUMNS,
    STD,
    Statistics,
)

EVERY = frozenset(range(ROW_COLUMNS))
SUMS = ("avg", "l2norm", "std", "abs_mean")


class Counted(TorchDispatchMode):  # type: ignore[misc]
    """The ops that run under it."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def on_device(
    tensor: torch.Tensor, *, high_precision: bool = True, columns: Any = EVERY
) -> Statistics:
    name = name_of(tensor.dtype)
    row = device_row(
        tensor, kernels.dtype_code(name), columns=columns, high_precision=high_precision
    )
    return kernels.statistics_from_row(gather([row])[0], name)


def on_host(tensor: torch.Tensor) -> Statistics:
    return kernels.summarize(
        tensor.data_ptr(), name_of(tensor.dtype), tuple(tensor.shape), tensor.stride()
    )


def assert_alike(device: Statistics, host: Statistics) -> None:
    """Counts and extremes exactly, with the sign of zero; sums to 1e-12."""
    for name in Statistics.__dataclass_fields__:
        mine, theirs = getattr(device, name), getattr(host, name)
        assert type(mine) is type(theirs), name
        if name in SUMS and math.isfinite(theirs):
            size = abs(host.abs_mean) if name == "avg" else abs(theirs)
            assert abs(mine - theirs) <= 1e-12 * size, (name, mine, theirs)
        else:
            assert repr(mine) == repr(theirs), (name, mine, theirs)


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_floats_have_the_numbers_of_the_host(dtype: torch.dtype) -> None:
    for tensor in floats(dtype).values():
        assert_alike(on_device(tensor), on_host(tensor))


@pytest.mark.parametrize("dtype", EIGHTHS, ids=name_of)
def test_eight_bit_floats_have_the_numbers_of_the_host(dtype: torch.dtype) -> None:
    for tensor in eighths(dtype).values():
        assert_alike(on_device(tensor), on_host(tensor))


@pytest.mark.parametrize("dtype", INTEGERS, ids=name_of)
def test_integers_have_the_numbers_of_the_host(dtype: torch.dtype) -> None:
    for tensor in integers(dtype).values():
        assert_alike(on_device(tensor), on_host(tensor))


def test_booleans_have_the_numbers_of_the_host() -> None:
    for values in ([], [True], [False, True, True], [False] * 9):
        tensor = torch.tensor(values, dtype=torch.bool)
        assert_alike(on_device(tensor), on_host(tensor))


def test_layouts_make_no_difference() -> None:
    base = torch.randn(4, 6, 5, generator=torch.Generator().manual_seed(1))
    for tensor in (
        base[::2, 1::3],
        base.permute(2, 0, 1),
        base[:, :1].expand(4, 3, 5),
        base.unsqueeze(0).to(memory_format=torch.channels_last),
        base[0, 0, 0],
    ):
        assert_alike(on_device(tensor), on_host(tensor))


def test_float64_beyond_the_range_of_its_squares() -> None:
    for scale in (1e200, 1e307, 1e-200, 5e-324, 1e-310):
        tensor = torch.tensor([1.0, -1.5, 0.25, 0.0], dtype=torch.float64) * scale
        host, device = on_host(tensor), on_device(tensor)
        for name in SUMS:
            assert getattr(device, name) == pytest.approx(getattr(host, name), rel=1e-12)
            assert math.isfinite(getattr(device, name))


def test_low_precision_sums_in_the_dtype_of_the_tensor() -> None:
    """As documented: less exact, and large values overflow."""
    tensor = torch.full((4,), 60000.0, dtype=torch.float16)
    low = on_device(tensor, high_precision=False)
    assert low.l2norm == math.inf  # 120000 is beyond float16
    assert on_device(tensor).l2norm == 120000.0
    values = torch.tensor([1.0, 2.0, 4.5], dtype=torch.bfloat16)
    low = on_device(values, high_precision=False)
    assert low.avg == float(values.mean())
    assert low.l2norm == float(values.norm())
    assert low.abs_mean == float(values.abs().mean())
    assert low.std == float((values - values.mean()).square().mean().sqrt())
    exact = on_device(values)
    assert exact.avg == 2.5
    assert exact.l2norm == pytest.approx(math.sqrt(25.25), rel=1e-15)
    assert (low.max, low.min, low.count) == (4.5, 1.0, 3)
    whole = torch.tensor([3, 4], dtype=torch.int32)
    assert on_device(whole, high_precision=False).l2norm == 5.0


def test_only_the_requested_statistics_are_computed() -> None:
    with Counted() as counted:
        row = device_row(
            torch.randn(8), kernels.dtype_code("float32"), columns={MAX}, high_precision=True
        )
    assert set(counted.ops) & {"aten::mean", "aten::linalg_vector_norm", "aten::isnan"} == set()
    found = gather([row])[0]
    known = {COUNT, MAX, DTYPE}
    assert {column for column in range(ROW_COLUMNS) if not np.isnan(found[column])} == known


def test_rows_of_many_tensors_come_over_in_one_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        device_row(
            torch.arange(float(size)),
            kernels.dtype_code("float32"),
            columns={MAX, MIN, AVG, L2NORM, STD},
            high_precision=True,
        )
        for size in range(50)
    ]
    transfers = []
    original = torch.Tensor.cpu

    def cpu(self: torch.Tensor) -> torch.Tensor:
        transfers.append(self.shape)
        return original(self)

    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    found = gather(rows)
    assert len(transfers) == 1
    assert found[0, L2NORM] == 0.0
    assert np.isnan(found[0, MAX])
    assert found[1:, MAX].tolist() == [float(size - 1) for size in range(1, 50)]


# ------------------------------------------------------------------------- in a dump


@pytest.mark.document(147)
@pytest.mark.document(
    145,
    says='`stat_calc_mode`: "host" or "device"',
    how="key `stat_calc_mode`; both give the same rows",
)
@pytest.mark.parametrize(
    "name", ["an_mlp", "a_grad_scaler", "odd_tensors", "in_place_and_views", "foreach_adam"]
)
def test_a_dump_has_the_rows_of_the_host(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        options = {"saved_data": "statistic", "statistic_categories": ALL}
        dump_of(tmp_path / "host", TRAININGS[name], **options)
        dump_of(tmp_path / "device", TRAININGS[name], stat_calc_mode="device", **options)
    finally:
        torch.use_deterministic_algorithms(False)
    host, device = statistics_of(tmp_path / "host"), statistics_of(tmp_path / "device")
    assert host.keys() == device.keys()
    for step in host:
        for one, other in zip(host[step], device[step], strict=True):
            assert one.place == other.place
            for category in ALL:
                mine, theirs = other.number(category), one.number(category)
                size = one.number("abs mean")
                assert mine == pytest.approx(
                    theirs, rel=1e-12, abs=1e-12 * size if category == "avg" else 0, nan_ok=True
                ), (one.place, category)


def test_a_step_is_gathered_once_and_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither Sonde nor a mode of the program takes the gathering for the program's own ops."""

    transfers = []
    original = torch.Tensor.cpu
    monkeypatch.setattr(
        torch.Tensor, "cpu", lambda self: transfers.append(self.shape) or original(self)
    )
    x = torch.ones(2, 3)
    with (
        dumping(tmp_path, step_by="manual", saved_data="statistic", stat_calc_mode="device"),
        Counted() as counted,
    ):
        for _ in range(3):
            (x * 2).relu()
            sonde.step()
    assert counted.ops == ["aten::mul", "aten::relu"] * 3
    assert len(transfers) == 3
    found = statistics_of(tmp_path)
    assert list(found) == [0, 1, 2]
    for rows in found.values():
        assert [row.place for row in rows] == [
            ("x", "output", 0),
            ("Default/mul-op0", "input", 0),
            ("Default/mul-op0", "output", 0),
            ("Default/relu-op0", "input", 0),
            ("Default/relu-op0", "output", 0),
        ]


@pytest.mark.document(
    146,
    says='`device_stat_precision_mode`: "high" or "low", default "high"',
    how="key `device_stat_precision_mode`",
)
def test_low_precision_reaches_the_dump(tmp_path: Path) -> None:
    x = torch.full((4,), 60000.0, dtype=torch.float16)
    for mode, norm in (("high", "120000.0"), ("low", "inf")):
        with dumping(
            tmp_path / mode,
            step_by="manual",
            saved_data="statistic",
            stat_calc_mode="device",
            device_stat_precision_mode=mode,
        ):
            x.neg()
            sonde.step()
        rows = statistics_of(tmp_path / mode)[0]
        assert [row.text("l2norm") for row in rows] == [norm] * 3
