"""`suggest`, `report` and `HyperConfig`, called from the training script of a trial.

A script that ``sonde tune`` started finds its trial's directory in ``SONDE_TUNE_TRIAL`` and its
values in ``SONDE_TUNE_VALUES``. It appends its reports to ``reports.jsonl`` in that directory, and
requests for parameters that the configuration lacks; the search answers in ``answers.jsonl``. This
module does not import Optuna, so it costs the script almost nothing.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

from sonde.core.files.atomic_file import append
from sonde.core.observation_variables import is_first_rank
from sonde.core.settings import Problems
from sonde.tune.config.parameters import read_space
from sonde.tune.config.space import SearchParameter, Value
from sonde.tune.config.yaml_lines import located
from sonde.tune.errors import TuneError

TRIAL_VARIABLE = "SONDE_TUNE_TRIAL"
VALUES_VARIABLE = "SONDE_TUNE_VALUES"
HYPER_CONFIG_VARIABLE = "MINDINSIGHT_HYPER_CONFIG"
REPORTS_FILE = "reports.jsonl"
ANSWERS_FILE = "answers.jsonl"
ANSWER_SECONDS = 300.0
_POLL_SECONDS = 0.005


MISSING: Any = object()


class CurrentTrial(Protocol):
    """The trial of the running script."""

    def value(self, name: str, parameter: SearchParameter | None) -> Value:
        """The value to use; KeyError (name, known names) if the trial has none and gets none."""
        ...

    def report(self, metrics: Mapping[str, float], step: int | None) -> None:
        """Pass numbers to the search. The name ``""`` means the target."""
        ...


IN_PROCESS: ContextVar[CurrentTrial | None] = ContextVar("sonde.tune trial", default=None)
"""The trial of `sonde.tune.search` that is running in this context."""


def suggest(name: str, default: Any = MISSING, **space: Any) -> Any:
    """The value this trial uses for ``name``; outside a search, the default.

    The configuration defines the space of ``name``; for other names, give the space here, with the
    same keys: ``suggest("width", 64, choice=[32, 64, 128])``,
    ``suggest("rate", 0.1, bounds=[1e-4, 1], type="float", log=True)``.
    """
    parameter = parameter_from_words(name, space) if space else None
    current = IN_PROCESS.get() or _mailbox()
    known: tuple[str, ...] = ()
    if current is not None:
        try:
            return current.value(name, parameter)
        except KeyError as error:
            known = error.args[1] if len(error.args) > 1 else ()
    if default is MISSING:
        raise TuneError(_why_no_value(name, current is not None, known), slug="tune-suggest")
    return default


def report(value: Any = None, /, *, step: int | None = None, **metrics: Any) -> None:
    """Report values of the trial to the search: ``report(loss)`` or ``report(loss=x, accuracy=y)``.

    A value without a name is the target's. ``step`` counts epochs or steps; without it, calls are
    counted. Tensors of one element are accepted. NaN or Inf in the target ends the trial as
    diverged. Outside a search it does nothing; of several ranks, only rank 0 reports.
    """
    found = {name: _number(name, one) for name, one in metrics.items()}
    if value is not None:
        found[""] = _number("value", value)
    if not found:
        raise TuneError("report() needs a value, such as report(loss=0.3)", slug="tune-report")
    current = IN_PROCESS.get() or _mailbox()
    if current is not None:
        current.report(found, step)


def summary_dir(default: str | os.PathLike[str] | None = None) -> str | None:
    """The directory for this trial's summaries; outside a search, the default."""
    directory = os.environ.get(TRIAL_VARIABLE)
    if directory:
        return directory
    return None if default is None else os.fspath(default)


class Mailbox:
    """The trial of a script that ``sonde tune`` started; talks to the search through files."""

    def __init__(self, directory: Path | None, values: Mapping[str, Value]) -> None:
        self._directory = directory
        self._values = dict(values)

    def value(self, name: str, parameter: SearchParameter | None) -> Value:
        if name not in self._values:
            if parameter is None or self._directory is None:
                raise KeyError(name, tuple(self._values))
            self._values[name] = self._ask(self._directory, parameter)
        return self._values[name]

    def report(self, metrics: Mapping[str, float], step: int | None) -> None:
        if self._directory is not None and is_first_rank(os.environ):
            encoded = {
                name: one if math.isfinite(one) else repr(one) for name, one in metrics.items()
            }
            append_line(self._directory / REPORTS_FILE, {"step": step, "metrics": encoded})

    def _ask(self, directory: Path, parameter: SearchParameter) -> Value:
        request = {"name": parameter.name, "space": space_words(parameter)}
        append_line(directory / REPORTS_FILE, {"ask": request})
        until = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < until:
            for line in complete_lines(directory / ANSWERS_FILE):
                answer = json.loads(line)
                if answer["name"] == parameter.name:
                    if "problem" in answer:
                        raise TuneError(str(answer["problem"]), slug="tune-suggest")
                    value: Value = answer["value"]
                    return value
            time.sleep(_POLL_SECONDS)
        raise TuneError(
            f"the search did not answer for {parameter.name!r} in {ANSWER_SECONDS:g} s; is it "
            "still running?",
            slug="tune-suggest",
        )


_MAILBOXES: dict[tuple[str, str], Mailbox] = {}


def _mailbox() -> Mailbox | None:
    directory, text = os.environ.get(TRIAL_VARIABLE, ""), os.environ.get(VALUES_VARIABLE, "")
    if not directory and not text:
        return None
    key = (directory, text)
    if key not in _MAILBOXES:
        values = _parsed(VALUES_VARIABLE, text or "{}")
        if not isinstance(values, dict):
            raise TuneError(f"{VALUES_VARIABLE} is not an object of names", slug="tune-values")
        _MAILBOXES[key] = Mailbox(Path(directory) if directory else None, values)
    return _MAILBOXES[key]


def append_line(path: Path, content: Mapping[str, Any]) -> None:
    """Append one JSON line in one write, so that lines of several processes do not mix."""
    data = json.dumps(content, allow_nan=False).encode() + b"\n"
    append(path, data)


def complete_lines(path: Path) -> list[bytes]:
    """The lines of a file that end with a newline; none if there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return data.split(b"\n")[:-1]


def space_words(parameter: SearchParameter) -> dict[str, Any]:
    """A parameter as the keys that `suggest` and the configuration take."""
    if parameter.kind == "choice":
        return {"choice": list(parameter.choices)}
    words: dict[str, Any] = {
        "bounds": [parameter.low, parameter.high],
        "type": parameter.kind,
        "log": parameter.log,
    }
    if parameter.step is not None:
        words["step"] = parameter.step
    return words


def parameter_from_words(name: str, words: Mapping[str, Any]) -> SearchParameter:
    """The parameter that these keys describe; a ConfigError lists all mistakes."""
    problems = Problems(f"suggest({name!r})")
    space = read_space(located({name: dict(words)}), "space", problems)
    problems.raise_if_any()
    return space[name]


def _why_no_value(name: str, in_trial: bool, known: tuple[str, ...]) -> str:
    if not in_trial:
        return (
            f"suggest({name!r}) has no default and this is not a trial; give a default, or run the "
            "script with sonde tune"
        )
    there = f"; it has {', '.join(known)}" if known else ""
    return f"this trial has no value for {name!r} and suggest() no default{there}"


def _number(name: str, value: Any) -> float:
    detach = getattr(value, "detach", None)  # a tensor that is still part of a graph
    try:
        return float(value if detach is None else detach())
    except (TypeError, ValueError, RuntimeError):
        said = type(value).__name__
        raise TuneError(f"report(): {name} is a {said}, not a number", slug="tune-report") from None


class HyperParameters(dict[str, Any]):
    """The values of a trial, by key and by attribute."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self) or "none"
            raise AttributeError(f"the trial has no {name!r}; it has: {known}") from None


class HyperConfig:
    """The values of this trial (``params``) and the directory for its summaries (``summary_dir``).

    Replaces ``mindinsight.optimizer.HyperConfig``; raises a `TuneError` outside a search.
    """

    def __init__(self) -> None:
        content = _from_environment()
        self.params = HyperParameters(content["params"])
        self.summary_dir: str = os.path.realpath(content["summary_dir"])
        self.custom_lineage_data: dict[str, Any] = dict(content.get("custom_lineage_data") or {})


def _from_environment() -> dict[str, Any]:
    if HYPER_CONFIG_VARIABLE in os.environ:
        content = _parsed(HYPER_CONFIG_VARIABLE, os.environ[HYPER_CONFIG_VARIABLE])
    elif VALUES_VARIABLE in os.environ:
        params = _parsed(VALUES_VARIABLE, os.environ[VALUES_VARIABLE])
        content = {"params": params, "summary_dir": os.environ.get(TRIAL_VARIABLE, "summary")}
    else:
        raise TuneError(
            "HyperConfig() is for a script that 'sonde tune' runs; outside it, give values with "
            f"{VALUES_VARIABLE}='{{\"learning_rate\": 0.1}}'",
            slug="tune-values",
        )
    if not isinstance(content, dict) or not {"params", "summary_dir"} <= content.keys():
        raise TuneError(
            f"{HYPER_CONFIG_VARIABLE} needs 'params' and 'summary_dir'", slug="tune-values"
        )
    return content


def _parsed(variable: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TuneError(f"{variable} is not JSON: {error}", slug="tune-values") from None
