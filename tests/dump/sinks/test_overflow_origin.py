"""The op that NaN and Inf are attributed to; unfilled memory, masks and constants are no fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.dumping import dumping
from tests.adapters.torch.trainings import TRAININGS
from tests.dump.sinks.overflowing import INF, NAN, entries_in, told, watch
from torch import nn


@pytest.fixture
def memory_starts_as_nan() -> Iterator[None]:
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)


# ----------------------------------------------------------------- where it comes from


def test_each_carrier_names_its_own_producer(tmp_path: Path, matcher: str) -> None:
    x = torch.tensor([-1.0])
    big = torch.tensor([3e38])

    def body() -> None:
        bad = x.sqrt()
        worse = big * 10
        (bad + 1, worse + 1, worse.view(1, 1).t() * 2, bad + worse)

    for entries in watch(tmp_path, body, steps=3).values():
        assert told(entries) == [
            ("Default/sqrt-op0", "producer", None),
            ("Default/mul-op0", "producer", None),
            ("Default/add-op0", "carrier", "Default/sqrt-op0"),
            ("Default/add-op1", "carrier", "Default/mul-op0"),
            ("Default/view-op0", "carrier", "Default/mul-op0"),
            ("Default/t-op0", "carrier", "Default/mul-op0"),
            ("Default/mul-op1", "carrier", "Default/mul-op0"),
            ("Default/add-op2", "carrier", "Default/sqrt-op0"),
        ]


def test_the_producer_of_the_inf_is_the_origin_of_the_nan(tmp_path: Path, matcher: str) -> None:
    x = torch.tensor([100.0])

    def body() -> None:
        e = x.exp()
        e - e

    for entries in watch(tmp_path, body, steps=2).values():
        assert told(entries) == [
            ("Default/exp-op0", "producer", None),
            ("Default/sub-op0", "carrier", "Default/exp-op0"),
        ]
        assert entries[0]["outputs"][0]["positive_inf_count"] == 1
        assert entries[1]["outputs"][0]["nan_count"] == 1


def test_a_view_made_before_the_memory_became_nan_leads_to_the_op_that_wrote_the_nan(
    tmp_path: Path, matcher: str
) -> None:
    x = torch.tensor([[4.0, -4.0], [1.0, 1.0]])

    def body() -> None:
        y = x.clone()
        part, turned = y[0, 1:], y.t()
        y.sqrt_()
        (part * 2, turned * 3)

    for entries in watch(tmp_path, body, steps=3).values():
        assert told(entries) == [
            ("Default/sqrt_-op0", "producer", None),
            ("Default/mul-op0", "carrier", "Default/sqrt_-op0"),
            ("Default/mul-op1", "carrier", "Default/sqrt_-op0"),
        ]


def test_finite_numbers_written_over_bad_ones_end_the_story(tmp_path: Path, matcher: str) -> None:
    x = torch.tensor([-1.0, 1.0])

    def body() -> None:
        y = x.sqrt()
        y.nan_to_num_()
        y + 1

    for entries in watch(tmp_path, body, steps=3).values():
        assert told(entries) == [
            ("Default/sqrt-op0", "producer", None),
            ("Default/nan_to_num_-op0", "carrier", "Default/sqrt-op0"),
        ]


def test_weights_made_nan_in_one_step_name_its_op_in_the_next(tmp_path: Path, matcher: str) -> None:
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with dumping(tmp_path, debug_mode="overflow", overflow_number=0):
        for step in range(5):
            optimizer.zero_grad()
            size = net(torch.ones(2, 3)).mean().abs() * (-1 if step == 1 else 1)
            size.sqrt().backward()
            optimizer.step()
            if step == 3:
                with torch.no_grad():
                    for parameter in net.parameters():
                        parameter.fill_(1.0)
    found = entries_in(tmp_path)
    assert list(found) == [1, 2, 3, 4]
    assert told(found[1][:1]) == [("Default/sqrt-op0", "producer", None)]
    assert {entry["from"] for entry in found[1][1:]} == {"Default/sqrt-op0"}
    for step in (2, 3, 4):
        assert found[step][0]["op"] in ("weight", "bias")
        assert {(entry["role"], entry["from"], entry["from_step"]) for entry in found[step]} == {
            ("carrier", "Default/sqrt-op0", 1)
        }
    # The op that overwrites the non-finite weights with ones does not read them.
    assert [entry["op"] for entry in found[4]] == ["weight", "bias"]


def test_nan_written_by_numpy_is_named_with_the_line_that_reads_it(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    buffer = np.ones(3, np.float32)
    shared = torch.from_numpy(buffer)

    def body() -> None:
        buffer[0] = 1
        shared + 1
        buffer[0] = NAN
        shared * 2

    for entries in watch(tmp_path, body, steps=3).values():
        assert told(entries) == [("Default/mul-op0", "carrier", "shared")]
    line = body.__code__.co_firstlineno + 4
    assert (
        "code that is not an op wrote NaN or Inf into memory in step 0, forward, first used at "
        f"{Path(__file__).name}:{line} `shared * 2` (shared)."
    ) in capfd.readouterr().err


# ------------------------------------------------------------------- what is not a fault


def test_memory_that_was_only_allocated_is_not_reported(
    tmp_path: Path, matcher: str, memory_starts_as_nan: None, capfd: pytest.CaptureFixture[str]
) -> None:
    x = torch.ones(2, 3)

    def body() -> None:
        room = torch.empty(2, 3)
        assert room.isnan().all()
        room.copy_(x)
        torch.add(x, 1, out=torch.empty(2, 3))
        rows = torch.empty(2, 3)
        for row, value in zip(rows, x, strict=True):
            row.copy_(value)
            rows.t()
            rows[1].view(-1)
        rows.sum()
        grown = torch.ones(1)
        grown.resize_(5)
        grown[1:] = 0
        torch.empty_like(x).fill_(2).mean()
        torch.empty(0).sum()

    watch(tmp_path, body, steps=3)
    err = capfd.readouterr().err
    reported = [line for line in err.splitlines() if "isnan" not in line]
    assert reported == ["sonde: every value of the observed steps was finite"]


def test_a_nan_stored_in_a_part_of_such_memory_is_followed_through_it(
    tmp_path: Path, matcher: str, memory_starts_as_nan: None
) -> None:
    x = torch.tensor([-1.0, 1.0])

    def body() -> None:
        rows = torch.empty(2, 2)
        rows[0] = x.sqrt()
        rows[1] = 1
        rows.sum()

    for entries in watch(tmp_path, body, steps=3).values():
        assert told(entries[:1]) == [("Default/sqrt-op0", "producer", None)]
        assert told(entries[-1:]) == [("Default/sum-op0", "carrier", "Default/sqrt-op0")]
        assert {entry["from"] for entry in entries[1:]} == {"Default/sqrt-op0"}


def test_an_op_that_computes_with_unfilled_memory_is_marked(
    tmp_path: Path, matcher: str, memory_starts_as_nan: None
) -> None:
    (entries,) = watch(tmp_path, lambda: torch.empty(3) + 1).values()
    assert told(entries) == [("Default/add-op0", "producer", None)]
    assert entries[0]["inputs"][0] == {
        "slot": 0,
        "dtype": "float32",
        "shape": [3],
        "nan_count": 0,
        "positive_inf_count": 0,
        "negative_inf_count": 0,
        "uninitialised": True,
    }


@pytest.mark.parametrize("name", [name for name in TRAININGS if name != "a_grad_scaler"])
def test_healthy_trainings_have_nothing_to_report(
    name: str,
    tmp_path: Path,
    memory_starts_as_nan: None,
    capfd: pytest.CaptureFixture[str],
) -> None:
    torch.manual_seed(0)
    with dumping(tmp_path, debug_mode="overflow"):
        TRAININGS[name]()
    assert entries_in(tmp_path) == {}
    last = capfd.readouterr().err.splitlines()[-1]
    if name == "tensor_subclasses":  # Sonde must not run their code, which alone has the values.
        assert last.startswith("sonde: nothing is known about NaN and Inf in the whole run: values")
        assert last.endswith("every observed value was finite [partly-observed]")
    elif name == "functional_transforms":  # It updates its weights itself.
        assert last == "sonde: every value that was observed was finite; no step ended"
    else:
        assert last == "sonde: every value of the observed steps was finite"


def test_the_workspace_of_a_loss_is_not_taken_for_its_value(tmp_path: Path, matcher: str) -> None:
    scores = torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    scores.requires_grad_()

    def body() -> None:
        lengths = (torch.tensor([6, 5]), torch.tensor([2, 3]))
        nn.functional.ctc_loss(scores, torch.tensor([[1, 2, 0], [1, 3, 2]]), *lengths).backward()

    assert watch(tmp_path, body, steps=3) == {}


# -------------------------------------------------------------- infinities put on purpose


def test_a_mask_is_recorded_but_not_reported_as_a_fault(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    scores = torch.randn(3, 3)
    above = torch.ones(3, 3).triu(1).bool()

    def body() -> None:
        scores.masked_fill(above, -INF).softmax(-1).sum()

    for entries in watch(tmp_path, body, steps=3).values():
        assert told(entries) == [
            ("Default/masked_fill-op0", "producer", None),
            ("Default/_softmax-op0", "carrier", "Default/masked_fill-op0"),
        ]
        assert entries[0]["by_argument"] == "value=-inf"
        assert "by_argument" not in entries[1]
    line = body.__code__.co_firstlineno + 1
    assert capfd.readouterr().err == (
        "sonde: no op made NaN or Inf by mistake: those found reached neither the loss nor an "
        f"update of weights; first by Default/masked_fill-op0 (value=-inf) at {__file__}:{line}: "
        "scores.masked_fill(above, -INF).softmax(-1).sum()\n"
    )


def test_masks_take_at_most_half_of_the_ops_and_a_real_nan_is_still_found(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    scores = torch.randn(3, 3)
    above = torch.ones(3, 3).triu(1).bool()
    roots = iter([1.0] * 9 + [-1.0])

    def body() -> None:
        scores.masked_fill(above, -INF).softmax(-1)
        torch.tensor([next(roots)]).sqrt()

    found = watch(tmp_path, body, steps=10, most=3)
    assert list(found) == [9]
    assert told(found[9]) == [
        ("Default/masked_fill-op0", "producer", None),
        ("Default/sqrt-op0", "producer", None),
    ]
    # The tensors of a line that was no fault before are not written.
    saved = {file.name.split(".")[0] for file in tmp_path.rglob("*.npy")}
    assert saved == {"sqrt"}
    said = capfd.readouterr().err
    assert "in step 9, forward, at " in said
    assert "(sqrt-op0)" in said


@pytest.mark.parametrize(
    ("use", "is_fault"),
    [
        (lambda masked, x: masked.softmax(-1), True),
        (lambda masked, x: masked * 0, True),
        (lambda masked, x: masked.sum().backward(), True),  # the loss is infinite
        (lambda masked, x: (masked * x).sum().backward(), True),
        (lambda masked, x: (masked.exp() * x).sum().backward(), False),
    ],
)
def test_a_mask_that_reaches_the_loss_or_becomes_nan_is_the_first_producer(
    use: Callable[[torch.Tensor, torch.Tensor], Any],
    is_fault: bool,
    tmp_path: Path,
    matcher: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    x = torch.ones(2, 2, requires_grad=True)
    everything = torch.ones(2, 2).bool()
    watch(tmp_path, lambda: use((x * 1).masked_fill(everything, -INF), x))
    err = capfd.readouterr().err
    if is_fault:
        assert " in step 0, forward, at " in err
        assert "(masked_fill-op0, value=-inf)" in err
    else:
        assert "no op made NaN or Inf by mistake" in err


@pytest.mark.parametrize("value", [INF, -INF])
def test_an_infinite_constant_is_neither_recorded_nor_reported_as_a_fault(
    value: float, tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    best = torch.tensor(value)
    x = torch.ones(3)
    found = watch(tmp_path, lambda: torch.where(x > best, x, best).clamp(-1, 1), steps=2)
    assert found == {}
    assert not list(tmp_path.rglob("*.npy"))
    assert "by mistake" in capfd.readouterr().err
