"""Conditions written by the user: ``nan_count > 0 or abs_max > 10 * prev.abs_max``.

The text is parsed with Python's grammar, checked against a short list of what may stand in it,
and computed here, never handed to ``eval``. Logic has three values: a comparison with a number
that is not there (no former value) or is NaN (the maximum of a tensor with a NaN) is undecided,
``undecided or true`` is true, ``undecided and false`` is false.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Final, Literal

from sonde.conditions.contract import Evidence, Judgement, Needs, Target, Value
from sonde.core.errors import UsageError
from sonde.core.statistics import Statistics

_MOST_CHARACTERS: Final = 1000
_MOST_NODES: Final = 200
_EXTRA: Final[Mapping[str, Callable[[Statistics], float]]] = {
    "abs_max": lambda s: s.abs_max,
    "non_finite_count": lambda s: s.non_finite_count,
    "inf_count": lambda s: s.positive_inf_count + s.negative_inf_count,
    "zero_percentage": lambda s: 100 * s.zero_count / s.count if s.count else math.nan,
    "mean": lambda s: s.avg,
    "range": lambda s: s.max - s.min,
}
STATISTIC_NAMES: Final = (*(each.name for each in fields(Statistics)), *_EXTRA)
NAMES: Final = (*STATISTIC_NAMES, *(f"prev.{name}" for name in STATISTIC_NAMES), "step")

_COMPARE: Final[Mapping[type[ast.cmpop], Callable[[float, float], bool]]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_FUNCTIONS: Final = ("abs", "sqrt", "log", "log10", "min", "max", "isnan", "isinf")

Truth = bool | None


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition written out. ``tree`` has been checked: every node of it can be computed."""

    text: str
    tree: ast.expr = field(compare=False, repr=False)
    uses_previous: bool
    id: str = "expression"
    target: Target = "tensor"

    @property
    def needs(self) -> Needs:
        return Needs(statistics=True, previous_statistics=self.uses_previous)

    def judge(self, evidence: Evidence) -> Judgement:
        if evidence.statistics is None:
            return Judgement("undecided", evidence.missing or "the tensor has no statistics")
        computing = _Computing(evidence)
        found = computing.truth(self.tree)
        values = tuple(
            Value(name, None, None if math.isnan(number) else number)
            for name, number in computing.used.items()
        )
        if found is None:
            return Judgement("undecided", computing.why, values)
        return Judgement("hit" if found else "clear", "", values)

    def clears(self, statistics: Statistics) -> bool:
        return False

    @property
    def screen(self) -> None:
        return None


def parse_expression(text: str) -> Expression:
    """The condition ``text`` says; UsageError names what cannot stand in it, and where."""
    if len(text) > _MOST_CHARACTERS:
        raise _wrong(text[:40] + "...", f"it is longer than {_MOST_CHARACTERS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise _wrong(text, _syntax_words(text, error)) from None
    checker = _Checker(text)
    if checker.check(tree) != "truth":
        raise _wrong(text, "it is a number, not a question; compare it with something")
    return Expression(text.strip(), tree, checker.uses_previous)


def _syntax_words(text: str, error: Exception) -> str:
    if not isinstance(error, SyntaxError):
        return str(error)
    if not text.strip():
        return "it is empty"
    if not error.offset:
        return "it ends too early"
    return f"{error.msg} at column {error.offset}"


def _wrong(text: str, reason: str) -> UsageError:
    return UsageError(f"the expression {text!r} cannot be used: {reason}", slug="expression")


class _Checker:
    """Walks the tree once and says of each part whether it is a number or a truth."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._nodes = 0
        self._names = 0
        self.uses_previous = False

    def check(self, node: ast.expr) -> Literal["number", "truth"]:
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise self._wrong(node, f"it has more than {_MOST_NODES} parts")
        if isinstance(node, ast.BoolOp):
            for part in node.values:
                self._must_be(part, "truth")
            return "truth"
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.BinOp):
            if type(node.op) not in _ARITHMETIC and not isinstance(node.op, ast.Div):
                raise self._wrong(node, "of arithmetic only + - * / may be used")
            self._must_be(node.left, "number")
            names = self._names
            self._must_be(node.right, "number")
            if isinstance(node.op, ast.Div) and names == self._names and _constant(node.right) == 0:
                raise self._wrong(node, f"{ast.unparse(node)!r} divides by zero")
            return "number"
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
                raise self._wrong(node, f"{ast.unparse(node)} is not a number that can stand here")
            return "number"
        self._name(node)
        return "number"

    def _unary(self, node: ast.UnaryOp) -> Literal["number", "truth"]:
        if isinstance(node.op, ast.Not):
            self._must_be(node.operand, "truth")
            return "truth"
        if not isinstance(node.op, ast.USub | ast.UAdd):
            raise self._wrong(node, "of signs only + and - may be used")
        self._must_be(node.operand, "number")
        return "number"

    def _compare(self, node: ast.Compare) -> Literal["truth"]:
        for sign in node.ops:
            if type(sign) not in _COMPARE:
                raise self._wrong(node, "numbers are compared with < <= > >= == !=")
        names = self._names
        for part in (node.left, *node.comparators):
            self._must_be(part, "number")
        self._must_ask(node, names)
        return "truth"

    def _must_ask(self, node: ast.expr, names: int) -> None:
        """``names``: how many had been met before ``node``, which must have some of its own."""
        if names == self._names:
            raise self._wrong(
                node,
                f"{ast.unparse(node)!r} names no statistic, so its answer is the same for every "
                "tensor; compare one, as in 'abs_max > 1'",
            )

    def _call(self, node: ast.Call) -> Literal["number", "truth"]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in _FUNCTIONS or node.keywords:
            raise self._wrong(node, f"the functions are {', '.join(_FUNCTIONS)}")
        least, most = (2, 9) if name in ("min", "max") else (1, 1)
        if not least <= len(node.args) <= most:
            raise self._wrong(node, f"{name} takes {'two or more numbers' if most > 1 else 'one'}")
        names = self._names
        for part in node.args:
            self._must_be(part, "number")
        if not name.startswith("is"):
            return "number"
        self._must_ask(node, names)
        return "truth"

    def _name(self, node: ast.expr) -> None:
        self._names += 1
        is_former = (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "prev"
        )
        if isinstance(node, ast.Attribute) and is_former:
            name = node.attr
            self.uses_previous = True
        elif isinstance(node, ast.Name):
            name = node.id
            if name == "step":
                return
        else:
            raise self._wrong(node, f"{ast.unparse(node)!r} cannot stand in an expression")
        if name not in STATISTIC_NAMES:
            near = get_close_matches(name, STATISTIC_NAMES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"use {', '.join(STATISTIC_NAMES)}"
            raise self._wrong(node, f"{name!r} is not known; {hint}")

    def _must_be(self, node: ast.expr, what: Literal["number", "truth"]) -> None:
        if self.check(node) != what:
            other = "a question" if what == "number" else "a number"
            wanted = "a number" if what == "number" else "a question such as 'max > 1'"
            raise self._wrong(node, f"{ast.unparse(node)!r} is {other} where {wanted} is needed")

    def _wrong(self, node: ast.expr, reason: str) -> UsageError:
        return _wrong(self._text, f"{reason} (column {node.col_offset + 1})")


class _Computing:
    """One computation: the numbers it used, and why a part of it could not be decided."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.used: dict[str, float] = {}
        self.why = ""

    def truth(self, node: ast.expr) -> Truth:
        if isinstance(node, ast.BoolOp):
            parts = [self.truth(part) for part in node.values]
            decisive = isinstance(node.op, ast.Or)
            if decisive in parts:
                return decisive
            return None if None in parts else not decisive
        if isinstance(node, ast.UnaryOp):
            inner = self.truth(node.operand)
            return None if inner is None else not inner
        if isinstance(node, ast.Call):
            value = self.number(node.args[0])
            assert isinstance(node.func, ast.Name)
            if value is None:
                return None
            return math.isnan(value) if node.func.id == "isnan" else math.isinf(value)
        assert isinstance(node, ast.Compare)
        return self._compare(node)

    def _compare(self, node: ast.Compare) -> Truth:
        left = self.number(node.left)
        found: Truth = True
        for sign, part in zip(node.ops, node.comparators, strict=True):
            right = self.number(part)
            if left is None or right is None or math.isnan(left) or math.isnan(right):
                if left is not None and right is not None:
                    self.why = self.why or f"{ast.unparse(node)!r} compares with NaN"
                found = None if found is not False else False
            elif not _COMPARE[type(sign)](left, right):
                found = False
            left = right
        return found

    def number(self, node: ast.expr) -> float | None:
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, int | float)
            return float(node.value)
        if isinstance(node, ast.UnaryOp):
            inner = self.number(node.operand)
            return -inner if inner is not None and isinstance(node.op, ast.USub) else inner
        if isinstance(node, ast.BinOp):
            left, right = self.number(node.left), self.number(node.right)
            if left is None or right is None:
                return None
            if isinstance(node.op, ast.Div):
                return _divide(left, right)
            return _ARITHMETIC[type(node.op)](left, right)
        if isinstance(node, ast.Call):
            return self._call(node)
        return self._named(node)

    def _call(self, node: ast.Call) -> float | None:
        numbers = [self.number(part) for part in node.args]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers):
            return None
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in ("min", "max"):
            if any(math.isnan(number) for number in known):
                return math.nan
            return min(known) if name == "min" else max(known)
        return _ONE[name](known[0])

    def _named(self, node: ast.expr) -> float | None:
        text = ast.unparse(node)
        if text == "step":
            return float(self._evidence.step)
        statistics = self._evidence.statistics
        name = text
        if text.startswith("prev."):
            statistics, name = self._evidence.previous, text.removeprefix("prev.")
        if statistics is None:
            self.why = self.why or self._evidence.no_previous
            return None
        read = _EXTRA.get(name)
        found = float(read(statistics) if read is not None else getattr(statistics, name))
        self.used[text] = found
        return found


def _constant(node: ast.expr) -> float | None:
    """The value of a part without names."""
    return _Computing(Evidence()).number(node)


def _divide(left: float, right: float) -> float:
    """As IEEE has it: 1 / 0 is infinite, 0 / 0 is NaN."""
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _logarithm(value: float, function: Callable[[float], float]) -> float:
    if value > 0:
        return function(value)
    return -math.inf if value == 0 else math.nan


_ONE: Final[Mapping[str, Callable[[float], float]]] = {
    "abs": abs,
    "sqrt": lambda value: math.sqrt(value) if value >= 0 else math.nan,
    "log": lambda value: _logarithm(value, math.log),
    "log10": lambda value: _logarithm(value, math.log10),
}
