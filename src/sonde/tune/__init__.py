"""Hyper-parameter search, based on Optuna.

``sonde tune config.yaml`` runs a training command many times; the script gets its values with
`suggest` or `HyperConfig` and reports results with `report`. `search` does the same with a Python
function. Importing this package imports neither Optuna nor a framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sonde.tune.errors import TuneError
from sonde.tune.script_side.current import (
    HyperConfig,
    HyperParameters,
    report,
    suggest,
    summary_dir,
)

if TYPE_CHECKING:
    from sonde.tune.store.listing import StudyListing, read_study
    from sonde.tune.trials.function_search import TrialStopped, search

__all__ = [
    "HyperConfig",
    "HyperParameters",
    "StudyListing",
    "TrialStopped",
    "TuneError",
    "read_study",
    "report",
    "search",
    "suggest",
    "summary_dir",
]

_LATER = {
    "StudyListing": "sonde.tune.store.listing",
    "TrialStopped": "sonde.tune.trials.function_search",
    "read_study": "sonde.tune.store.listing",
    "search": "sonde.tune.trials.function_search",
}


def __getattr__(name: str) -> Any:
    home = _LATER.get(name)
    if home is None:
        from sonde.core.text.missing_name import missing_name

        raise missing_name(__name__, name, __all__)
    return getattr(import_module(home), name)
