"""The catalogue of rules, and the judgement of a training: few findings, causes first."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import traceback
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cache

from sonde.core.finding import Finding
from sonde.core.interruption import pass_on
from sonde.diagnosis import rules as rule_package
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule
from sonde.diagnosis.user_rules import load_user_rules, report_rule

MOST_FINDINGS = 5
BAD_LOSS = "non-finite-loss"
"""The kind of the symptom that rules about NaN and Inf explain."""
_CERTAINTY = {"established": 0, "supported": 1, "hypothesis": 2}
logger = logging.getLogger("sonde.diagnosis")


@cache
def rules() -> dict[str, DiagnosisRule]:
    """All rules by kind: Sonde's own, and those of other packages (`user_rules`)."""
    own = own_rules()
    return {**own, **{rule.kind: rule for rule in load_user_rules(own)}}


@cache
def own_rules() -> dict[str, DiagnosisRule]:
    """Sonde's own rules by kind: the ``RULE`` of every module below ``diagnosis/rules``."""
    listed = pkgutil.walk_packages(rule_package.__path__, f"{rule_package.__name__}.")
    names = sorted(each.name for each in listed if not each.ispkg)
    found = [importlib.import_module(name).RULE for name in names]
    return {rule.kind: rule for rule in found}


def diagnose(evidence: TrainingEvidence, ignored: Collection[str] = ()) -> list[Finding]:
    """Judge ``evidence`` by all rules except ``ignored``, leave out what a comment silences, and
    fold symptoms under their causes."""
    found = [
        each if each.step is None else replace(each, step=evidence.number(each.step))
        for rule in rules().values()
        if rule.kind not in ignored
        for each in _judged(rule, evidence)
        if each.rule not in ignored and not each.is_silenced
    ]
    return fold(found)[:MOST_FINDINGS]


def _judged(rule: DiagnosisRule, evidence: TrainingEvidence) -> list[Finding]:
    """What ``rule`` finds; a rule that fails is reported in a line, and finds nothing."""
    try:
        found = list(rule.judge(evidence))
    except Exception as error:
        pass_on(error)
        logger.debug("%s", "".join(traceback.format_exception(error)))
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        report_rule(f"the rule {rule.kind} failed and finds nothing: {what}")
        return []
    if all(isinstance(each, Finding) for each in found):
        return found
    report_rule(f"the rule {rule.kind} must return findings (see sonde.diagnosis.finding)")
    return []


def fold(findings: Iterable[Finding]) -> list[Finding]:
    """Order findings by certainty, causes before others, then by step. A finding that another one
    explains is moved into the evidence of the other (``explains``), if the other is at least as
    certain or both are certain enough to be reported as such (no hypothesis)."""
    known = rules()
    single = _first_of_each_kind(findings)
    certain = [each for each in single if each.status != "hypothesis"]
    symptoms = {kind for each in certain for kind in _explained(each)}
    ordered = sorted(
        single,
        key=lambda each: (
            each.status == "hypothesis",
            each.rule in symptoms,
            _CERTAINTY[each.status],
            -len(known[each.rule].explains) if each.rule in known else 0,
            each.step or 0,
        ),
    )
    kept: list[Finding] = []
    for each in ordered:
        cause = next((n for n, one in enumerate(kept) if each.rule in _explained(one)), None)
        if cause is None:
            kept.append(each)
        else:
            listed = kept[cause].evidence.get("explains", [])
            explains = dict.fromkeys([*(listed if isinstance(listed, list) else []), each.message])
            evidence = {**kept[cause].evidence, "explains": list(explains)}
            kept[cause] = replace(kept[cause], evidence=evidence)
    return kept


def cause_of_bad_values(findings: Iterable[Finding]) -> Finding | None:
    """The first finding that is certain enough, and whose rule explains NaN and Inf."""
    for each in findings:
        if each.status != "hypothesis" and BAD_LOSS in _explained(each):
            return each
    return None


def _first_of_each_kind(findings: Iterable[Finding]) -> list[Finding]:
    best: dict[str, Finding] = {}
    for each in findings:
        known = best.get(each.rule)
        if known is None or _CERTAINTY[each.status] < _CERTAINTY[known.status]:
            best[each.rule] = each
    return list(best.values())


def _explained(cause: Finding) -> tuple[str, ...]:
    rule = rules().get(cause.rule)
    return () if rule is None else rule.explains
