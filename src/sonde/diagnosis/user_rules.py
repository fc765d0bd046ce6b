"""Rules of other packages: entry points of the group ``sonde.rules``.

An entry point names a `DiagnosisRule`, or a list of them. One that cannot be loaded is reported in
a line and left out.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Collection, Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from sonde.core.interruption import pass_on
from sonde.core.text.problem_line import ProblemLine
from sonde.diagnosis.rule import KIND, DiagnosisRule
from sonde.logs import say

GROUP = "sonde.rules"
logger = logging.getLogger("sonde.diagnosis")


def load_user_rules(taken: Collection[str]) -> list[DiagnosisRule]:
    """The rules of all entry points whose kinds are not ``taken``."""
    found: dict[str, DiagnosisRule] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        for rule in _load(entry):
            why = _why_not(rule, {*taken, *found})
            if why is None:
                found[rule.kind] = rule
            else:
                report_rule(f"the rule of the entry point {entry.name!r} is left out: {why}")
    return list(found.values())


@cache
def report_rule(text: str) -> None:
    """Say in one line, once in this process, what is wrong with a rule."""
    say(ProblemLine(text, slug="rule-failed"))


def _load(entry: EntryPoint) -> Iterable[DiagnosisRule]:
    try:
        loaded = entry.load()
        return list(loaded) if isinstance(loaded, Iterable) else [loaded]
    except Exception as error:
        pass_on(error)
        logger.debug("%s", "".join(traceback.format_exception(error)))
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        report_rule(f"the entry point {entry.name!r} of {GROUP} cannot be loaded: {what}")
        return []


def _why_not(rule: object, taken: Collection[str]) -> str | None:
    if not isinstance(rule, DiagnosisRule):
        return f"it is no sonde.diagnosis.DiagnosisRule (but {type(rule).__name__})"
    if not isinstance(rule.kind, str) or KIND.fullmatch(rule.kind) is None:
        return f"its kind must be words with hyphens between them (got {rule.kind!r})"
    if rule.kind in taken:
        return f"there is a rule {rule.kind} already"
    return None if callable(rule.judge) else "its judge is no function"
