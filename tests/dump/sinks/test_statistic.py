"""``statistic.csv``: its columns, its numbers for every kind of tensor, and its readers."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xxhash
from tests.adapters.torch.csv_rows import (
    ALL,
    FIXED,
    NUMBERS,
    Row,
    assert_right,
    rows_of,
    statistics_of,
)
from tests.adapters.torch.dumping import arrays, dumping
from tests.kernels.awkward import EIGHTHS, FLOATS, INTEGERS, eighths, floats, integers, name_of

import sonde
from sonde.dump import layout
from sonde.dump.reader import Dump


def twice(path: Path, body: Callable[[], Any], **options: Any) -> list[Row]:
    """The rows of ``body``'s second run: the first is learned, the second recognised."""
    options = {"saved_data": "statistic", "statistic_categories": ALL, **options}
    with dumping(path, step_by="manual", **options):
        for _ in range(2):
            body()
            sonde.step()
    first, second = statistics_of(path).values()
    assert first == second
    return second


# --------------------------------------------------------------------------- columns


@pytest.mark.document(
    162,
    says="`statistic.csv`: Op Type, Op Name, Task ID, Stream ID, Timestamp, IO, Slot, Data Size, "
    "Data Type, Shape, statistics",
    how="the same columns in the same order",
)
def test_the_columns_are_the_documents_then_the_chosen_ones_in_their_order(tmp_path: Path) -> None:
    chosen = ("l2norm", "nan count", "md5", "max")
    twice(tmp_path, lambda: torch.ones(2).neg(), statistic_categories=chosen)
    (first, _) = sorted(tmp_path.rglob("statistic.csv"))
    header = first.read_text().splitlines()[0]
    assert header == (
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,"
        "L2Norm Value,NaN Count,MD5,Max Value"
    )


def test_a_row_says_what_the_tensor_is(tmp_path: Path) -> None:
    x = torch.zeros(2, 3, dtype=torch.bfloat16)
    rows = twice(tmp_path, lambda: x.unsqueeze(1).sum())
    (view,) = [row for row in rows if row.place == ("Default/unsqueeze-op0", "output", 0)]
    assert (view.op_type, view.size, view.dtype, view.shape) == (
        "unsqueeze",
        12,
        "BFloat16",
        "(2,1,3)",
    )
    (total,) = [row for row in rows if row.place == ("Default/sum-op0", "output", 0)]
    assert (total.size, total.shape) == (2, "()")
    (leaf,) = [row for row in rows if row.op == "x"]
    assert (leaf.op_type, leaf.io, leaf.shape) == ("Input", "output", "(2,3)")


@pytest.mark.document(
    125,
    says='`saved_data`: "tensor", "statistic" or "full"',
    how="key `saved_data`; `statistic.csv` and `.npy` files appear accordingly",
)
@pytest.mark.parametrize(
    ("saved", "tables", "tensors"),
    [("tensor", False, True), ("statistic", True, False), ("full", True, True)],
)
def test_saved_data_chooses_tensors_statistics_or_both(
    saved: str, tables: bool, tensors: bool, tmp_path: Path
) -> None:
    with dumping(tmp_path, step_by="manual", saved_data=saved):
        torch.ones(3).neg()
        sonde.step()
    (step,) = Dump(tmp_path).step_dirs()
    names = sorted(path.suffix for path in step.path.iterdir())
    assert names == [".csv"] * tables + [".npy"] * (3 * tensors)
    assert (step.path / layout.STATISTIC).exists() == tables


@pytest.mark.document(
    105,
    says="Statistics Dump (Not Supported On CPU)",
    how='`saved_data: "statistic"`, `sonde run --stats`; on the CPU too',
)
def test_a_configuration_file_enables_statistics(tmp_path: Path) -> None:
    config = {
        "common_dump_settings": {
            "dump_mode": 1,
            "path": str(tmp_path / "out"),
            "net_name": "Net",
            "iteration": "1",
            "saved_data": "statistic",
            "input_output": 2,
            "kernels": ["mul"],
            "support_device": [0],
            "statistic_category": ["max", "xxh3"],
        }
    }
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(config))
    with sonde.capture(file, step_by="manual"):
        for number in range(3):
            (torch.ones(3) * number).neg()
            sonde.step()
    assert [
        (step, row.place, dict(row.texts))
        for step, rows in statistics_of(tmp_path / "out").items()
        for row in rows
    ] == [
        (
            1,
            ("Default/mul-op0", "output", 0),
            {"max": "1.0", "xxh3": xxhash.xxh3_128_hexdigest(np.ones(3, "f4").tobytes())},
        )
    ]


# ------------------------------------------------------------------------- every dtype


def kinds() -> dict[str, torch.Tensor]:
    found = {}
    for dtype in FLOATS:
        for name, tensor in floats(dtype).items():
            found[f"{name_of(dtype)} {name}"] = tensor
    for dtype in EIGHTHS:
        for name, tensor in eighths(dtype).items():
            found[f"{name_of(dtype)} {name}"] = tensor
    for dtype in INTEGERS:
        for name, tensor in integers(dtype).items():
            found[f"{name_of(dtype)} {name}"] = tensor
    grid = torch.arange(-30.0, 30.0).view(3, 4, 5)
    found |= {
        "bool": torch.tensor([[True, False, True]]),
        "no bool": torch.zeros(0, dtype=torch.bool),
        "strided": grid[::2, 1::2, ::3],
        "transposed": grid.permute(2, 0, 1),
        "expanded": grid[:1, :, :1].expand(7, 4, 3),
        "channels last": grid.unsqueeze(0).to(memory_format=torch.channels_last),
        "negated": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
    }
    return found


@pytest.mark.document(
    135,
    says='`statistic_category` "max", "min", "avg", "count", "l2norm"',
    how="columns of `statistic.csv`, equal to numpy's numbers",
)
@pytest.mark.document(
    136,
    says='"nan count", "negative inf count", "positive inf count", "zero count"',
    how="the same columns",
)
@pytest.mark.document(
    137,
    says='"negative zero count", "positive zero count": elements less or greater than zero',
    how="the same columns, with the document's meaning",
)
def test_every_kind_of_tensor_has_the_numbers_numpy_finds(tmp_path: Path, matcher: str) -> None:
    tensors = kinds()
    assert tensors["negated"].is_neg()

    def body() -> None:
        for tensor in tensors.values():
            tensor.detach()

    rows = twice(tmp_path / "statistic", body)
    with dumping(tmp_path / "full", step_by="manual", saved_data="full"):
        body()
        sonde.step()
    values = arrays(tmp_path / "full")
    assert len(rows) == len(values)
    assert len([row for row in rows if row.op_type == "detach"]) == 2 * len(tensors)
    for row in rows:
        array = values[(0, *row.place)]
        if row.dtype == "Float64" and (np.abs(array) > 1e150).any():
            continue  # numpy's squares overflow there; tests/kernels knows the truth
        assert_right(row, array)


@pytest.mark.document(
    169,
    says="Complex64 and complex128 only support saving as npy files, not as statistics information",
    how="the same; one line says so",
)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.complex32])
def test_complex_tensors_have_no_row_and_that_is_reported_once(
    dtype: torch.dtype, tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    x = torch.ones(2, dtype=dtype)
    rows = twice(tmp_path, lambda: x.clone().clone().real.clone())
    assert {row.dtype for row in rows} == {"Float16" if dtype is torch.complex32 else name(dtype)}
    said, _, end = capfd.readouterr().err.partition("sonde: dumped steps 0-1: ")
    assert end
    assert said == (
        f"sonde: x output 0 has no statistics: {name_of(dtype)} values are saved as tensors only; "
        "others like it are left out too [no-statistics]\n"
    )


def name(dtype: torch.dtype) -> str:
    return {torch.complex64: "Float32", torch.complex128: "Float64"}[dtype]


# ----------------------------------------------------------------------------- hashes


@pytest.mark.document(
    138,
    says='"md5": the MD5 value of the tensor',
    how="the same, equal to hashlib's of the values in the `.npy` file; `xxh3` is faster",
)
def test_hashes_are_those_of_the_elements_whatever_their_layout(
    tmp_path: Path, matcher: str
) -> None:
    tensors = {
        name: tensor
        for name, tensor in kinds().items()
        if tensor.dtype not in (torch.bfloat16, *EIGHTHS)
    }

    def body() -> None:
        for tensor in tensors.values():
            tensor.detach()

    rows = twice(tmp_path / "rows", body, statistic_categories=("md5", "max", "xxh3"))
    with dumping(tmp_path / "files", step_by="manual"):
        body()
        sonde.step()
    values = arrays(tmp_path / "files")
    for row in rows:
        contents = values[(0, *row.place)].tobytes()
        assert row.text("md5") == hashlib.md5(contents).hexdigest()
        assert row.text("xxh3") == xxhash.xxh3_128_hexdigest(contents)


def test_hashes_of_narrow_floats_are_those_of_their_own_bits(tmp_path: Path) -> None:
    x = torch.arange(-6.0, 6.0).view(3, 4).to(torch.bfloat16)
    y = x.to(torch.float8_e5m2)
    rows = twice(tmp_path, lambda: (x.t(), y.t()), statistic_categories=("md5", "xxh3"))
    found = {row.place: row.text("md5") for row in rows}
    for op, tensor in (("Default/t-op0", x), ("Default/t-op1", y)):
        contents = tensor.t().contiguous().view(torch.uint8).numpy().tobytes()
        assert found[op, "output", 0] == hashlib.md5(contents).hexdigest()
        contents = tensor.view(torch.uint8).numpy().tobytes()
        assert found[op, "input", 0] == hashlib.md5(contents).hexdigest()


# ----------------------------------------------------------------------------- readers


@pytest.fixture(scope="module")
def awkward_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with every number that is hard to read."""
    path = tmp_path_factory.mktemp("awkward")
    tensors = [
        torch.tensor([math.nan, 1.0]),
        torch.tensor([math.inf, -1.0]),
        torch.tensor([-math.inf, math.inf]),
        torch.tensor([0.1, 1e-45]),
        torch.tensor([1e300, -1e-300], dtype=torch.float64),
        torch.tensor([2**63 - 1, -(2**63)]),
        torch.tensor([]),
        torch.tensor([True, False]),
    ]
    with dumping(path, step_by="manual", saved_data="statistic", statistic_categories=ALL):
        for tensor in tensors:
            tensor.neg() if tensor.dtype is not torch.bool else tensor.logical_not()
        sonde.step()
    (file,) = path.rglob("statistic.csv")
    return file


def known(file: Path) -> dict[str, list[float]]:
    rows = rows_of(file)
    return {title: [float(row.text(name)) for row in rows] for name, title in NUMBERS.items()}


def same(found: Any, expected: list[float]) -> bool:
    return bool(np.array_equal(np.asarray(found, np.float64), expected, equal_nan=True))


@pytest.mark.document(
    174,
    says="opening `statistic.csv` with Excel may cause data to be displayed incorrectly",
    how="numbers are written so that csv, pandas and polars read them back exactly",
)
def test_csv_reads_it(awkward_file: Path) -> None:
    with awkward_file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [tuple(row)[:10] for row in rows] == [FIXED] * len(rows)
    leaves = {row["Op Name"]: row for row in rows if row["Op Type"] == "Input"}
    assert len(leaves) == 8
    assert [(row["Max Value"], row["Min Value"]) for row in leaves.values()] == [
        ("nan", "nan"),
        ("inf", "-1.0"),
        ("inf", "-inf"),
        ("0.10000000149011612", "1.401298464324817e-45"),
        ("1e+300", "-1e-300"),
        ("9223372036854775807", "-9223372036854775808"),
        ("nan", "nan"),
        ("1", "0"),
    ]


@pytest.mark.document(174)
def test_pandas_reads_it(awkward_file: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(awkward_file)
    for title, expected in known(awkward_file).items():
        assert same(table[title], expected), title


def test_polars_reads_it(awkward_file: Path) -> None:
    polars = pytest.importorskip("polars")
    table = polars.read_csv(awkward_file)
    for title, expected in known(awkward_file).items():
        assert same(table[title].to_numpy(), expected), title


def test_the_reader_of_dumps_reads_it(awkward_file: Path) -> None:
    dump = Dump(awkward_file.parents[3])
    assert dump.problems == ()
    records = list(dump.tensors())
    assert len(records) == len(rows_of(awkward_file))
