"""The conditions of ``--fail-if``: ``step_time > 1.2 * baseline.json``. Parsed, never evaluated
as Python.

A condition compares arithmetic over numbers (with a unit if wanted: ``50ms``, ``2GiB``), quantities
of the profile at hand, and files with an earlier profile. A file stands for the quantity that its
comparison is about, in that profile.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sonde.core.errors import UsageError
from sonde.profile.document import Profile, load_profile
from sonde.profile.split import PARTS

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
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_DEEPEST = 50

Value = Callable[[Profile], float]


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
class Condition:
    """A condition that can be asked of a profile; its files have been read."""

    text: str
    _holds: Callable[[Profile], bool]
    _value: Value

    def holds(self, profile: Profile) -> bool:
        """Whether it is true; an unknown quantity is a UsageError, not a pass."""
        return self._holds(profile)

    def describe(self, profile: Profile) -> str:
        """The condition with the number it is about."""
        return f"{self.text} (it is {self._value(profile):.6g})"


def parse_condition(text: str, load: Callable[[Path], Profile] = load_profile) -> Condition:
    """Read a condition and the profiles it names; what is wrong with it is a UsageError."""
    return _Parser(text, load).condition()


@dataclass(slots=True)
class _Token:
    kind: str
    text: str
    number: float = 0.0


class _Parser:
    """Comparison = sum, sign, sum; sum = product {+|- product}; product = unary {*|/ unary}."""

    def __init__(self, text: str, load: Callable[[Path], Profile]) -> None:
        self._text = text
        self._load = load
        self._tokens = self._split(text)
        self._at = 0
        self._depth = 0
        self._subject = self._the_subject()

    def condition(self) -> Condition:
        left = self._sum()
        sign = self._next()
        if sign.text not in _COMPARISONS:
            raise self._wrong("has no comparison such as >")
        right = self._sum()
        if self._at < len(self._tokens):
            raise self._wrong(f"goes on with {self._tokens[self._at].text!r} after its end")
        compare = _COMPARISONS[sign.text]
        subject = self._subject
        return Condition(
            self._text.strip(),
            lambda profile: compare(left(profile), right(profile)),
            lambda profile: self._known(subject, quantities(profile), "this profile"),
        )

    def _split(self, text: str) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            token, at = self._token(text, at)
            tokens.append(token)
        return tokens

    def _token(self, text: str, at: int) -> tuple[_Token, int]:
        if (number := _NUMBER.match(text, at)) is not None:
            value = float(number[1]) * _UNITS[number[2] or ""]
            return _Token("number", number[0], value), number.end()
        if (name := _NAME.match(text, at)) is not None and name[0] in QUANTITIES:
            return _Token("name", name[0]), name.end()
        if (file := _FILE.match(text, at)) is not None:
            path = file[1] or file[2] or file[3]
            return _Token("file", path), file.end()
        if (sign := _SIGN.match(text, at)) is not None:
            return _Token("sign", sign[0]), sign.end()
        raise self._wrong(f"has {text[at]!r} in it")

    def _the_subject(self) -> str:
        names = {token.text for token in self._tokens if token.kind == "name"}
        files = [token.text for token in self._tokens if token.kind == "file"]
        if not names:
            unknown = f"; {files[0]!r} is none of them" if files else ""
            raise self._wrong(f"names no quantity ({', '.join(QUANTITIES)}){unknown}")
        if files and len(names) > 1:
            raise self._wrong(
                f"names {' and '.join(sorted(names))}, so that it is not clear which of them "
                f"{files[0]} stands for"
            )
        return min(names)

    def _sum(self) -> Value:
        value = self._product()
        while (sign := self._take("+", "-")) is not None:
            value = _applied(operator.add if sign == "+" else operator.sub, value, self._product())
        return value

    def _product(self) -> Value:
        value = self._unary()
        while (sign := self._take("*", "/")) is not None:
            other = self._unary()
            value = _applied(operator.mul if sign == "*" else self._divide, value, other)
        return value

    def _unary(self) -> Value:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong("is nested too deeply")
        try:
            if self._take("-") is not None:
                inner = self._unary()
                return lambda profile: -inner(profile)
            if self._take("(") is not None:
                inner = self._sum()
                if self._take(")") is None:
                    raise self._wrong("has a ( without a )")
                return inner
            return self._leaf(self._next())
        finally:
            self._depth -= 1

    def _leaf(self, token: _Token) -> Value:
        if token.kind == "number":
            return lambda profile: token.number
        if token.kind == "name":
            name = token.text
            return lambda profile: self._known(name, quantities(profile), "this profile")
        if token.kind == "file":
            earlier = quantities(self._load(Path(token.text).expanduser()))
            value = self._known(self._subject, earlier, token.text)
            return lambda profile: value
        raise self._wrong(f"has {token.text!r} where a number, a quantity or a file should be")

    def _known(self, name: str, values: Mapping[str, float | None], where: str) -> float:
        value = values[name]
        if value is None:
            raise self._wrong(f"needs {name}, which {where} does not have")
        return value

    def _divide(self, a: float, b: float) -> float:
        if b == 0:
            raise self._wrong("divides by zero")
        return a / b

    def _take(self, *signs: str) -> str | None:
        if self._at < len(self._tokens) and self._tokens[self._at].text in signs:
            if self._tokens[self._at].kind != "sign":
                return None
            self._at += 1
            return self._tokens[self._at - 1].text
        return None

    def _next(self) -> _Token:
        if self._at >= len(self._tokens):
            raise self._wrong("ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _wrong(self, why: str) -> UsageError:
        return UsageError(
            f"--fail-if {self._text!r} {why}; write it like 'step_time > 1.2 * baseline.json'",
            slug="profile-condition",
        )


def _applied(apply: Callable[[float, float], float], left: Value, right: Value) -> Value:
    return lambda profile: apply(left(profile), right(profile))
