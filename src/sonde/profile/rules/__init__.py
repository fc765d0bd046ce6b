"""Rules that find what would make a step shorter.

A rule reports a finding only if its gain was measured and is large enough; see docs/profile.md.
There is one module for each direction: data, framework, multi-node (`collectives`), operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from sonde.core.finding import Finding
from sonde.core.text.problem_line import ProblemLine
from sonde.profile.rules import collectives, data, framework, operators
from sonde.profile.rules.evidence import ProfileEvidence

RULES: tuple[Callable[[ProfileEvidence], list[Finding]], ...] = (
    data.find_data_waits,
    framework.find_synchronisations,
    framework.find_casts,
    framework.find_layout_flips,
    framework.find_python_time,
    framework.find_recompilations,
    framework.find_unfused_optimizer,
    collectives.find_exposed_collectives,
    operators.find_slow_products,
    operators.find_small_batch,
)


def judge(evidence: ProfileEvidence, say: Callable[[str], None]) -> list[Finding]:
    """The findings of all rules, greatest gain first; a rule that fails is reported and skipped."""
    found: list[Finding] = []
    for rule in RULES:
        try:
            found.extend(rule(evidence))
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            text = f"sonde: {rule.__name__} failed and is left out: {what}"
            say(ProblemLine(text, slug="profile-failed"))
    return sorted(found, key=lambda each: -cast(float, each.evidence["gain_share"]))
