"""``op_debug_mode: 3``: the ops that are dumped, the producer that is named, and the limits."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.adapters.torch.dumping import arrays, dumping
from tests.adapters.torch.trainings import TRAININGS
from tests.dump.sinks.overflowing import INF, NAN, entries_in, told, watch

import sonde
from sonde.core.running_training import first_bad_op

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


@pytest.mark.document(
    111,
    says="`op_debug_mode` 3: only save overflow operators",
    how="inputs and outputs of the ops with NaN or Inf; `overflow.json` of the step tells who made "
    "and who passed them on",
)
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


@pytest.mark.document(
    141,
    says="`overflow_number`: the number of data to overflow dump, 0 means all",
    how="key `overflow_number`, with `op_debug_mode` 3",
)
@pytest.mark.parametrize("most", [1, 2, 5])
def test_at_most_overflow_number_ops_are_dumped_and_the_first_is_still_named(
    most: int, tmp_path: Path, matcher: str, capfd: pytest.CaptureFixture[str]
) -> None:
    x = torch.tensor([0.0, 1.0])
    found = watch(tmp_path, lambda: x.log().add(1).mul(2), steps=3, most=most)
    entries = [(step, entry["op"]) for step, entries in found.items() for entry in entries]
    ops = ["Default/log-op0", "Default/add-op0", "Default/mul-op0"]
    assert entries == [(step, op) for step in range(3) for op in ops][:most]
    assert len(arrays(tmp_path)) == 2 * most
    said = capfd.readouterr().err
    assert "sonde: log made " in said
    assert "in step 0, forward, at test_overflow.py:" in said
    assert "(log-op0): " in said


# ------------------------------------------------------------------------ kinds of tensors


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e5m2, torch.float8_e4m3fn]
)
def test_every_floating_type_is_checked(dtype: torch.dtype, tmp_path: Path, matcher: str) -> None:
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
    said = capfd.readouterr().err
    assert " in step 1, forward, at " in said
    assert "(log-op0): " in said


def test_a_report_of_a_bad_loss_names_the_op_at_once(tmp_path: Path, matcher: str) -> None:
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
    pytest.importorskip("sonde.adapters.torch.eager._match")
    found = []
    for choice in ("native", "python"):
        monkeypatch.setenv("SONDE_MATCHER", choice)
        torch.manual_seed(0)
        with dumping(tmp_path / choice, debug_mode="overflow"):
            TRAININGS[name]()
        found.append((entries_in(tmp_path / choice), sorted(arrays(tmp_path / choice))))
    assert found[0] == found[1]
