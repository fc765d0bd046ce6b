"""Options of a collector, parsed once."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sonde.core.arguments import check_bool, check_positive_int
from sonde.core.errors import SondeError
from sonde.core.settings import nearest
from sonde.core.text.linear_regex import LinearRegex
from sonde.summary.errors import SummaryOptionError

DEFAULT_PARAMETERS = 5


@dataclass(frozen=True, slots=True)
class Collected:
    """Which data are collected; the names are those of ``collect_specified_data``."""

    collect_metric: bool = True
    collect_learning_rate: bool = True
    collect_graph: bool = True
    collect_train_lineage: bool = True
    collect_eval_lineage: bool = True
    collect_input_data: bool = True
    collect_dataset_graph: bool = True
    collect_gradients: bool = True
    collect_histograms: bool = True
    histogram_regular: str | None = None

    def wants_parameter(self, name: str, position: int) -> bool:
        """Whether this parameter, the ``position``-th (from 0), gets histograms."""
        if self.histogram_regular is None:
            return position < DEFAULT_PARAMETERS
        return _regex(self.histogram_regular).matches(name)


_FLAGS = [one.name for one in fields(Collected) if one.name.startswith("collect_")]
_KNOWN = (*_FLAGS, "histogram_regular")


def collected(specified: Mapping[str, Any] | None, keep_default_action: bool) -> Collected:
    """The data to collect: the defaults (or nothing), changed as specified.

    Naming ``histogram_regular`` asks for histograms.
    """
    _checked(check_bool, "keep_default_action must be True or False", keep_default_action)
    if specified is None:
        return Collected()
    if not isinstance(specified, Mapping):
        raise _wrong("collect_specified_data must be a dict", specified)
    for name, value in specified.items():
        if name not in _KNOWN:
            hint = nearest(name, sorted(_KNOWN), "known are")
            raise _wrong(f"collect_specified_data has no {name!r}{hint}", value)
        if name == "histogram_regular":
            _check_regex(value)
        else:
            rule = f"collect_specified_data: {name} must be True or False"
            _checked(check_bool, rule, value)
    chosen: dict[str, Any] = {} if keep_default_action else dict.fromkeys(_FLAGS, False)
    if "histogram_regular" in specified:
        chosen["collect_histograms"] = True
    return Collected(**{**chosen, **specified})


def directory(given: Any) -> Path:
    """The directory for the event files; it need not exist."""
    if not isinstance(given, str | os.PathLike) or not str(given):
        raise _wrong("summary_dir must be the path of a directory", given)
    return Path(given)


def positive(name: str, value: Any) -> int:
    """An integer of at least 1."""
    return int(_checked(check_positive_int, f"{name} must be an integer of at least 1", value))


def positive_or_none(name: str, value: Any) -> int | None:
    """An integer of at least 1, or None."""
    return None if value is None else positive(name, value)


def lineage_data(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Names with texts or numbers."""
    facts = {} if given is None else given
    if not isinstance(facts, Mapping) or not all(
        isinstance(name, str) and isinstance(value, (str, int, float))
        for name, value in facts.items()
    ):
        raise _wrong("custom_lineage_data must be a dict of names with texts or numbers", given)
    return dict(facts)


def _checked(check: Callable[[object, str], Any], rule: str, value: Any) -> Any:
    """The value, if the check of arguments accepts it; else the collector's own error."""
    try:
        return check(value, rule)
    except SondeError:
        raise _wrong(rule, value) from None


def _check_regex(value: Any) -> None:
    try:
        _regex("" if value is None else value)
    except (re.error, TypeError) as error:
        raise _wrong(
            f"collect_specified_data: histogram_regular is not a regular expression ({error})",
            value,
        ) from error


@functools.lru_cache(maxsize=8)
def _regex(text: str) -> LinearRegex:
    return LinearRegex(text, is_prefix=True)


def _wrong(rule: str, value: Any) -> SummaryOptionError:
    return SummaryOptionError(f"SummaryCollector: {rule}; got {value!r}", slug="summary-option")
