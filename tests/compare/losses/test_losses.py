"""Two loss curves: where they first differ, the likely cause, and the files they are read from."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.compare.weights.weights import DUMPS
from torch.utils.tensorboard import SummaryWriter

import sonde
from sonde.compare.losses.compare import LossComparison, LossSeries, compare_losses
from sonde.compare.losses.findings import divergence, headline, non_finite, reasoning
from sonde.compare.losses.report_page import loss_page
from sonde.compare.losses.sources import read_losses
from sonde.compare.losses.text import LossFileError
from sonde.compare.runs.compare import compare
from sonde.core.errors import UsageError
from sonde.core.files.event_records import masked_crc32c
from sonde.dump.reader import Dump
from sonde.report.thinning import thinned

DECAY = [3.0 * math.exp(-k / 50) + 0.1 for k in range(200)]


def curve(values: list[float], first: int = 0, name: str = "x") -> LossSeries:
    return LossSeries(name, tuple(range(first, first + len(values))), tuple(values))


def compared(a: list[float], b: list[float], rtol: float = 1e-3) -> LossComparison:
    return compare_losses(curve(a), curve(b), rtol=rtol)


@pytest.mark.parametrize(
    ("b", "verdict", "first"),
    [
        (DECAY, "equal", None),
        ([value * 1.0005 for value in DECAY], "aligned", None),
        ([value * 1.01 for value in DECAY], "first-step", 0),
        ([DECAY[0], *(value * 1.01 for value in DECAY[1:])], "second-step", 1),
        ([*DECAY[:60], *(value * 1.01 for value in DECAY[60:])], "jump", 60),
        ([value * (1 + 1e-5 * k) for k, value in enumerate(DECAY)], "drift", 101),
        ([*DECAY[:60], math.nan, *DECAY[61:]], "jump", 60),
    ],
)
def test_a_comparison_distinguishes_forward_update_jump_and_drift(
    b: list[float], verdict: str, first: int | None
) -> None:
    found = compared(DECAY, b)
    assert found.verdict == verdict
    if verdict == "drift":
        assert found.first_out in (100, 101)
    else:
        assert found.first_out == first
    assert found.is_aligned == (first is None)


def test_a_divergence_is_a_finding_with_its_evidence() -> None:
    assert divergence(compared(DECAY, DECAY)) is None
    first = divergence(compared(DECAY, [value * 1.01 for value in DECAY]))
    assert first is not None
    assert (first.rule, first.severity, first.status) == ("first-step", "error", "established")
    assert first.evidence["step"] == 0
    assert first.evidence["a"] == DECAY[0]
    assert first.advice.startswith("The first step already differs")
    bad = non_finite(compared([1.0, 2.0], [1.0, float("nan")]))
    assert bad is not None
    assert (bad.rule, bad.status, bad.evidence) == (
        "non-finite",
        "established",
        {"a": None, "b": 1},
    )


@pytest.mark.document(
    78,
    says="a large error in the first iteration: a problem with the forward calculation of the "
    "network",
    how="`sonde loss` says so",
)
@pytest.mark.document(
    79,
    says="the second iteration starts with a large error: reverse gradient and weight update "
    "calculation",
    how="`sonde loss` says so",
)
def test_the_explanation_follows_the_reasoning_of_the_document() -> None:
    first = " ".join(reasoning(compared(DECAY, [value * 1.01 for value in DECAY])))
    assert "the forward pass does not compute the same" in first
    second = compared(DECAY, [DECAY[0], *(value * 1.01 for value in DECAY[1:])])
    assert "gradients of the first step and at the update" in " ".join(reasoning(second))
    assert headline(second).startswith("out of tolerance from step 1 on: 3.040596 against 3.071002")
    assert not any("not the very first" in line for line in reasoning(second))
    every_50 = LossSeries("x", (50, 100), (1.0, 2.0)), LossSeries("y", (50, 100), (1.1, 2.0))
    assert "steps 50, not the very first" in " ".join(reasoning(compare_losses(*every_50)))
    nan = compared([1.0, 2.0], [1.0, math.nan])
    assert "NaN or infinite in b from step 1 on" in reasoning(nan)[0]
    assert headline(compared(DECAY, DECAY)) == "equal in all 200 steps"


def test_nan_and_infinity_have_a_policy() -> None:
    nan, inf = math.nan, math.inf
    found = compared([nan, inf, -inf, nan, inf, 1.0, 0.0], [nan, inf, inf, 1.0, 1.0, inf, 0.0])
    assert found.errors.tolist() == [0, 0, inf, inf, inf, inf, 0]
    assert found.out.tolist() == [False, False, True, True, True, True, False]
    assert (found.first_bad_a, found.first_bad_b) == (0, 0)


numbers = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_a_comparison_is_symmetric_and_zero_on_equals(pairs: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    there, back = compared(a, b), compared(b, a)
    assert there.errors.tolist() == back.errors.tolist()
    assert there.out.tolist() == back.out.tolist()
    assert compared(a, a).verdict == "equal"
    with np.errstate(all="ignore"):
        for x, y, error in zip(a, b, there.errors, strict=True):
            if math.isfinite(x) and math.isfinite(y) and x != y:
                assert error == pytest.approx(abs(x - y) / max(abs(x), abs(y)), rel=1e-6)


def test_drift_is_the_slope_and_the_means_of_the_error() -> None:
    a = [1.0] * 301
    b = [1.0 / (1 - 1e-5 * k) for k in range(301)]
    drift = compared(a, b).drift
    assert drift.per_100_steps == pytest.approx(1e-3, rel=1e-9)
    assert drift.early == pytest.approx(1e-5 * np.mean(range(100)), rel=1e-9)
    assert drift.late == pytest.approx(1e-5 * np.mean(range(201, 301)), rel=1e-9)
    assert drift.bias == pytest.approx(1e-5 * 150, rel=1e-9)
    assert math.isnan(compared([1.0, 1.0], [1.0, 1.0]).drift.early)


def test_steps_are_compared_by_number_or_in_order() -> None:
    a, shifted = curve([1.0, 2.0, 3.0]), curve([1.0, 2.0, 3.0], first=1)
    found = compare_losses(a, shifted)
    assert (found.by, found.verdict) == ("order", "equal")
    assert "compared in order" in found.notes[0]
    sparse = LossSeries("y", (0, 2, 9), (1.0, 3.0, 7.0))
    by_step = compare_losses(curve([1.0, 2.0, 3.0, 4.0]), sparse)
    assert (by_step.by, by_step.steps, by_step.verdict) == ("step", (0, 2), "equal")
    with pytest.raises(UsageError, match="no step is in both"):
        compare_losses(curve([1.0], first=5), curve([1.0, 2.0]))
    assert compare_losses(curve([1.0], first=5), curve([1.0, 2.0]), by="order").is_aligned


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_curves_are_read_from_every_kind_of_text(tmp_path: Path) -> None:
    values = (0.5, 0.25, math.nan)
    for name, text in (
        ("a.csv", "step,loss,lr\n0,0.5,1\n1,0.25,1\n2,nan,1\n"),
        ("b.csv", "epoch;train_loss\n0;0.5\n1;0.25\n2;NaN\n"),
        ("c.csv", "0.5\n0.25\nnan\n"),
        ("d.tsv", "0\t0.5\n1\t0.25\n2\tnan\n"),
        ("e.json", '{"losses": [0.5, 0.25, "nan"], "lr": 0.1}'),
        ("f.json", "[[170.5, 0, 0.5], [171.5, 1, 0.25], [172.5, 2, NaN]]"),
        (
            "g.json",
            '{"log_history": [{"loss": 0.5, "step": 0}, {"loss": 0.25, "step": 1}, '
            '{"eval_loss": 3, "step": 1}, {"loss": NaN, "step": 2}]}',
        ),
        (
            "h.jsonl",
            '{"step": 0, "train": {"loss": 9}, "loss": 0.5}\n{"step": 1, "loss": 0.25}\n'
            'not json\n{"step": 2, "loss": NaN}\n',
        ),
        (
            "i.log",
            "epoch: 1 step: 0, loss is 0.5\nval loss: 7\nepoch: 1 step: 1, loss is 0.25\n"
            "epoch: 1 step: 2, loss is nan\n",
        ),
        ("j.txt", "[0/3] loss=5.0e-1\nstep 1 Loss: 0.25\rstep 2 loss tensor(nan)\n"),
    ):
        found = read_losses(written(tmp_path / name, text))
        assert found.steps == (0, 1, 2), name
        assert np.array_equal(found.values, values, equal_nan=True), name


def test_lines_without_a_readable_loss_are_reported(tmp_path: Path) -> None:
    table, lines = tmp_path / "a.csv", tmp_path / "a.jsonl"
    table.write_text("step,loss\n0,1\n1,abc\n2,\n3,2\n4,x\n")
    lines.write_text('{"loss": 1}\n{"loss": \n\n{"lr": 1}\n{"loss": 2}\n')
    first, second = read_losses(table), read_losses(lines)
    assert (first.steps, first.values) == ((0, 3), (1.0, 2.0))
    assert first.notes == ("a.csv: line 3 (and 1 more) has a loss that is not a number: left out",)
    assert second.values == (1.0, 2.0)
    assert second.notes == ("a.jsonl: line 2 is not JSON: left out",)


def test_columns_keys_and_patterns_can_be_chosen(tmp_path: Path) -> None:
    csv = written(tmp_path / "a.csv", "it,objective,loss\n3,1,9\n4,2,9\n")
    assert read_losses(csv, tag="objective").values == (1.0, 2.0)
    lines = written(tmp_path / "b.jsonl", '{"step": 1, "train": {"ce": 2}}\n')
    assert read_losses(lines, tag="train/ce").values == (2.0,)
    log = written(tmp_path / "c.log", "it 7: cost 0.5, x\nit 9: cost 0.25, x\n")
    found = read_losses(log, pattern=r"it (?P<step>\d+): cost (\S+)")
    assert (found.steps, found.values) == ((7, 9), (0.5, 0.25))
    assert read_losses(log, pattern=r"cost (?P<loss>\S+)").steps == (0, 1)
    for pattern, said in (("(", "not a regular expression"), ("cost", "has no group")):
        with pytest.raises(UsageError, match=said):
            read_losses(log, pattern=pattern)
    with pytest.raises(LossFileError, match="has no column 'x'; there are it, objective, loss"):
        read_losses(csv, tag="x")
    with pytest.raises(LossFileError, match="has no losses"):
        read_losses(log)
    with pytest.raises(LossFileError, match="does not exist"):
        read_losses(tmp_path / "nope.csv")


def test_a_log_of_blanks_costs_no_more_than_others(tmp_path: Path) -> None:
    line = "loss" + " " * 60_000 + "step" + " " * 5_000 + "\n" + "loss " * 12_000 + "\n"
    log = written(tmp_path / "a.log", line * 20 + "loss 1\n")
    assert read_losses(log).values == (1.0,)


def test_steps_that_begin_again_are_counted_through_and_repeated_ones_overwritten(
    tmp_path: Path,
) -> None:
    log = written(
        tmp_path / "a.log",
        "".join(f"epoch: {e} step: {s}, loss is {e}.{s}\n" for e in (1, 2) for s in (1, 2)),
    )
    found = read_losses(log)
    assert (found.steps, found.values) == ((0, 1, 2, 3), (1.1, 1.2, 2.1, 2.2))
    assert "start again" in found.notes[0]
    csv = written(tmp_path / "b.csv", "step,loss\n0,1\n1,2\n1,3\n2,4\n")
    resumed = read_losses(csv)
    assert (resumed.steps, resumed.values) == ((0, 1, 2), (1.0, 3.0, 4.0))
    assert "the last point of each is used" in resumed.notes[0]


def test_tensorboards_own_files_are_read_without_tensorboard(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path / "run")) as writer:
        for step in range(5):
            writer.add_scalar("train/loss", 1 / (step + 1), step)
            writer.add_scalar("val/loss", 7, step)
            writer.add_scalar("new", step, step, new_style=True)
            writer.add_histogram("h", np.arange(9.0), step)
    expected = tuple(float(np.float32(1 / (step + 1))) for step in range(5))
    found = read_losses(tmp_path / "run")
    assert (found.steps, found.values) == (tuple(range(5)), expected)
    assert read_losses(tmp_path, tag="new").values == (0, 1, 2, 3, 4)
    (file,) = (tmp_path / "run").iterdir()
    assert read_losses(file).values == expected
    data = file.read_bytes()
    file.write_bytes(data[:-5])  # a run that was killed while writing
    assert read_losses(file).values[:4] == expected[:4]
    file.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    with pytest.raises(LossFileError, match="byte 12: a record has a wrong checksum"):
        read_losses(file)
    file.write_bytes(data)
    with pytest.raises(LossFileError, match="has no scalar 'nope'; there are"):
        read_losses(file, tag="nope")


def test_the_checksum_is_crc32c() -> None:
    crc = 0xE3069283  # of "123456789", from the definition of CRC-32C
    expected = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc32c(b"123456789") == expected


@pytest.mark.parametrize("net", ["lenet_full", "nan_log"])
def test_the_losses_in_real_dumps_are_those_the_run_recorded(net: str) -> None:
    directory = DUMPS / net
    recorded = [
        float(value) for value in json.loads((directory / "losses.json").read_text())["losses"]
    ]
    found = read_losses(directory / "dump")
    assert found.steps
    for step, value in zip(found.steps, found.values, strict=True):
        assert value == pytest.approx(recorded[step], rel=0, abs=0, nan_ok=True)


def test_the_loss_in_a_dump_is_what_backward_begins_at(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for saved, start in (("tensor", None), ("statistic", None), ("full", torch.tensor(1.0))):
        settings = {
            "common_dump_settings": {
                "dump_mode": 0,
                "path": str(tmp_path / saved),
                "net_name": "Net",
                "iteration": "all",
                "saved_data": saved,
                "input_output": 0,
                "kernels": [],
                "support_device": [0],
            }
        }
        (tmp_path / "dump.json").write_text(json.dumps(settings))
        losses.clear()
        with sonde.capture(tmp_path / "dump.json"):
            for _ in range(3):
                optimizer.zero_grad()
                output = net(torch.ones(2, 4))
                loss = torch.nn.functional.cross_entropy(output, torch.tensor([0, 1]))
                (output.argmax(1) == 0).float().mean()  # a number that is not the loss
                loss.backward(start)  # given a gradient, torch runs no ones_like
                optimizer.step()
                losses.append(loss.item())
        assert read_losses(tmp_path / saved).values == tuple(losses)
        compared = compare(Dump(tmp_path / saved), Dump(tmp_path / saved))
        assert [pair.a for pair in compared.losses] == losses


def test_a_directory_of_several_runs_or_of_none_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with SummaryWriter(str(tmp_path / name)) as writer:
            writer.add_scalar("loss", 1, 0)
    with pytest.raises(LossFileError, match="contains 2 runs: a, b"):
        read_losses(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(LossFileError, match="neither event files nor a dump"):
        read_losses(tmp_path / "empty")


def test_the_page_has_the_curves_and_the_steps_with_the_largest_errors() -> None:
    b = [2 * x for x in DECAY * 20]
    b[17] = math.nan
    found = compare_losses(curve(DECAY * 20, name="<b>"), curve(b, name="y"))
    data = re.search(r'id="data"[^>]*>(.*?)</script>', loss_page(found))
    assert data is not None
    assert "<" not in data[1]
    shown = json.loads(data[1])
    assert shown["a"] == "<b>"
    assert shown["headline"].startswith("out of tolerance from step 0")
    assert shown["values_b"][17] == "NaN"
    assert shown["errors"][17] == "Infinity"
    assert len(shown["steps"]) == len(b) == 4000
    assert shown["table_title"] == "The 500 steps with the largest errors"
    assert [row["step"] for row in shown["table"] if row["relative_error"] == "Infinity"] == [17]


def test_thinning_out_keeps_the_extremes_and_the_gaps() -> None:
    y = np.zeros(10_000)
    y[1234], y[7777], y[5000] = 5, -5, math.nan
    kept = thinned(y, 1000)
    assert len(kept) < 2500
    assert {1234, 5000, 7777} <= set(kept)
    assert thinned(y, 10_000) == list(range(10_000))
