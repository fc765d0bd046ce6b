"""What differs between the numbers of two runs, as a sentence for a failing test."""

from __future__ import annotations

import os

from sonde.compare.options import CompareOptions
from sonde.compare.runs.compare import compare
from sonde.compare.runs.headline import comparison_headline
from sonde.dump.reader import Dump
from sonde.integrations.pytest.tested_function import TestedFunction

Run = TestedFunction | str | os.PathLike[str]


def difference(a: Run, b: Run, *, rtol: float | None, atol: float | None) -> str:
    """The first op whose numbers differ; empty if all agree."""
    found = compare(_dump(a), _dump(b), CompareOptions(rtol=rtol, atol=atol))
    if found.verdict == "aligned":
        return ""
    headline = comparison_headline(found)
    if headline is not None:
        return headline.text
    return "; ".join(found.reasons) or found.verdict


def _dump(run: Run) -> Dump:
    return run.dump if isinstance(run, TestedFunction) else Dump(run)
