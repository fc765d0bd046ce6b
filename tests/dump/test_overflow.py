"""``op_debug_mode: 3``: what is dumped, who is named, and what is left alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.dumping import arrays, dumping
from tests.adapters.trainings import TRAININGS
from torch import nn

import sonde
from sonde.core.origin import first_bad_op

pytestmark = pytest.mark.filterwarnings("ignore")

INF = math.inf
NAN = math.nan


@pytest.fixture
def memory_starts_as_nan() -> Iterator[None]:
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)


Entries = dict[int, list[dict[str, Any]]]


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def entries_in(path: Path) -> Entries:
    files = {int(file.parent.name): file for file in path.rglob("overflow.json")}
    return {
        step: json.loads(files[step].read_text(), parse_constant=refuse) for step in sorted(files)
    }


def watch(path: Path, body: Callable[[], Any], *, steps: int = 1, most: int = 0) -> Entries:
    """``overflow.json`` of each step; ``body`` is one step."""
    with dumping(path, step_by="manual", debug_mode="overflow", overflow_number=most):
        for _ in range(steps):
            body()
            sonde.step()
    return entries_in(path)


def told(entries: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    return [(entry["op"], entry["role"], entry["from"]) for entry in entries]


# ---------------------------------------------------------------------------- the file


def test_an_entry_has_what_is_promised_and_is_valid_json(tmp_path: Path) -> None:
    x = torch.tensor([1.0, -1.0, 0.0])

    def body() -> None:
        torch.log(x).sum()

    (entries,) = watch(tmp_path, body).values()
    producer, carrier = entries
    assert list(producer) == ["op", "role", "phase", "source", "inputs", "outputs", "from"]
    line = body.__code__.co_firstlineno + 1
    assert producer | {"inputs": [], "outputs": []} == {
        "op": "Default/log-op0",
        "role": "producer",
        "phase": "forward",
        "source": {
            "file": __file__,
            "line": line,
            "function": "body",
            "code": "torch.log(x).sum()",
        },
        "inputs": [],
        "outputs": [],
        "from": None,
    }
    assert producer["inputs"] == [
        {
            "slot": 0,
            "dtype": "float32",
            "shape": [3],
            "nan_count": 0,
            "positive_inf_count": 0,
            "negative_inf_count": 0,
            "max": 1.0,
            "min": -1.0,
            "avg": 0.0,
            "l2norm": math.sqrt(2),
            "finite_max": 1.0,
            "finite_min": -1.0,
        }
    ]
    assert producer["outputs"] == [
        {
            "slot": 0,
            "dtype": "float32",
            "shape": [3],
            "nan_count": 1,
            "positive_inf_count": 0,
            "negative_inf_count": 1,
            "max": "NaN",
            "min": "NaN",
            "avg": "NaN",
            "l2norm": "NaN",
            "finite_max": 0.0,
            "finite_min": 0.0,
        }
    ]
    assert (carrier["op"], carrier["role"], carrier["from"]) == (
        "Default/sum-op0",
        "carrier",
        "Default/log-op0",
    )


def test_steps_without_such_values_leave_nothing(tmp_path: Path, matcher: str) -> None:
    x = torch.ones(3)
    numbers = iter([1.0, 0.0, 2.0, 0.0])
    found = watch(tmp_path, lambda: x / next(numbers), steps=4)
    assert list(found) == [1, 3]
    assert sorted(path.name for path in (tmp_path / "rank_0" / "Net" / "0").iterdir()) == ["1", "3"]


def test_inputs_and_outputs_of_the_ops_are_saved_and_of_no_others(
    tmp_path: Path, matcher: str
) -> None:
    x = torch.tensor([1.0, -4.0])

    def body() -> None:
        y = x * 2
        z = y.sqrt()
        (z + 1, y + 1)

    found = watch(tmp_path, body, steps=3)
    assert told(found[2]) == [
        ("Default/sqrt-op0", "producer", None),
        ("Default/add-op0", "carrier", "Default/sqrt-op0"),
    ]
    values = arrays(tmp_path)
    for step in range(3):
        saved = {key[1:]: array for key, array in values.items() if key[0] == step}
        assert set(saved) == {
            ("Default/sqrt-op0", "input", 0),
            ("Default/sqrt-op0", "output", 0),
            ("Default/add-op0", "input", 0),
            ("Default/add-op0", "output", 0),
        }
        np.testing.assert_array_equal(saved["Default/sqrt-op0", "input", 0], [2, -8])
        np.testing.assert_array_equal(
            saved["Default/add-op0", "output", 0], [np.float32(2) ** 0.5 + 1, NAN]
        )


def test_the_inputs_of_an_op_that_writes_are_from_before_it(tmp_path: Path, matcher: str) -> None:
    x = torch.tensor([[4.0, -4.0], [1.0, 1.0]])

    def body() -> None:
        y = x.clone()
        y.sqrt_()
        y[0].add_(1)
        y.sum()

    found = watch(tmp_path, body, steps=3)
    for step in range(3):
        first, second, third, *rest = found[step]
        assert told([first]) == [("Default/sqrt_-op0", "producer", None)]
        assert (first["inputs"][0]["min"], first["outputs"][0]["nan_count"]) == (-4.0, 1)
        assert [entry["op"] for entry in (second, third)] == [
            "Default/select-op0",
            "Default/add_-op0",
        ]
        assert third["inputs"][0]["finite_max"] == 2.0
        assert third["outputs"][0]["finite_max"] == 3.0
        assert {entry["from"] for entry in (second, third, *rest)} == {"Default/sqrt_-op0"}
    values = arrays(tmp_path)
    for step in range(3):
        before = values[step, "Default/sqrt_-op0", "input", 0]
        np.testing.assert_array_equal(before, x.numpy())
        after = values[step, "Default/sqrt_-op0", "output", 0]
        np.testing.assert_array_equal(after, [[2, NAN], [1, 1]])


@pytest.mark.parametrize("most", [1, 2, 5])
def test_so_many_ops_are_dumped_and_the_first_is_named_all_the_same(
    most: int, tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    x = torch.tensor([0.0, 1.0])
    found = watch(tmp_path, lambda: x.log().add(1).mul(2), steps=3, most=most)
    entries = [(step, entry["op"]) for step, entries in found.items() for entry in entries]
    ops = ["Default/log-op0", "Default/add-op0", "Default/mul-op0"]
    assert entries == [(step, op) for step in range(3) for op in ops][:most]
    assert len(arrays(tmp_path)) == 2 * most
    assert "made in step 0 by Default/log-op0 at" in capfd.readouterr().err


# ----------------------------------------------------------------- where it comes from


def test_carriers_know_their_own_producer_of_several(tmp_path: Path, matcher: str) -> None:
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


def test_a_view_taken_before_the_memory_was_spoiled_leads_to_the_op_that_spoiled_it(
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


def test_weights_spoiled_in_one_step_name_its_op_in_the_next(tmp_path: Path, matcher: str) -> None:
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
    # The ones that are written over the spoiled weights have seen them last.
    assert [entry["op"] for entry in found[4]] == [
        "weight",
        "Default/fill_-op0",
        "bias",
        "Default/fill_-op1",
    ]


def test_memory_that_numpy_spoils_is_named_with_the_line_that_reads_it(
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
        "the first non-finite values were put in step 0, by something that is not an op, into the "
        f"memory of shared, first used at {__file__}:{line}: shared * 2\n"
    ) in capfd.readouterr().err


# ------------------------------------------------------------------- what is not blamed


def test_memory_that_was_only_asked_for_is_not_reported(
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


def test_an_op_that_computes_with_unfilled_memory_is_told_so(
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
    assert capfd.readouterr().err.endswith("sonde: every value of the observed steps was finite\n")


def test_the_workspace_of_a_loss_is_not_taken_for_its_value(tmp_path: Path, matcher: str) -> None:
    scores = torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    scores.requires_grad_()

    def body() -> None:
        lengths = (torch.tensor([6, 5]), torch.tensor([2, 3]))
        nn.functional.ctc_loss(scores, torch.tensor([[1, 2, 0], [1, 3, 2]]), *lengths).backward()

    assert watch(tmp_path, body, steps=3) == {}


# -------------------------------------------------------------- infinities put on purpose


def test_a_mask_is_recorded_and_not_blamed(
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
        "sonde: no op made NaN or Inf by mistake; infinities were put in on purpose, and no NaN "
        f"came of them: first by Default/masked_fill-op0 (value=-inf) at {__file__}:{line}: "
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

    found = watch(tmp_path, body, steps=10, most=6)
    assert list(found) == [0, 1, 9]
    assert sum(map(len, found.values())) == 4
    assert told(found[9]) == [("Default/sqrt-op0", "producer", None)]
    assert "made in step 9 by Default/sqrt-op0 at" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("use", "is_harmed"),
    [
        (lambda masked, x: masked.softmax(-1), True),
        (lambda masked, x: masked * 0, True),
        (lambda masked, x: masked.sum().backward(), False),  # the gradient of a mask is zero
        (lambda masked, x: (masked * x).sum().backward(), True),
    ],
)
def test_a_mask_that_ends_in_nan_or_in_a_gradient_is_the_first_producer(
    use: Callable[[torch.Tensor, torch.Tensor], Any],
    is_harmed: bool,
    tmp_path: Path,
    matcher: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    x = torch.ones(2, 2, requires_grad=True)
    everything = torch.ones(2, 2).bool()
    watch(tmp_path, lambda: use((x * 1).masked_fill(everything, -INF), x))
    err = capfd.readouterr().err
    if is_harmed:
        assert "made in step 0 by Default/masked_fill-op0 (value=-inf) at" in err
    else:
        assert "no op made NaN or Inf by mistake" in err


@pytest.mark.parametrize("value", [INF, -INF])
def test_an_infinite_constant_is_recorded_and_not_blamed(
    value: float, tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    best = torch.tensor(value)
    x = torch.ones(3)
    found = watch(tmp_path, lambda: torch.where(x > best, x, best).clamp(-1, 1), steps=2)
    assert told(found[1][:1]) == [("best", "producer", None)]
    assert "by mistake" in capfd.readouterr().err


# ------------------------------------------------------------------------ kinds of tensors


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e5m2, torch.float8_e4m3fn]
)
def test_every_float_is_watched(dtype: torch.dtype, tmp_path: Path, matcher: str) -> None:
    x = torch.tensor([1.0, NAN])
    y = torch.ones(2, 2).to(dtype)

    def body() -> None:
        x.to(dtype)
        y.view(-1)

    for entries in watch(tmp_path, body, steps=2).values():
        assert told(entries) == [
            ("x", "producer", None),
            ("Default/_to_copy-op0", "carrier", "x"),
        ]
        assert entries[1]["outputs"][0]["nan_count"] == 1


def test_complex_numbers_are_watched(tmp_path: Path, matcher: str) -> None:
    x = torch.tensor([1 + 1j, complex(1, 0)])
    zero = torch.tensor([1 + 0j, 0j])

    for entries in watch(tmp_path, lambda: (x / zero) + 1, steps=2).values():
        assert told(entries) == [
            ("Default/div-op0", "producer", None),
            ("Default/add-op0", "carrier", "Default/div-op0"),
        ]
        output = entries[0]["outputs"][0]
        assert output["nan_count"] + output["positive_inf_count"] == 1


def test_integers_booleans_and_sparse_tensors_are_let_be(tmp_path: Path, matcher: str) -> None:
    def body() -> None:
        torch.arange(5).bool().logical_not()
        torch.eye(3).to_sparse() * 2
        torch.nested.nested_tensor([torch.ones(2), torch.ones(1)]) * 2

    assert watch(tmp_path, body, steps=3) == {}


# ---------------------------------------------------------------------- ends and messages


def test_a_step_that_is_never_finished_is_kept_if_something_went_wrong_in_it(
    tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ops on plain tensors after the last step belong to none, unless they are what went wrong."""
    x = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.1)

    def train() -> None:
        for step in range(3):
            loss = (x - step).log().sum()
            if loss.isnan():
                raise ValueError("the loss is nan")
            loss.backward()
            optimizer.step()

    with (
        pytest.raises(ValueError, match="the loss is nan"),
        dumping(tmp_path, debug_mode="overflow", overflow_number=0),
    ):
        train()
    found = entries_in(tmp_path)
    assert told(found[1][:1]) == [("Default/log-op0", "producer", None)]
    assert "made in step 1 by Default/log-op0" in capfd.readouterr().err


def test_whoever_reports_a_bad_loss_is_told_the_op_at_once(tmp_path: Path, matcher: str) -> None:
    x = torch.tensor([1.0])
    with dumping(tmp_path, step_by="manual", debug_mode="overflow"):
        x.log()
        assert first_bad_op() is None
        sonde.step()
        (x - 1).log()
        line = f" at {__file__}:"
        assert (first_bad_op() or "").startswith(f"Default/log-op0{line}")
        sonde.step()
        assert (first_bad_op() or "").startswith(f"Default/log-op0{line}")
        x.masked_fill(x > 0, INF)
        assert (first_bad_op() or "").startswith("Default/log-op0")
        sonde.step()
        (x - 2).sqrt()
        assert (first_bad_op() or "").startswith(f"Default/sqrt-op0{line}")
        sonde.step()
    assert first_bad_op() is None


@pytest.mark.parametrize("name", ["a_grad_scaler", "in_place_and_views", "an_mlp"])
def test_both_matchers_write_the_same_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sonde.adapters.torch._match")
    found = []
    for choice in ("native", "python"):
        monkeypatch.setenv("SONDE_MATCHER", choice)
        torch.manual_seed(0)
        with dumping(tmp_path / choice, debug_mode="overflow"):
            TRAININGS[name]()
        found.append((entries_in(tmp_path / choice), sorted(arrays(tmp_path / choice))))
    assert found[0] == found[1]
