"""The conditions of ``--fail-if``: ``step_time > 1.2 * baseline.json``.

A condition compares arithmetic over numbers (with a unit if wanted: ``50ms``, ``2GiB``), quantities
of the profile at hand, and files with an earlier profile. A file stands for the quantity that the
condition names, in that profile. `sonde.watch.expression_language` parses and evaluates it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sonde.core.errors import UsageError
from sonde.profile.analyse.split import PARTS
from sonde.profile.document import Profile, load_profile
from sonde.watch.expression_language import Evaluation, ExpressionError, Question, parse

_UNITS = {
    "": 1.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "%": 1e-2,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
}
_NUMBER = re.compile(r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*(KiB|MiB|GiB|ms|us|µs|s|%)?(?![\w.])")
_NAME = re.compile(r"[A-Za-z_]\w*(?![\w./-]*\.json)(?![./\w])")
_FILE = re.compile(r"\"([^\"]+)\"|'([^']+)'|((?:~|\.{0,2}/)?[\w][\w./~-]*)")
_SIGN = re.compile(r"<=|>=|==|!=|[-+*/()<>]")


def quantities(profile: Profile) -> dict[str, float | None]:
    """What a condition may name. Times are seconds, sizes bytes; None is not known."""
    summary = profile.summary
    return {
        "step_time": summary.step_time,
        "profiled_step_time": summary.profiled_step_time,
        **{part: summary.parts.get(part) for part in PARTS},
        "jitter": summary.jitter,
        "outliers": float(summary.outliers),
        "peak_memory": None if summary.peak_memory is None else float(summary.peak_memory),
        "findings": float(len(profile.findings)),
    }


QUANTITIES = (
    "step_time",
    "profiled_step_time",
    *PARTS,
    "jitter",
    "outliers",
    "peak_memory",
    "findings",
)


@dataclass(frozen=True, slots=True)
class ProfileCondition:
    """A condition that can be asked of a profile; the files it names have been read."""

    text: str
    subject: str
    question: Question = field(compare=False, repr=False)
    files: Mapping[str, float] = field(compare=False, repr=False)

    def holds(self, profile: Profile) -> bool:
        """Whether it is true; an unknown quantity is a UsageError, not a pass."""
        values = quantities(profile)

        def value(name: str) -> float:
            if name in self.files:
                return self.files[name]
            return _known(self.text, name, values, "this profile")

        found = self.question.truth(Evaluation(value, self._divide))
        if found is None:
            raise _wrong(self.text, "compares with NaN")
        return found

    def describe(self, profile: Profile) -> str:
        """The condition with the number it is about."""
        value = _known(self.text, self.subject, quantities(profile), "this profile")
        return f"{self.text} (it is {value:.6g})"

    def _divide(self, left: float, right: float) -> float:
        if right == 0:
            raise _wrong(self.text, "divides by zero")
        return left / right


def parse_condition(text: str, load: Callable[[Path], Profile] = load_profile) -> ProfileCondition:
    """Read a condition and the profiles it names; a mistake in it is a UsageError."""
    rewritten, names, paths = _rewrite(text)
    if not names:
        unknown = f"; {paths[0]!r} is none of them" if paths else ""
        raise _wrong(text, f"names no quantity ({', '.join(QUANTITIES)}){unknown}")
    if paths and len(names) > 1:
        raise _wrong(
            text,
            f"names {' and '.join(sorted(names))}, so that it is not clear which of them "
            f"{paths[0]} stands for",
        )
    subject = min(names)
    known = {*names, *(_file_name(number) for number in range(len(paths)))}

    def check(name: str) -> str | None:
        return None if name in known else f"{name} is not a number that can be used here"

    try:
        question = parse(rewritten, check, "quantity")
    except ExpressionError as error:
        raise _wrong(text, f"cannot be used: {error}") from None
    earlier = (quantities(load(Path(path).expanduser())) for path in paths)
    values = (
        _known(text, subject, found, path) for found, path in zip(earlier, paths, strict=True)
    )
    files = {_file_name(number): value for number, value in enumerate(values)}
    return ProfileCondition(text.strip(), subject, question, files)


def _rewrite(text: str) -> tuple[str, set[str], list[str]]:
    """The text in Python's grammar, the quantities it names and the files.

    ``step_time > 50ms + base.json`` becomes ``step_time > 0.05 + file_0``.
    """
    words: list[str] = []
    names: set[str] = set()
    paths: list[str] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        if (found := _NUMBER.match(text, at)) is not None:
            words.append(repr(float(found[1]) * _UNITS[found[2] or ""]))
        elif (found := _NAME.match(text, at)) is not None and found[0] in QUANTITIES:
            words.append(found[0])
            names.add(found[0])
        elif (found := _FILE.match(text, at)) is not None:
            words.append(_file_name(len(paths)))
            paths.append(found[1] or found[2] or found[3])
        elif (found := _SIGN.match(text, at)) is not None:
            words.append(found[0])
        else:
            raise _wrong(text, f"has {text[at]!r} in it")
        at = found.end()
    return " ".join(words), names, paths


def _file_name(number: int) -> str:
    return f"file_{number}"


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
