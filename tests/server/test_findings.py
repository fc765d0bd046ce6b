"""The findings of a diagnosis on the server: headline, marks in the graph, limits, rule pages."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.server.test_headlines import SQRT, hit

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.diagnosis.catalogue import own_rules
from sonde.diagnosis.pages import rule_page
from sonde.diagnosis.wire_form import diagnosis_view
from sonde.server.causes import causes_of
from sonde.server.findings import bounded, finding_places, findings_by_part
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.levels import Marks, level
from sonde.server.headlines import live_headline
from sonde.server.live.rank import LiveRank
from sonde.testing.sample_values import sample_metadata
from sonde.wire.shapes import DiagnosisView, LossPoint, Node, SourceLine, TensorType

FILE = "/home/me/train.py"
ROWS = TensorType("float32", (2, 3))


def found(**more: object) -> Finding:
    fields: dict[str, object] = {
        "status": "established",
        "step": 1,
        "places": ("train.py:7",),
        "lines": (Source(FILE, 7, "main", "optimizer.step()"),),
        "evidence": {"steps_with_old_gradients": 19, "explains": ["the loss is nan in step 12"]},
        "advice": "call optimizer.zero_grad()",
        **more,
    }
    return Finding("missing-zero-grad", "error", "gradients are not cleared", **fields)  # type: ignore[arg-type]


def view(*findings: Finding) -> DiagnosisView:
    return diagnosis_view(findings, 20, is_over=True)


def test_a_finding_reaches_the_page_with_every_field() -> None:
    (seen,) = view(found()).findings
    assert (seen.kind, seen.status, seen.step) == ("missing-zero-grad", "established", 1)
    assert [(each.name, each.value) for each in seen.evidence] == [
        ("steps with old gradients", "19")
    ]
    assert seen.explains == ("the loss is nan in step 12",)
    assert seen.lines == (SourceLine(FILE, 7, "main", "optimizer.step()"),)


def test_an_established_finding_is_the_headline_unless_something_is_more_urgent() -> None:
    ranks = (LiveRank(sample_metadata()).view(0),)
    nothing = causes_of(())

    def told(diagnosis: DiagnosisView | None, hits: object = None) -> str | None:
        causes = nothing if hits is None else causes_of(hits)  # type: ignore[arg-type]
        headline = live_headline(ranks, causes, {}, diagnosis)
        return None if headline is None or headline.kind == "lost" else headline.text

    assert told(None) is None
    text = "gradients are not cleared, from step 1 on, at train.py:7 `optimizer.step()`."
    assert told(view(found())) == text
    named = replace(found(), message="step at train.py:7 clears no gradients")
    assert told(view(named)) == f"{named.message}, from step 1 on: `optimizer.step()`."
    assert told(view(found(status="supported"))) is None
    threshold = hit(1, "Default/relu-op0", origin=None, part="other")
    assert told(view(found()), [threshold]) == text
    of_nan = told(view(found()), [hit(1, SQRT)])
    assert of_nan is not None
    assert of_nan.startswith("sqrt made 5 NaN")


def test_a_broken_loss_without_an_op_of_origin_has_the_finding_as_its_reason() -> None:
    rank = LiveRank(sample_metadata()).view(0)
    losses = {rank.rank: [LossPoint(0, 1.0, 0.1, None, True), LossPoint(1, "nan", 0.1, None, True)]}
    headline = live_headline((rank,), causes_of(()), losses, view(found()))
    assert headline is not None
    assert headline.text == (
        "the loss is nan since step 1: gradients are not cleared, at train.py:7 `optimizer.step()`."
    )
    assert (headline.kind, headline.advice) == ("finding", "call optimizer.zero_grad()")


def node(name: str, type_: str, line: int, kind: str = "op", scope: str = "") -> Node:
    sources = (SourceLine(FILE, line, "main", "x"),) if line else ()
    where = scope or name.rpartition("/")[0]
    return Node(name, type_, where, "forward", kind, 0, (), (ROWS,), (), sources)  # type: ignore[arg-type]


NET = "Default/network-Net"
INDEX = GraphIndex(
    0,
    "g",
    [
        msgspec.structs.replace(each, order=number)
        for number, each in enumerate(
            [
                node("body.0.weight", "Parameter", 0, "parameter", f"{NET}/body-Body/0-Linear"),
                node(f"{NET}/body-Body/0-Linear/addmm-op0", "addmm", 5),
                node(f"{NET}/_softmax-op0", "_softmax", 5),
                node("Default/_log_softmax-op0", "_log_softmax", 7),
                node("Default/mul-op0", "mul", 7),
            ]
        )
    ],
)


@pytest.mark.parametrize(
    ("places", "line", "paths"),
    [
        (("body.0.weight",), 7, ["body.0.weight"]),
        (("body.0",), 7, [f"{NET}/body-Body/0-Linear/"]),
        (("Default/mul-op0", "optimizer"), 7, ["Default/mul-op0"]),
        (("train.py:7", "log_softmax"), 7, ["Default/_log_softmax-op0"]),
        (("train.py:7", "forward"), 7, ["Default/_log_softmax-op0", "Default/mul-op0"]),
        (("train.py:9",), 9, []),
    ],
)
def test_a_finding_marks_what_it_names(
    places: tuple[str, ...], line: int, paths: list[str]
) -> None:
    diagnosis = view(found(places=places, lines=(Source(FILE, line, "main", "x"),)))
    (place,) = finding_places(INDEX, diagnosis)
    assert (place.kind, list(place.paths)) == ("missing-zero-grad", paths)


def test_scopes_around_a_marked_node_are_marked_and_others_are_not() -> None:
    diagnosis = view(found(places=("body.0.weight",)))
    marks = Marks(findings=findings_by_part(INDEX, diagnosis))
    inside = {each.path: each.findings for each in level(INDEX, f"{NET}/", marks=marks).nodes}
    assert inside[f"{NET}/body-Body/"] == ("missing-zero-grad",)
    assert inside[f"{NET}/_softmax-op0"] == ()


def test_texts_and_lists_of_a_rank_are_bounded() -> None:
    huge = found(places=("x" * 10_000,) * 1000, advice="y" * 10_000)
    (seen,) = bounded(view(huge)).findings
    assert (len(seen.where), len(seen.where[0]), len(seen.advice)) == (50, 2000, 2000)
    assert len(bounded(view(*[huge] * 80)).findings) == 50


def test_every_rule_has_a_page_that_the_server_can_show() -> None:
    for kind in own_rules():
        assert (rule_page(kind) or "").startswith(f"# {kind}\n"), kind
    assert rule_page("../messages") is None
    assert rule_page("no-such-kind") is None
