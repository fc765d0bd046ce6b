"""The catalogue judges evidence that is plain data: folding, order, silence, JSON."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from tests.diagnosis.made import uncleared

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.diagnosis import rules as rule_package
from sonde.diagnosis.catalogue import MOST_FINDINGS, diagnose, fold, rules
from sonde.diagnosis.document import as_document, as_lines
from sonde.diagnosis.evidence import EvidenceEvent, TrainingEvidence

PAGES = Path(__file__).parents[2] / "docs" / "rules"
RULE_FILES = Path(rule_package.__file__).parent


def test_no_evidence_gives_no_finding() -> None:
    assert diagnose(TrainingEvidence()) == []


def test_a_finding_has_every_field_of_the_document() -> None:
    document = as_document(diagnose(uncleared(20, 19)))
    (found,) = json.loads(json.dumps(document, allow_nan=False))["findings"]
    assert set(found) == {
        *("kind", "detail", "status", "message", "where", "step", "evidence", "advice")
    }
    assert found["kind"] == "missing-zero-grad"
    assert found["status"] == "established"
    assert found["where"][0] == "train.py:7"
    assert found["evidence"]["steps_with_old_gradients"] == 19


@pytest.mark.parametrize(("steps", "count"), [(20, 2), (20, 10), (1, 0)])
def test_few_strikes_are_silent(steps: int, count: int) -> None:
    assert diagnose(uncleared(steps, count)) == []


def test_an_ignored_kind_is_not_reported() -> None:
    assert diagnose(uncleared(20, 19), ["missing-zero-grad"]) == []


@pytest.mark.parametrize(
    ("comment", "count"),
    [
        ("# sonde: ignore[missing-zero-grad]", 0),
        ("# sonde: ignore[lr-too-high, missing-zero-grad]", 0),
        ("# sonde: ignore[lr-too-high]", 1),
        ("# sonde ignores missing-zero-grad", 1),
    ],
)
def test_a_comment_on_the_line_silences_its_kind(comment: str, count: int) -> None:
    evidence = uncleared(20, 19)
    code = f"loss.backward()  {comment}"
    evidence.optimizers[0].backward = Source("/home/me/train.py", 7, "main", code)
    assert len(diagnose(evidence)) == count


def test_a_symptom_is_folded_under_its_cause() -> None:
    evidence = uncleared(20, 19)
    evidence.losses[12] = float("nan")
    (found,) = diagnose(evidence)
    assert found.rule == "missing-zero-grad"
    assert found.evidence["explains"] == ["the loss is nan in step 12"]


def test_a_symptom_without_a_cause_is_reported_alone() -> None:
    evidence = TrainingEvidence(steps=3, losses=[1.0, float("inf"), 1.0])
    assert [each.rule for each in diagnose(evidence)] == ["non-finite-loss"]


def test_a_hypothesis_explains_no_established_finding_and_comes_last() -> None:
    guess = Finding("missing-zero-grad", "info", "perhaps", status="hypothesis", step=0)
    fact = Finding("non-finite-loss", "error", "it is", status="established", step=5)
    assert [each.rule for each in fold([guess, fact])] == ["non-finite-loss", "missing-zero-grad"]


def test_at_most_five_findings() -> None:
    names = ("half-overflow-dropout", "dropout-in-eval", "tie-broken", "cancellation")
    names += ("sampler-epoch-kept", "state-of-itself", "init-after-step")
    numbers = dict.fromkeys(
        (
            "p",
            "largest",
            "scaled",
            "limit",
            "tied",
            "ratio",
            "epsilon",
            "epoch",
            "tensors",
            "function",
        ),
        1.0,
    )
    events = [EvidenceEvent(name, 0, None, "a", dict(numbers), count=9) for name in names]
    assert (
        len(diagnose(TrainingEvidence(steps=30, losses=[1.0] * 30, events=events))) == MOST_FINDINGS
    )


def test_numbers_that_are_not_finite_are_texts_in_json() -> None:
    found = Finding(
        "non-finite-loss", "error", "x", status="established", evidence={"loss": float("nan")}
    )
    assert as_document([found])["findings"][0]["evidence"] == {"loss": "nan"}


def test_the_text_names_place_step_and_advice() -> None:
    text = "\n".join(as_lines(diagnose(uncleared(20, 19)), 20))
    assert "train.py:7" in text
    assert "do: call optimizer.zero_grad()" in text
    assert as_lines([], 4) == ["no finding in 4 steps"]
    assert as_lines([], 0)[0].startswith("no finding: no optimizer took a step")


@pytest.mark.parametrize("kind", sorted(rules()))
def test_every_rule_says_when_it_is_silent_and_has_a_page(kind: str) -> None:
    rule = rules()[kind]
    assert rule.silent
    assert set(rule.explains) <= set(rules())
    page = (PAGES / f"{kind}.md").read_text()
    assert rule.silent in page


@pytest.mark.parametrize("file", sorted(RULE_FILES.rglob("*.py")), ids=lambda file: file.stem)
def test_a_place_is_observed_and_no_fixed_word(file: Path) -> None:
    """The elements of ``where`` come from the evidence: none is a text of the rule itself."""
    calls = [each for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.Call)]
    listed = [each.value for call in calls for each in call.keywords if each.arg == "where"]
    for place in (one for each in listed if isinstance(each, ast.List) for one in each.elts):
        ends = [place.body, place.orelse] if isinstance(place, ast.IfExp) else [place]
        assert not [each.value for each in ends if _is_text(each)]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
