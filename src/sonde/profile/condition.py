"""The conditions of ``--fail-if``: ``step_time > 1.2 * baseline.json``.

A condition compares arithmetic over numbers, with or without a unit (``50ms``, ``2GiB``),
quantities of this profile, and files with an earlier profile. A file stands for the quantity that
the condition names, in that profile. `sonde.watch.expression_language` parses and evaluates it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sonde.core.errors import UsageError
from sonde.profile.analyse.split import PARTS
from sonde.profile.document import Profile, load_profile
from sonde.watch.expression_language import EvaluationContext, ExpressionError, Predicate, parse

SUMMARY = ("step_time", "profiled_step_time", "jitter", "outliers", "peak_memory")
QUANTITIES = (*SUMMARY, *PARTS, "findings")
_UNITS = {"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "%": 1e-2, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_TOKEN = re.compile(
    r"(?P<number>(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+))\s*(?P<unit>[KMG]iB|[muµ]?s|%)?(?![\w.])"
    rf"|(?P<name>{'|'.join(QUANTITIES)})(?![\w./-]*\.json)(?![./\w])"
    r"|\"(?P<double>[^\"]+)\"|'(?P<single>[^']+)'|(?P<file>(?:~|\.{0,2}/)?\w[\w./~-]*)"
    r"|(?P<operator><=|>=|==|!=|[-+*/()<>])"
    r"|(?P<space>\s+)"
)


def quantities(profile: Profile) -> dict[str, float | None]:
    """The values that a condition may name; times in seconds, sizes in bytes, None if unknown."""
    found = {name: getattr(profile.summary, name) for name in SUMMARY}
    return {**found, **profile.summary.parts, "findings": len(profile.findings)}


@dataclass(frozen=True, slots=True)
class ProfileCondition:
    """A parsed condition; ``files`` has the values of the files that it names."""

    text: str
    subject: str
    predicate: Predicate = field(compare=False, repr=False)
    files: Mapping[str, float] = field(compare=False, repr=False)

    def holds(self, profile: Profile) -> bool:
        """Whether it is true; raises UsageError if that cannot be decided."""
        values = quantities(profile)

        def value(name: str) -> float:
            known = self.files.get(name)
            return _known(self.text, name, values, "this profile") if known is None else known

        found = self.predicate.truth(EvaluationContext(value, self._divide))
        if found is None:
            raise _wrong(self.text, "compares with NaN")
        return found

    def describe(self, profile: Profile) -> str:
        """The condition and the value of the quantity that it names."""
        value = _known(self.text, self.subject, quantities(profile), "this profile")
        return f"{self.text} (it is {value:.6g})"

    def _divide(self, left: float, right: float) -> float:
        if right == 0:
            raise _wrong(self.text, "divides by zero")
        return left / right


def parse_condition(text: str, load: Callable[[Path], Profile] = load_profile) -> ProfileCondition:
    """Parse a condition and read the profiles that it names; UsageError if it is invalid."""
    python, names, paths = _translate(text)
    if not names:
        unknown = f"; {next(iter(paths.values()))!r} is none of them" if paths else ""
        raise _wrong(text, f"names no quantity ({', '.join(QUANTITIES)}){unknown}")
    if paths and len(names) > 1:
        raise _wrong(
            text,
            f"names {' and '.join(sorted(names))}, so that it is not clear which of them "
            f"{next(iter(paths.values()))} stands for",
        )
    subject = min(names)

    def check(name: str) -> str | None:
        is_known = name in names or name in paths
        return None if is_known else f"{name} is not a number that can be used here"

    try:
        predicate = parse(python, check, "quantity")
    except ExpressionError as error:
        raise _wrong(text, f"cannot be used: {error}") from None
    files = {
        name: _known(text, subject, quantities(load(Path(path).expanduser())), path)
        for name, path in paths.items()
    }
    return ProfileCondition(text.strip(), subject, predicate, files)


def _translate(text: str) -> tuple[str, set[str], dict[str, str]]:
    """The condition in Python's grammar, the quantities it names, and the file of each new name.

    ``step_time > 50ms + base.json`` becomes ``step_time > 0.05 + file_0``.
    """
    words: list[str] = []
    names: set[str] = set()
    paths: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _wrong(text, f"has {text[at]!r} in it")
        at = found.end()
        if found["number"]:
            words.append(repr(float(found["number"]) * _UNITS.get(found["unit"], 1.0)))
        elif found["name"]:
            words.append(found["name"])
            names.add(found["name"])
        elif found["operator"]:
            words.append(found["operator"])
        elif not found["space"]:
            words.append(f"file_{len(paths)}")
            paths[words[-1]] = found["double"] or found["single"] or found["file"]
    return " ".join(words), names, paths


def _known(text: str, name: str, values: Mapping[str, float | None], where: str) -> float:
    value = values[name]
    if value is None:
        raise _wrong(text, f"needs {name}, which {where} does not have")
    return value


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(
        f"--fail-if {text!r} {why}; write it like 'step_time > 1.2 * baseline.json'",
        slug="profile-condition",
    )
