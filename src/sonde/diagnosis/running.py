"""Judges a training while it runs: which findings are certain before it has ended.

A rule judges the evidence so far, which may be too little: a module that did not run in the first
five steps may run in the sixth. So a finding counts as confirmed when two judgements in a row, of
different steps, have it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from sonde.core.finding import Finding
from sonde.diagnosis.catalogue import diagnose
from sonde.diagnosis.document import explained
from sonde.diagnosis.evidence import TrainingEvidence

EARLY = (6, 12, 20, 30, 45)
EVERY = 50


@dataclass(slots=True, eq=False)
class RunningJudgement:
    """The judgements so far. ``confirmed`` has the first confirmed finding of each kind that is
    established or supported, and is not taken back; ``current`` are those confirmed kinds that the
    last judgement still finds, causes first."""

    ignored: Collection[str] = ()
    confirmed: dict[str, Finding] = field(default_factory=dict)
    current: list[Finding] = field(default_factory=list)
    _last: set[str] = field(default_factory=set)
    _bad_loss: int | None = None

    def is_due(self, evidence: TrainingEvidence) -> bool:
        """Whether the training is judged after this step: at some of the first, every 50th, and in
        the step whose loss is the first NaN or Inf, and the one after it."""
        steps = evidence.steps
        if self._bad_loss is None and evidence.has_bad_loss:
            self._bad_loss = steps
        if self._bad_loss is not None and steps <= self._bad_loss + 1:
            return True
        return steps in EARLY or (steps > 0 and steps % EVERY == 0)

    def judge(self, evidence: TrainingEvidence) -> list[Finding]:
        """Judge the evidence so far; returns the findings that are confirmed now."""
        found = [each for each in diagnose(evidence, self.ignored) if each.status != "hypothesis"]
        new = [
            each for each in found if each.rule in self._last and each.rule not in self.confirmed
        ]
        self._last = {each.rule for each in found}
        self.confirmed.update((each.rule, each) for each in new)
        self.current = [each for each in found if each.rule in self.confirmed]
        return new

    def refuted(self, final: Collection[Finding]) -> list[Finding]:
        """Confirmed findings of which nothing is left in the ``final`` ones, neither as a finding
        nor as a symptom of one."""
        left = {each.rule for each in final}
        folded = [text for each in final for text in explained(each)]
        return [
            each
            for kind, each in self.confirmed.items()
            if kind not in left and each.message not in folded
        ]
