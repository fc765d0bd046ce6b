"""Rules that find what would make a step shorter.

A rule reports a finding only if its gain was measured and is large enough; see docs/profile.md.
There is one module for each direction: data, framework, multi-node (`collectives`), operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from sonde.core.finding import Finding
from sonde.profile.rules.collectives import find_exposed_collectives
from sonde.profile.rules.data import find_data_waits
from sonde.profile.rules.evidence import ProfileEvidence
from sonde.profile.rules.framework import (
    find_casts,
    find_layout_flips,
    find_python_time,
    find_recompilations,
    find_synchronisations,
    find_unfused_optimizer,
)
from sonde.profile.rules.operators import find_slow_products, find_small_batch

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
    """The findings of all rules, greatest gain first; a rule that fails is reported and skipped."""
    found: list[Finding] = []
    for rule in RULES:
        try:
            found.extend(rule(evidence))
        except Exception as error:
            say(
                f"sonde: {rule.__name__} failed and is left out: {type(error).__name__}: {error} "
                "[profile-failed]"
            )
    return sorted(found, key=lambda each: -cast(float, each.evidence["gain_share"]))
