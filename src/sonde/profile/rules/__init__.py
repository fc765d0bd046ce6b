"""Judging a profile: each rule looks at the evidence and says what would make a step shorter.

A rule says something only with a measured gain that is worth it; see docs/profile.md.
"""

from __future__ import annotations

from collections.abc import Callable

from sonde.core.finding import Finding
from sonde.profile.rules.collectives import find_exposed_collectives
from sonde.profile.rules.compiling import find_recompilations
from sonde.profile.rules.data import find_data_waits
from sonde.profile.rules.evidence import ProfileEvidence
from sonde.profile.rules.framework import (
    find_casts,
    find_layout_flips,
    find_python_time,
    find_synchronisations,
)
from sonde.profile.rules.operators import find_slow_products, find_small_batch
from sonde.profile.rules.optimizer import find_unfused_optimizer

RULES: tuple[Callable[[ProfileEvidence], list[Finding]], ...] = (
    find_data_waits,
    find_synchronisations,
    find_casts,
    find_layout_flips,
    find_python_time,
    find_recompilations,
    find_unfused_optimizer,
    find_exposed_collectives,
    find_slow_products,
    find_small_batch,
)


def judge(evidence: ProfileEvidence, say: Callable[[str], None]) -> list[Finding]:
    """Everything the rules find, greatest gain first; a rule that fails is left out and said."""
    found: list[Finding] = []
    for rule in RULES:
        try:
            found.extend(rule(evidence))
        except Exception as error:
            say(
                f"sonde: {rule.__name__} failed and is left out: {type(error).__name__}: {error} "
                "[profile-failed]"
            )
    return sorted(found, key=_gain, reverse=True)


def _gain(finding: Finding) -> float:
    gain = finding.evidence["gain_share"]
    return gain if isinstance(gain, float | int) else 0.0
