"""Judgements while a training runs: a finding is confirmed once, by two judgements in a row."""

from __future__ import annotations

import math

from tests.diagnosis.made import uncleared

from sonde.diagnosis.catalogue import diagnose
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.running import RunningJudgement


def test_a_finding_is_confirmed_by_the_second_judgement_and_once() -> None:
    running = RunningJudgement()
    assert running.judge(uncleared(6, 5)) == []
    (found,) = running.judge(uncleared(12, 11))
    assert found.rule == "missing-zero-grad"
    assert running.judge(uncleared(20, 19)) == []


def test_a_finding_of_one_judgement_alone_is_not_confirmed() -> None:
    running = RunningJudgement()
    running.judge(uncleared(6, 5))
    running.judge(uncleared(12, 2))
    assert running.judge(uncleared(20, 19)) == []


def test_an_ignored_kind_is_never_confirmed() -> None:
    running = RunningJudgement(["missing-zero-grad"])
    running.judge(uncleared(6, 5))
    assert running.judge(uncleared(12, 11)) == []


def test_judgements_are_due_now_and_then_and_where_the_loss_is_not_finite() -> None:
    running = RunningJudgement()
    evidence = TrainingEvidence()
    due = []
    for step in range(1, 151):
        evidence.steps = step
        evidence.losses.append(math.nan if step >= 23 else 1.0)
        if running.is_due(evidence):
            due.append(step)
    assert due == [6, 12, 20, 23, 24, 30, 45, 50, 100, 150]


def test_what_was_confirmed_and_is_gone_is_refuted_and_a_symptom_is_not() -> None:
    running = RunningJudgement()
    running.judge(uncleared(6, 5))
    running.judge(uncleared(12, 11))
    assert running.refuted(diagnose(uncleared(20, 19))) == []
    assert [each.rule for each in running.refuted([])] == ["missing-zero-grad"]

    bad = TrainingEvidence(steps=3, losses=[1.0, math.nan, math.nan])
    symptom = RunningJudgement()
    symptom.judge(bad)
    (found,) = symptom.judge(bad)
    assert found.rule == "non-finite-loss"
    cause = uncleared(20, 19)
    cause.losses[1:3] = [math.nan, math.nan]
    assert symptom.refuted(diagnose(cause)) == []
