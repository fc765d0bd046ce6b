"""Rules of other packages: an entry point adds them, a broken one is a line and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint

import pytest
from tests.diagnosis.made import uncleared

from sonde.diagnosis import DiagnosisRule, Finding, TrainingEvidence, catalogue, finding, user_rules


def _long(evidence: TrainingEvidence) -> Iterator[Finding]:
    if evidence.steps > 10:
        yield finding(
            "too-long",
            "supported",
            "the training is long",
            step=10,
            where=[evidence.optimizers[0].backward],
            evidence={"steps": evidence.steps},
            advice="stop after 10 steps",
        )


def _broken(evidence: TrainingEvidence) -> list[Finding]:
    raise ZeroDivisionError("by the author")


LONG = DiagnosisRule("too-long", _long, "Short trainings.")
BROKEN = DiagnosisRule("broken", _broken, "Never.")
TEXTS = DiagnosisRule("texts", lambda evidence: ["a text"], "Never.")  # type: ignore[list-item]
SEVERAL = [LONG, BROKEN]
SAME = DiagnosisRule("missing-zero-grad", _long, "Never.")
BAD_KIND = DiagnosisRule("Not A Kind", _long, "Never.")
NO_RULE = 7


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes entry points that name variables of this file."""

    def install(*names: str) -> None:
        entries = [EntryPoint(name, f"{__name__}:{name}", user_rules.GROUP) for name in names]
        monkeypatch.setattr(user_rules, "entry_points", lambda group: entries)
        catalogue.rules.cache_clear()
        user_rules.report_rule.cache_clear()

    yield install
    catalogue.rules.cache_clear()
    user_rules.report_rule.cache_clear()


def test_a_rule_of_another_package_judges_with_the_others(
    installed: Callable[..., None],
) -> None:
    installed("LONG")
    kinds = [each.rule for each in catalogue.diagnose(uncleared(20, 19))]
    assert kinds == ["missing-zero-grad", "too-long"]
    assert catalogue.diagnose(uncleared(20, 19), ["missing-zero-grad", "too-long"]) == []


def test_a_rule_that_fails_is_one_line_and_the_others_judge(
    installed: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    installed("SEVERAL")
    for _ in range(3):
        kinds = [each.rule for each in catalogue.diagnose(uncleared(20, 19))]
        assert kinds == ["missing-zero-grad", "too-long"]
    assert capsys.readouterr().err.splitlines() == [
        "sonde: the rule broken failed and finds nothing: ZeroDivisionError: by the author "
        "[rule-failed]"
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MISSING", "the entry point 'MISSING' of sonde.rules cannot be loaded: AttributeError"),
        ("NO_RULE", "it is no sonde.diagnosis.DiagnosisRule (but int)"),
        ("SAME", "there is a rule missing-zero-grad already"),
        ("BAD_KIND", "its kind must be words with hyphens"),
        ("TEXTS", "the rule texts must return findings"),
    ],
)
def test_what_is_no_rule_is_one_line(
    name: str, said: str, installed: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    installed(name)
    assert [each.rule for each in catalogue.diagnose(uncleared(20, 19))] == ["missing-zero-grad"]
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert line.endswith("[rule-failed]")
