"""Statistics from the native fast path, from the slow path, and computed with numpy are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.csv_rows import ALL, Row, assert_right, statistics_of
from tests.adapters.torch.dumping import arrays, dump_of, dumping
from tests.adapters.torch.fitting import batch, fit, mlp
from tests.adapters.torch.trainings import TRAININGS

import sonde
from sonde import kernels
from sonde.core.keys import Io
from sonde.core.selection import Selection
from sonde.dump.reader import Dump

# Some of their tensors have no statistics, and so no row.
WITH_GAPS = {"complex_numbers", "sparse_gradients", "odd_tensors", "tensor_subclasses"}
SOME = (
    "a_cnn_with_batch_norm_and_dropout",
    "an_rnn",
    "a_grad_scaler",
    "foreach_adam",
    "checkpointing_with_reentry",
    "odd_tensors",
    "exceptions_caught_by_the_program",
    "in_place_and_views",
)


@pytest.fixture(autouse=True)
def memory_starts_as_nan() -> Iterator[None]:
    """Makes unfilled memory the same in every run, with the worst possible values."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)


def statistics(path: Path, train: Callable[[], Any], **options: Any) -> dict[int, list[Row]]:
    dump_of(path, train, saved_data="statistic", statistic_categories=ALL, **options)
    return statistics_of(path)


# ------------------------------------------------------------------- every training


@pytest.mark.parametrize("name", TRAININGS)
def test_every_row_is_what_numpy_finds_in_the_tensor_dumped_beside_it(
    name: str, tmp_path: Path
) -> None:
    short = statistics(tmp_path / "short", TRAININGS[name])
    dump_of(tmp_path / "full", TRAININGS[name], saved_data="full", statistic_categories=ALL)
    long = statistics_of(tmp_path / "full")
    assert short == long
    values = arrays(tmp_path / "full")
    seen = set()
    for step, rows in long.items():
        for row in rows:
            if not row.dtype.startswith("Q"):  # the file of a quantized tensor has its integers
                assert_right(row, values[(step, *row.place)])
            seen.add((step, *row.place))
    missing = {key: values[key].dtype for key in values if key not in seen}
    assert not missing or name in WITH_GAPS


@pytest.mark.parametrize("name", [name for name in TRAININGS if name not in WITH_GAPS])
def test_rows_are_in_execution_order(name: str, tmp_path: Path) -> None:
    found = statistics(tmp_path, TRAININGS[name])
    dump = Dump(tmp_path)
    for graph in dump.graphs():
        places = [
            (node.name, io, slot)
            for node in graph
            for io, count in (("input", len(node.inputs)), ("output", len(node.outputs)))
            for slot in range(count)
        ]
        for step in dump.steps(graph_id=graph.id):
            assert [row.place for row in found[step]] == places


@pytest.mark.parametrize("name", SOME)
def test_the_matcher_without_a_compiler_writes_the_same_rows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = statistics(tmp_path / "native", TRAININGS[name])
    monkeypatch.setenv("SONDE_MATCHER", "python")
    assert statistics(tmp_path / "python", TRAININGS[name]) == native


@pytest.mark.parametrize("name", SOME)
def test_the_kernel_without_a_compiler_writes_the_same_rows(name: str, tmp_path: Path) -> None:
    native = statistics(tmp_path / "native", TRAININGS[name])
    path = kernels.current_path()
    kernels.use_path("twin")
    try:
        twin = statistics(tmp_path / "twin", TRAININGS[name])
    finally:
        kernels.use_path(path)
    sums = ("avg", "l2norm", "std", "abs mean")
    assert native.keys() == twin.keys()
    for step in native:
        for one, other in zip(native[step], twin[step], strict=True):
            assert one.place == other.place
            for category in ALL:
                if category in sums:
                    # The average of numbers that cancel is as exact as their sizes allow.
                    size = one.number("abs mean") if category == "avg" else 0
                    assert one.number(category) == pytest.approx(
                        other.number(category), rel=1e-12, abs=1e-12 * size, nan_ok=True
                    )
                else:
                    assert one.text(category) == other.text(category)


# ------------------------------------------------------------------- few ops, by hand


def few(path: Path, body: Callable[[], None], *, ios: tuple[Io, ...] = ("input", "output")) -> Any:
    """Rows as (op, io, slot, min, max) of steps ended by hand."""
    selection = Selection(ios=frozenset(ios))
    with dumping(path, step_by="manual", saved_data="statistic", selection=selection):
        body()
    return {
        step: [(*row.place, row.number("min"), row.number("max")) for row in rows]
        for step, rows in statistics_of(path).items()
    }


def test_rows_of_an_op_are_its_leaves_then_inputs_then_outputs(
    tmp_path: Path, matcher: str
) -> None:
    scale = torch.tensor([2.0, 3.0])
    x = torch.tensor([[1.0, -1.0]])

    def body() -> None:
        for _ in range(3):
            torch.add(x * scale, x)
            sonde.step()

    step = [
        ("x", "output", 0, -1.0, 1.0),
        ("scale", "output", 0, 2.0, 3.0),
        ("Default/mul-op0", "input", 0, -1.0, 1.0),
        ("Default/mul-op0", "input", 1, 2.0, 3.0),
        ("Default/mul-op0", "output", 0, -3.0, 2.0),
        ("Default/add-op0", "input", 0, -3.0, 2.0),
        ("Default/add-op0", "input", 1, -1.0, 1.0),
        ("Default/add-op0", "output", 0, -4.0, 3.0),
    ]
    assert few(tmp_path, body) == {0: step, 1: step, 2: step}


def test_inputs_of_an_op_that_writes_are_from_before_it(tmp_path: Path, matcher: str) -> None:
    x = torch.tensor([1.0, 2.0])

    def body() -> None:
        for _ in range(3):
            y = x + 0
            view = y[:1]
            y.mul_(10)
            view.add_(1)
            y.sum()
            sonde.step()

    for step in few(tmp_path, body).values():
        assert step[-8:] == [
            ("Default/slice-op0", "input", 0, 1.0, 2.0),
            ("Default/slice-op0", "output", 0, 1.0, 1.0),
            ("Default/mul_-op0", "input", 0, 1.0, 2.0),
            ("Default/mul_-op0", "output", 0, 10.0, 20.0),
            ("Default/add_-op0", "input", 0, 10.0, 10.0),
            ("Default/add_-op0", "output", 0, 11.0, 11.0),
            ("Default/sum-op0", "input", 0, 11.0, 20.0),
            ("Default/sum-op0", "output", 0, 31.0, 31.0),
        ]


def test_shapes_may_change_from_step_to_step(tmp_path: Path, matcher: str) -> None:
    def body() -> None:
        for size in (3, 5, 1, 5, 0, 2):
            x = torch.arange(1.0, size + 1)
            y = x.expand(2, size).t().reshape(-1)
            (y * 2).view(-1, 2).sum(0)
            sonde.step()

    found = few(tmp_path, body)
    with dumping(tmp_path / "full", step_by="manual", saved_data="full"):
        body()
    values = arrays(tmp_path / "full")
    assert sum(map(len, found.values())) == len(values)
    assert len({len(rows) for rows in found.values()}) == 2  # one element needs no copy
    for step, rows in found.items():
        for op, io, slot, low, high in rows:
            array = values[step, op, io, slot]
            if array.size:
                assert (low, high) == (array.min(), array.max())
            else:
                assert np.isnan([low, high]).all()


@pytest.mark.parametrize("ios", [("input", "output"), ("output",), ("input",)])
def test_memory_that_numpy_writes_to_is_read_anew(
    tmp_path: Path, matcher: str, ios: tuple[Io, ...]
) -> None:
    """Also where the op only rearranges it, and also memory of an op that was exposed later."""
    buffer = np.ones((2, 3), np.float32)
    shared = torch.from_numpy(buffer)

    def body() -> None:
        for number in range(1, 5):
            buffer[0, 0] = 1
            y = shared * 2
            shared.view(-1)
            buffer[0, 0] = 100 * number
            shared.view(-1)
            shared.t()
            exposed = y.numpy()
            exposed[0, 0] = 1000 * number
            y.view(-1)
            y.t()
            sonde.step()

    for step, rows in few(tmp_path, body, ios=ios).items():
        number = step + 1
        highs = {(op, io): high for op, io, _, _, high in rows}
        for io in ios:
            assert highs["Default/view-op0", io] == 1
            assert highs["Default/view-op1", io] == 100 * number
            assert highs["Default/t-op0", io] == 100 * number
            assert highs["Default/view-op2", io] == 1000 * number
            assert highs["Default/t-op1", io] == 1000 * number


def test_a_leaf_met_by_an_op_that_raises_has_one_row(tmp_path: Path, matcher: str) -> None:
    x = torch.ones(2, 3)
    other = torch.ones(2, 2)

    def body() -> None:
        for fails in (True, True, False, True, True):
            with pytest.raises(RuntimeError) if fails else torch.no_grad():
                torch.mm(x.t() if not fails else x, other)
            torch.mm(x.t(), other)
            sonde.step()

    for rows in few(tmp_path, body).values():
        assert [row[0] for row in rows].count("x") == 1
        assert [row[0] for row in rows].count("other") == 1


def test_a_known_op_that_raises_this_time_leaves_no_row(tmp_path: Path, matcher: str) -> None:
    table = torch.arange(6.0)

    def body() -> None:
        for number in (0, 5, 9, 2):
            index = torch.tensor([number])
            try:
                table[index]
            except IndexError:
                assert number == 9
            table + 1
            sonde.step()

    found = few(tmp_path, body)
    ops = {step: [row[0] for row in rows] for step, rows in found.items()}
    for step in (0, 1, 3):
        assert ops[step].count("Default/index-op0") == 3
        assert ops[step].count("table") == 1
    assert "Default/index-op0" not in ops[2]
    assert ops[2].count("table") == 1
    assert ops[2][-2:] == ["Default/add-op0", "Default/add-op0"]


# --------------------------------------------------------------- nothing is read twice


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Every call of a kernel that reads a tensor."""
    calls: list[tuple[Any, ...]] = []
    for name in (
        "outline_into",
        "outline_strided_into",
        "summarize_into",
        "summarize_strided_into",
        "non_finite",
        "non_finite_strided",
    ):
        original = getattr(kernels, name)

        def counted(*arguments: Any, original: Any = original, name: str = name) -> Any:
            calls.append((name, *arguments))
            return original(*arguments)

        monkeypatch.setattr(kernels, name, counted)
    return calls


@pytest.mark.parametrize("categories", [("max", "min", "l2norm"), ALL])
def test_a_tensor_is_read_once_however_often_it_is_used_or_rearranged(
    tmp_path: Path, matcher: str, reads: list[Any], categories: tuple[str, ...]
) -> None:
    x = torch.randn(4, 6)
    per_step = []
    with dumping(
        tmp_path, step_by="manual", saved_data="statistic", statistic_categories=categories
    ):
        for _ in range(3):
            y = x * x  # x, y
            turned = y.t().unsqueeze(0).view(1, 6, 4).permute(2, 1, 0)
            z = y + y  # z
            torch.sub(z, y)  # the difference
            torch.sub(turned.squeeze(2), z)  # the difference
            z.add_(1)  # z, once more
            z.view(-1).detach()
            sonde.step()
            per_step.append(len(reads))
            reads.clear()
    assert per_step == [6, 6, 6]
    (tail,) = {len(rows) for rows in statistics_of(tmp_path).values()}
    assert tail == 29


def test_the_overflow_watch_reads_a_tensor_once(
    tmp_path: Path, matcher: str, reads: list[Any]
) -> None:
    x = torch.randn(40, 12)  # Smaller tensors are read without a kernel.
    per_step = []
    with dumping(tmp_path, step_by="manual", debug_mode="overflow"):
        for _ in range(3):
            y = x * x
            torch.sub(y.t().unsqueeze(0).squeeze(0).t(), y)
            y.add_(1).view(-1)
            sonde.step()
            per_step.append(len(reads))
            reads.clear()
    assert per_step == [4, 4, 4]


def test_no_copy_is_made_of_a_strided_tensor(
    tmp_path: Path, matcher: str, reads: list[Any]
) -> None:
    x = torch.randn(8, 8)
    with dumping(tmp_path, step_by="manual", saved_data="statistic"):
        for _ in range(2):
            x[::2, 1::3].relu()
            sonde.step()
    strided = [call for call in reads if call[0] == "summarize_strided_into"]
    # Every second row, and of those every third column: each is read once, where it lies.
    start = x.data_ptr()
    assert [(call[2] - start, tuple(call[4]), tuple(call[5])) for call in strided] == [
        (0, (4, 8), (16, 1)),
        (4, (4, 3), (16, 3)),
    ] * 2


def test_a_training_step_reads_each_value_once(
    tmp_path: Path, matcher: str, reads: list[Any]
) -> None:
    """Weights in transposed views, outputs autograd keeps for backward: all known already."""
    per_step = []

    def train() -> None:
        net = mlp()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(4):
            reads.clear()
            fit(net, optimizer, batch, steps=1)
            per_step.append(len(reads))

    dump_of(tmp_path, train, saved_data="statistic")
    new = {
        row.place
        for row in statistics_of(tmp_path)[2]
        if row.io == "output" and row.op_type not in {"t", "view", "detach"}
    }
    # One for each tensor that an op makes or changes, and for each that comes from outside.
    assert per_step[2] == per_step[3] == len(new)
