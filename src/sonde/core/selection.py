"""Which steps, ops, inputs or outputs, and ranks the user has selected."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sonde.core.errors import SondeError
from sonde.core.keys import Io
from sonde.core.text.linear_regex import LinearRegex

_RANGE = re.compile(r"^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$")
_REGEX = re.compile(r"^name-regex\((.*)\)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StepSet:
    """A set of steps: sorted, disjoint, inclusive ranges, or every step."""

    ranges: tuple[tuple[int, int], ...]
    every: bool = False

    def __contains__(self, step: int) -> bool:
        return self.every or any(first <= step <= last for first, last in self.ranges)

    @property
    def last(self) -> int | None:
        """The last step of the set; None when it has no end."""
        return None if self.every or not self.ranges else self.ranges[-1][1]

    def __str__(self) -> str:
        if self.every:
            return "all"
        return "|".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges)


ALL_STEPS = StepSet((), every=True)


def parse_steps(text: str) -> StepSet:
    """``"0|5-8|100-120"`` or ``"all"``; spaces are free, overlapping ranges are merged."""
    if text.strip() == "all":
        return ALL_STEPS
    spans: list[tuple[int, int]] = []
    for part in text.split("|"):
        match = _RANGE.match(part)
        if match is None:
            raise SondeError(
                f"{text!r} is not a list of steps such as '0|5-8' or 'all'", slug="steps"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise SondeError(
                f"{text!r}: the range {first}-{last} runs backwards; write {last}-{first}",
                slug="steps",
            )
        spans.append((first, last))
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return StepSet(tuple(merged))


@dataclass(frozen=True, slots=True)
class OpPattern:
    """One entry of ``kernels``: an exact full name, a part of an op type, or a regular expression.

    - ``name-regex(...)`` must match the whole full name, in linear time (``core.linear_regex``);
    - text with a ``/`` or ``-op`` is an exact full name;
    - any other word is a part of the op type, or of a leaf's name, whatever its case.
    """

    text: str
    _regex: LinearRegex | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> OpPattern:
        match = _REGEX.match(text.strip())
        if match is None:
            if not text.strip():
                raise SondeError("an empty text selects no op", slug="op-pattern")
            if text.strip().startswith("name-regex("):
                raise SondeError(
                    f"{text!r} does not end with the ')' of name-regex(...)", slug="op-pattern"
                )
            return cls(text.strip())
        try:
            return cls(text.strip(), LinearRegex(match[1]))
        except re.error as error:
            raise SondeError(
                f"{text!r} is not a regular expression: {error}", slug="op-pattern"
            ) from None

    @property
    def is_exact(self) -> bool:
        return self._regex is None and ("/" in self.text or "-op" in self.text)

    def matches(self, name: str, op_type: str, *, is_leaf: bool = False) -> bool:
        if self._regex is not None:
            return self._regex.matches(name)
        if self.is_exact:
            return name == self.text
        word = self.text.lower()
        return word in op_type.lower() or (is_leaf and word in name.lower())


@dataclass(frozen=True, slots=True)
class Selection:
    """Steps, ops, inputs and outputs, ranks. ``ops`` None means every op."""

    steps: StepSet = ALL_STEPS
    ops: tuple[OpPattern, ...] | None = None
    ios: frozenset[Io] = frozenset({"input", "output"})
    ranks: frozenset[int] | None = None

    def wants_rank(self, rank: int) -> bool:
        return self.ranks is None or rank in self.ranks
