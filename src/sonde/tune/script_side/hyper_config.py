"""``HyperConfig``: how scripts written for MindOptimizer ask for their values."""

from __future__ import annotations

import json
import os
from typing import Any

from sonde.tune.errors import TuneError
from sonde.tune.script_side.current import HYPER_CONFIG_VARIABLE, TRIAL_VARIABLE, VALUES_VARIABLE


class HyperParameters(dict[str, Any]):
    """The trial's values, as keys and as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self) or "none"
            raise AttributeError(f"the trial has no {name!r}; it has: {known}") from None


class HyperConfig:
    """The values of this trial (``params``) and where its summaries belong (``summary_dir``).

    Replaces ``mindinsight.optimizer.HyperConfig``; outside a search a `TuneError`.
    """

    def __init__(self) -> None:
        content = _from_environment()
        self.params = HyperParameters(content["params"])
        self.summary_dir: str = os.path.realpath(content["summary_dir"])
        self.custom_lineage_data: dict[str, Any] = dict(content.get("custom_lineage_data") or {})


def _from_environment() -> dict[str, Any]:
    text = os.environ.get(HYPER_CONFIG_VARIABLE)
    if text is None and VALUES_VARIABLE in os.environ:
        directory = os.environ.get(TRIAL_VARIABLE, "summary")
        text = (
            f'{{"params": {os.environ[VALUES_VARIABLE]}, "summary_dir": {json.dumps(directory)}}}'
        )
    if text is None:
        raise TuneError(
            "HyperConfig() is for a script that 'sonde tune' runs; outside it, give values with "
            f"{VALUES_VARIABLE}='{{\"learning_rate\": 0.1}}'",
            slug="tune-values",
        )
    try:
        content = json.loads(text)
    except ValueError as error:
        raise TuneError(
            f"{HYPER_CONFIG_VARIABLE} is not JSON: {error}", slug="tune-values"
        ) from None
    if not isinstance(content, dict) or not {"params", "summary_dir"} <= content.keys():
        raise TuneError(
            f"{HYPER_CONFIG_VARIABLE} needs 'params' and 'summary_dir'", slug="tune-values"
        )
    return content
