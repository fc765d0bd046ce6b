"""Expressions written by the user: ``nan_count > 0 or abs_max > 10 * prev.abs_max``.

The text is parsed with Python's grammar, checked against a short list of allowed parts, and
compiled to functions; ``eval`` is never used. Logic has three values: a comparison with a number
that is missing or NaN is undecided; "undecided or true" is true, "undecided and false" is false.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

MOST_CHARACTERS: Final = 1000
MOST_NODES: Final = 200
MOST_EARLIER: Final = 1000
"""How many earlier values an aggregate may take."""

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

Truth = bool | None
NameCheck = Callable[[str], str | None]
"""Takes a name as written (``abs_max``, ``prev.max``); returns why it is not allowed, or None."""


class ExpressionError(ValueError):
    """The reason why a text is not an expression."""


def parse(
    text: str, check_name: NameCheck, subject: str, aggregates: Collection[str] = ()
) -> Predicate:
    """Compile a condition; ``subject`` says what it must name ("statistic").

    ``aggregates`` are functions of earlier values of a name, ``median(grad_norm, 100)``, which the
    caller computes: `EvaluationContext.aggregate`.
    """
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(f"it is longer than {MOST_CHARACTERS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(_syntax_reason(text, error)) from None
    found = _Compiler(check_name, subject, aggregates).compile(tree)
    if not isinstance(found, Predicate):
        raise ExpressionError("it is a number, not a question; compare it with something")
    return found


def _syntax_reason(text: str, error: Exception) -> str:
    if not isinstance(error, SyntaxError):
        return str(error)
    if not text.strip():
        return "it is empty"
    if not error.offset:
        return "it ends too early"
    return f"{error.msg} at column {error.offset}"


@dataclass(slots=True)
class EvaluationContext:
    """One evaluation of a compiled condition.

    ``value_of`` returns the number of a name, None if it is missing. ``aggregate`` returns the
    result of a function of so many earlier values of a name, None if there are fewer. ``why`` is
    set if a comparison with NaN could not be decided.
    """

    value_of: Callable[[str], float | None]
    divide: Callable[[float, float], float] = field(default_factory=lambda: ieee_divide)
    aggregate: Callable[[str, str, int], float | None] = lambda function, name, count: None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A part of an expression that is true, false or undecided."""

    truth: Callable[[EvaluationContext], Truth]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A part of an expression that is a number; None if a name in it has no value."""

    number: Callable[[EvaluationContext], float | None]


Part = TypeVar("Part", Predicate, Quantity)


class _Compiler:
    """Checks and compiles the parts of a tree, from the outside in."""

    def __init__(self, check_name: NameCheck, subject: str, aggregates: Collection[str]) -> None:
        self._check_name = check_name
        self._subject = subject
        self._aggregates = aggregates
        self._nodes = 0
        self._names = 0

    def compile(self, node: ast.expr) -> Predicate | Quantity:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise _wrong(node, f"it has more than {MOST_NODES} parts")
        match node:
            case ast.BoolOp():
                return self._logic(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.Compare():
                return self._compare(node)
            case ast.BinOp():
                return self._arithmetic(node)
            case ast.Call():
                return self._call(node)
            case ast.Constant():
                return _constant(node)
        return self._name(node)

    def _part(self, node: ast.expr, kind: type[Part]) -> Part:
        """Compile a part that must be a question, or a number."""
        found = self.compile(node)
        if not isinstance(found, kind):
            other, wanted = "a number", "a question such as 'max > 1'"
            if kind is Quantity:
                other, wanted = "a question", "a number"
            raise _wrong(node, f"{ast.unparse(node)!r} is {other} where {wanted} is needed")
        return found

    def _logic(self, node: ast.BoolOp) -> Predicate:
        parts = [self._part(part, Predicate).truth for part in node.values]
        decisive = isinstance(node.op, ast.Or)

        def truth(context: EvaluationContext) -> Truth:
            found = [part(context) for part in parts]
            if decisive in found:
                return decisive
            return None if None in found else not decisive

        return Predicate(truth)

    def _unary(self, node: ast.UnaryOp) -> Predicate | Quantity:
        if isinstance(node.op, ast.Not):
            inner = self._part(node.operand, Predicate).truth

            def truth(context: EvaluationContext) -> Truth:
                found = inner(context)
                return None if found is None else not found

            return Predicate(truth)
        if not isinstance(node.op, ast.USub | ast.UAdd):
            raise _wrong(node, "of signs only + and - may be used")
        sign = operator.neg if isinstance(node.op, ast.USub) else operator.pos
        return _applied(sign, self._part(node.operand, Quantity))

    def _compare(self, node: ast.Compare) -> Predicate:
        for sign in node.ops:
            if type(sign) not in _COMPARE:
                raise _wrong(node, "numbers are compared with < <= > >= == !=")
        names = self._names
        sides = [self._part(part, Quantity).number for part in (node.left, *node.comparators)]
        self._must_name(node, names)
        holds = [_COMPARE[type(sign)] for sign in node.ops]
        text = ast.unparse(node)

        def truth(context: EvaluationContext) -> Truth:
            numbers = [side(context) for side in sides]
            found: Truth = True
            for left, right, hold in zip(numbers, numbers[1:], holds, strict=False):
                if left is None or right is None or math.isnan(left) or math.isnan(right):
                    if left is not None and right is not None:
                        context.why = context.why or f"{text!r} compares with NaN"
                    found = None if found is not False else False
                elif not hold(left, right):
                    found = False
            return found

        return Predicate(truth)

    def _must_name(self, node: ast.expr, names: int) -> None:
        """Raise unless ``node`` names something; ``names`` is the number of names before it."""
        if names == self._names:
            raise _wrong(
                node,
                f"{ast.unparse(node)!r} names no {self._subject}, so its answer is always the same",
            )

    def _arithmetic(self, node: ast.BinOp) -> Quantity:
        is_division = isinstance(node.op, ast.Div)
        if type(node.op) not in _ARITHMETIC and not is_division:
            raise _wrong(node, "of arithmetic only + - * / may be used")
        left = self._part(node.left, Quantity)
        names = self._names
        right = self._part(node.right, Quantity)
        if not is_division:
            return _applied(_ARITHMETIC[type(node.op)], left, right)
        if names == self._names and right.number(EvaluationContext(lambda name: None)) == 0:
            raise _wrong(node, f"{ast.unparse(node)!r} divides by zero")
        return Quantity(lambda e: _applied(e.divide, left, right).number(e))

    def _call(self, node: ast.Call) -> Predicate | Quantity:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in self._aggregates and not node.keywords:
            return self._aggregate(node, name)
        if name not in FUNCTIONS or node.keywords:
            known = ", ".join((*FUNCTIONS, *self._aggregates))
            raise _wrong(node, f"the functions are {known}")
        least, most = (2, 9) if name in ("min", "max") else (1, 1)
        if not least <= len(node.args) <= most:
            raise _wrong(node, f"{name} takes {'two or more numbers' if most > 1 else 'one'}")
        names = self._names
        arguments = [self._part(part, Quantity) for part in node.args]
        if name not in _TESTS:
            return _applied(_FUNCTIONS[name], *arguments)
        self._must_name(node, names)
        test, number = _TESTS[name], arguments[0].number

        def truth(context: EvaluationContext) -> Truth:
            value = number(context)
            return None if value is None else test(value)

        return Predicate(truth)

    def _aggregate(self, node: ast.Call, function: str) -> Quantity:
        """``median(grad_norm, 100)``: a name, and how many of its earlier values to take."""
        match node.args:
            case [ast.Name() as name, ast.Constant(value=int(count))] if (
                not isinstance(count, bool) and 2 <= count <= MOST_EARLIER
            ):
                self._name(name)  # Raises if the name is not known.
                return Quantity(lambda context: context.aggregate(function, name.id, count))
        raise _wrong(
            node,
            f"{function} takes a {self._subject} and how many steps before, from 2 to "
            f"{MOST_EARLIER}: {function}(NAME, 100)",
        )

    def _name(self, node: ast.expr) -> Quantity:
        self._names += 1
        is_dotted = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        name = ast.unparse(node)
        if not (isinstance(node, ast.Name) or is_dotted):
            raise _wrong(node, f"{name!r} cannot stand in an expression")
        reason = self._check_name(name)
        if reason is not None:
            raise _wrong(node, reason)
        return Quantity(lambda context: context.value_of(name))


def _constant(node: ast.Constant) -> Quantity:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        raise _wrong(node, f"{ast.unparse(node)} is not a number that can be used here")
    number = float(value)
    return Quantity(lambda _: number)


def _applied(function: Callable[..., float], *parts: Quantity) -> Quantity:
    """The function of numbers; None if one of them is missing."""

    def number(context: EvaluationContext) -> float | None:
        numbers = [part.number(context) for part in parts]
        return None if None in numbers else function(*numbers)

    return Quantity(number)


def _wrong(node: ast.expr, reason: str) -> ExpressionError:
    return ExpressionError(f"{reason} (column {node.col_offset + 1})")


def ieee_divide(left: float, right: float) -> float:
    """Division as in IEEE 754: 1 / 0 is infinite, 0 / 0 is NaN."""
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _logarithm(value: float, function: Callable[[float], float]) -> float:
    if value > 0:
        return function(value)
    return -math.inf if value == 0 else math.nan


def _extreme(function: Callable[[Sequence[float]], float]) -> Callable[..., float]:
    """``min`` or ``max``; NaN if a number is."""
    return lambda *numbers: math.nan if any(map(math.isnan, numbers)) else function(numbers)


_FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = {
    "abs": abs,
    "sqrt": lambda value: math.sqrt(value) if value >= 0 else math.nan,
    "log": lambda value: _logarithm(value, math.log),
    "log10": lambda value: _logarithm(value, math.log10),
    "min": _extreme(min),
    "max": _extreme(max),
}
_TESTS: Final = {"isnan": math.isnan, "isinf": math.isinf}
FUNCTIONS: Final = (*_FUNCTIONS, *_TESTS)
