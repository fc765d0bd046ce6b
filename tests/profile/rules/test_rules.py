"""Rules on made-up evidence; real programs are in test_planted.py."""

import dataclasses
from collections.abc import Sequence

import pytest
import torch
from tests.profile.made import MACHINE, event, graph, line, node, trace

from sonde.core.finding import Finding
from sonde.core.graph import OpNode
from sonde.profile.analyse.split import PARTS
from sonde.profile.analyse.timings import time_steps
from sonde.profile.places import Places
from sonde.profile.record.object_tracking import SeenCall
from sonde.profile.record.private import Compilation
from sonde.profile.record.stopwatch import AS_IT_IS
from sonde.profile.rules import judge, operators
from sonde.profile.rules.collectives import find_exposed_collectives
from sonde.profile.rules.data import find_data_waits
from sonde.profile.rules.evidence import ProfileEvidence
from sonde.profile.rules.framework import (
    find_casts,
    find_layout_flips,
    find_python_time,
    find_recompilations,
    find_synchronisations,
)

PLACES = Places(lambda file: True)


def evidence(nodes: Sequence[OpNode], **more: object) -> ProfileEvidence:
    """Each op takes 100 us, one after the other, in a forward pass; 10 us lie between two."""
    events = [
        event(f"aten::{each.type}", 110_000 * index, 110_000 * index + 100_000)
        for index, each in enumerate(nodes)
    ]
    end = 110_000 * len(nodes) + 1000
    steps = [trace(events, end=end, backwards=[(end - 500, end)]) for _ in range(4)]
    made = graph(nodes)
    return ProfileEvidence(time_steps(steps, made), MACHINE, PLACES, made, **more)  # type: ignore[arg-type]


def gain(finding: Finding) -> float:
    value = finding.evidence["gain_seconds"]
    assert isinstance(value, float)
    return value


X = [("x", "float32", (64, 64))]


def test_a_read_value_includes_the_ops_that_only_it_needs() -> None:
    nodes = [
        node("mm", "mm", inputs=X, source=line(1)),
        node("abs", "abs", inputs=[("mm", "float32", (64, 64))], source=line(2)),
        node("mean", "mean", inputs=[("abs", "float32", (64, 64))], source=line(2)),
        node("_local_scalar_dense", "item", inputs=[("mean", "float32", ())], source=line(2)),
        node("relu", "relu", inputs=[("mm", "float32", (64, 64))], source=line(3)),
    ]
    found = find_synchronisations(evidence(nodes))
    assert [each.source for each in found] == [line(2)]
    assert gain(found[0]) == pytest.approx(3 * 110e-6, rel=0.01)  # abs, mean, item; not mm
    assert found[0].evidence["gain_how"] == "in the trace"


def test_reading_a_loss_once_is_no_finding() -> None:
    nodes = [
        *(node("mm", f"mm{i}", inputs=X) for i in range(30)),
        node("_local_scalar_dense", "item", inputs=[("mm29", "float32", ())], source=line(2)),
        node("ones_like", "seed", inputs=[("mm29", "float32", ())]),  # where backward begins
    ]
    assert find_synchronisations(evidence(nodes)) == []


def casts() -> list[OpNode]:
    return [
        node("mm", "mm", inputs=X, source=line(1)),
        node(
            "_to_copy",
            "up",
            inputs=[("mm", "float32", (64, 64))],
            outputs=[("float64", (64, 64))],
            source=line(2),
        ),
        node(
            "_to_copy",
            "down",
            inputs=[("up", "float64", (64, 64))],
            outputs=[("float32", (64, 64))],
            source=line(2),
        ),
    ]


@pytest.mark.document(
    209,
    says="too many conversion operators (TransData and Cast operators)",
    how="findings `needless-cast` and `layout-flip` of `sonde profile`, with their lines",
)
def test_casts_are_found_with_their_line_and_cost() -> None:
    found = find_casts(evidence(casts()))
    assert [(each.rule, each.source) for each in found] == [("needless-cast", line(2))]
    assert found[0].evidence["straight_there_and_back"] == 2
    assert gain(found[0]) == pytest.approx(220e-6, rel=0.01)


def test_the_message_about_casts_names_each_conversion_once() -> None:
    [found] = find_casts(evidence(casts()))
    assert found.message.startswith(
        "2 conversions a step (float32 to float64, float64 to float32) take "
    )
    [one] = find_casts(evidence(casts()[:2]))
    assert one.message.startswith("1 conversion a step (float32 to float64) takes ")


def test_under_autocast_only_casts_that_lead_straight_back_count() -> None:
    call = SeenCall(torch.nn.Linear(1, 1), (), is_autocast=True)
    assert len(find_casts(evidence(casts(), call=call))) == 1
    assert find_casts(evidence(casts()[:2], call=call)) == []


def test_integers_made_into_floats_are_no_needless_casts() -> None:
    nodes = [
        node("_to_copy", "c", inputs=[("x", "uint8", (64, 64))], outputs=[("float32", (64, 64))])
    ]
    assert find_casts(evidence(nodes)) == []


@pytest.mark.document(209)
def test_a_copy_that_the_next_copy_undoes_is_a_layout_flip() -> None:
    nodes = [
        node("clone", "there", inputs=X, source=line(5)),
        node("relu", "relu", inputs=[("there", "float32", (64, 64))], source=line(6)),
        node("permute", "view", inputs=[("relu", "float32", (64, 64))], source=line(6)),
        node("clone", "back", inputs=[("view", "float32", (64, 64))], source=line(7)),
    ]
    found = find_layout_flips(evidence(nodes))
    assert [each.rule for each in found] == ["layout-flip"]
    assert found[0].source in (line(5), line(7))


def test_copies_with_real_work_between_them_are_no_flips() -> None:
    nodes = [
        node("clone", "there", inputs=X, source=line(5)),
        node("mm", "mm", inputs=[("there", "float32", (64, 64))], source=line(6)),
        node("clone", "back", inputs=[("mm", "float32", (64, 64))], source=line(7)),
    ]
    assert find_layout_flips(evidence(nodes)) == []


def test_python_in_the_loop_is_found_by_its_line() -> None:
    nodes = [node("mm", "mm", inputs=X)]
    assert find_python_time(evidence(nodes)) == []
    found = find_python_time(evidence(nodes, rest_lines={line(8): 5e-4, line(9): 1e-4}))
    assert [(each.rule, each.source) for each in found] == [("python-time", line(8))]


@pytest.mark.document(
    210,
    says="dynamic shape scenario: continuous graph build may cause a long end-to-end training time",
    how="finding `recompilation` of `sonde profile`, with the line and the reason",
)
def test_recompilations_are_found_at_the_line_of_the_guard() -> None:
    reason = (
        "0/1: name == 'a'  # return x  # train.py:7 in f\nUser stack trace:\n"
        '  File "/home/me/train.py", line 7, in f\n    return x'
    )
    compiled = [Compilation("/home/me/train.py", 5, "f", 0.0, 1.0, reason)] * 3
    found = find_recompilations(evidence([node("mm", "mm")], compilations=compiled))
    assert (found[0].source.file, found[0].source.line) == ("/home/me/train.py", 7)  # type: ignore[union-attr]
    assert "f() 3 times in 4 steps" in found[0].message
    assert found[0].message.endswith("0/1: name == 'a'")
    assert found[0].evidence["gain_share"] == 1.0


@pytest.mark.document(
    211,
    says="AllReduce gradient synchronization time; AllReduce segmentation",
    how="`sonde profile --ranks N`: finding `exposed-collectives`; `--try buckets` tries other "
    "bucket sizes",
)
def test_exposed_collectives_are_bounded_by_what_backward_can_hide() -> None:
    nodes = [node("c10d_allreduce_", "r", inputs=X, source=line(4), scope="Default")]
    step = trace(
        [event("aten::mm", 50_000, 100_000), event("c10d::allreduce_", 200_000, 210_000)],
        end=1_000_000,
        backwards=[(50_000, 150_000)],
        collectives=[(200_000, 900_000)],
    )
    made = graph(nodes)
    seen = ProfileEvidence(
        time_steps([step] * 3, made), MACHINE, PLACES, made, collective_bytes=64 * 64 * 4.0
    )
    found = find_exposed_collectives(seen)
    assert (found[0].rule, found[0].source) == ("exposed-collectives", line(4))
    assert gain(found[0]) == pytest.approx(100e-6)
    assert "1 collective, 16 KiB each" in found[0].message
    assert "0 % of their time is hidden" in found[0].message


def waiting_steps(waited: int, busy: int) -> ProfileEvidence:
    """Steps that wait for data and compute for so many nanoseconds; no loader was seen."""
    end = waited + busy
    events = [
        event("enumerate(DataLoader)#_Iter.__next__", 0, waited, is_range=True),
        event("aten::mm", waited, end),
    ]
    steps = [trace(events, end=end, backwards=[(end - 10, end)]) for _ in range(4)]
    made = graph([node("mm", "mm", inputs=X)])
    timings = time_steps(steps, made)
    parts = {part: timings.part_seconds(part) for part in PARTS}
    return ProfileEvidence(timings, MACHINE, PLACES, made, shown_parts=parts)


@pytest.mark.document(213)
def test_a_tenth_of_a_step_that_waits_for_data_is_always_a_finding() -> None:
    [found] = find_data_waits(waiting_steps(50_000, 50_000))  # far below 0.2 ms
    assert found.rule == "data-wait"
    assert found.message == "50 % of a step is spent waiting for data"
    assert (gain(found), found.evidence["gain_share"]) == (pytest.approx(50e-6), 0.5)
    assert len(find_data_waits(waiting_steps(10_000, 89_000))) == 1
    assert find_data_waits(waiting_steps(9_000, 92_000)) == []


def test_a_wait_that_only_the_mean_shows_is_a_finding() -> None:
    seen = waiting_steps(0, 100_000)
    parts = dict.fromkeys(PARTS, 0.0) | {"data": 20e-6, "forward": 80e-6}
    [found] = find_data_waits(dataclasses.replace(seen, shown_parts=parts))
    assert gain(found) == pytest.approx(20e-6)


def test_waiting_for_ranks_that_backward_cannot_hide_is_a_finding() -> None:
    nodes = [node("c10d_allreduce_", "r", inputs=X, source=line(4), scope="Default")]
    step = trace(
        [event("aten::mm", 50_000, 60_000), event("c10d::allreduce_", 200_000, 210_000)],
        end=1_000_000,
        backwards=[(50_000, 60_000)],
        collectives=[(200_000, 900_000)],
    )
    made = graph(nodes)
    [found] = find_exposed_collectives(
        ProfileEvidence(time_steps([step] * 3, made), MACHINE, PLACES, made)
    )
    assert gain(found) == pytest.approx(700e-6)
    assert "no_sync()" in found.advice


def test_the_numbers_of_a_slow_product_agree_with_its_gain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replay runs at another speed than the training: only its ratio is used."""
    taken = {AS_IT_IS: 5.68e-3, "float32": 1.42e-3}
    monkeypatch.setattr(operators, "replay_operator", lambda node: taken)
    double = [("x", "float64", (64, 64))]
    made = [node("mm", "mm", inputs=double, outputs=[("float64", (64, 64))], source=line(1))]
    [found] = operators.find_slow_products(evidence(made))
    assert found.message == (
        "mm f64[64,64] computes in float64, float32 is faster: 1 call a step takes 100 µs, and "
        "would take 25.0 µs"
    )
    assert gain(found) == pytest.approx(75e-6)


def test_a_rule_that_fails_is_skipped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: ProfileEvidence) -> list[Finding]:
        raise RuntimeError("no")

    monkeypatch.setattr("sonde.profile.rules.RULES", (broken, find_casts))
    said: list[str] = []
    found = judge(evidence(casts()), said.append)
    assert [each.rule for each in found] == ["needless-cast"]
    assert "RuntimeError: no" in said[0]
