"""Expressions written by the user: ``nan_count > 0 or abs_max > 10 * prev.abs_max``.

The text is parsed with Python's grammar, checked against a short list of allowed parts, and
evaluated here, never handed to ``eval``. Logic has three values: a comparison with a number that
is missing or NaN is undecided, ``undecided or true`` is true, ``undecided and false`` is false.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Final, Literal

MOST_CHARACTERS: Final = 1000
MOST_NODES: Final = 200
FUNCTIONS: Final = ("abs", "sqrt", "log", "log10", "min", "max", "isnan", "isinf")

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
"""Takes a name as written (``abs_max``, ``prev.max``); returns why it is refused, or None."""


class ExpressionError(ValueError):
    """The reason why a text is no expression."""


def parse(text: str, check_name: NameCheck, subject: str) -> ast.expr:
    """The checked tree of a condition; ``subject`` says what it must name ("statistic")."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(f"it is longer than {MOST_CHARACTERS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(_syntax_reason(text, error)) from None
    if _Checker(check_name, subject).check(tree) != "truth":
        raise ExpressionError("it is a number, not a question; compare it with something")
    return tree


def _syntax_reason(text: str, error: Exception) -> str:
    if not isinstance(error, SyntaxError):
        return str(error)
    if not text.strip():
        return "it is empty"
    if not error.offset:
        return "it ends too early"
    return f"{error.msg} at column {error.offset}"


class _Checker:
    """Walks the tree once and says of each part whether it is a number or a truth."""

    def __init__(self, check_name: NameCheck, subject: str) -> None:
        self._check_name = check_name
        self._subject = subject
        self._nodes = 0
        self._names = 0

    def check(self, node: ast.expr) -> Literal["number", "truth"]:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise _wrong(node, f"it has more than {MOST_NODES} parts")
        if isinstance(node, ast.BoolOp):
            for part in node.values:
                self._must_be(part, "truth")
            return "truth"
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.BinOp):
            return self._arithmetic(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
                raise _wrong(node, f"{ast.unparse(node)} is not a number that can be used here")
            return "number"
        self._name(node)
        return "number"

    def _arithmetic(self, node: ast.BinOp) -> Literal["number"]:
        if type(node.op) not in _ARITHMETIC and not isinstance(node.op, ast.Div):
            raise _wrong(node, "of arithmetic only + - * / may be used")
        self._must_be(node.left, "number")
        names = self._names
        self._must_be(node.right, "number")
        is_constant = names == self._names
        if isinstance(node.op, ast.Div) and is_constant and _constant(node.right) == 0:
            raise _wrong(node, f"{ast.unparse(node)!r} divides by zero")
        return "number"

    def _unary(self, node: ast.UnaryOp) -> Literal["number", "truth"]:
        if isinstance(node.op, ast.Not):
            self._must_be(node.operand, "truth")
            return "truth"
        if not isinstance(node.op, ast.USub | ast.UAdd):
            raise _wrong(node, "of signs only + and - may be used")
        self._must_be(node.operand, "number")
        return "number"

    def _compare(self, node: ast.Compare) -> Literal["truth"]:
        for sign in node.ops:
            if type(sign) not in _COMPARE:
                raise _wrong(node, "numbers are compared with < <= > >= == !=")
        names = self._names
        for part in (node.left, *node.comparators):
            self._must_be(part, "number")
        self._must_name(node, names)
        return "truth"

    def _must_name(self, node: ast.expr, names: int) -> None:
        """Refuse ``node`` unless it names something; ``names`` is the count before it."""
        if names == self._names:
            raise _wrong(
                node,
                f"{ast.unparse(node)!r} names no {self._subject}, so its answer is always the same",
            )

    def _call(self, node: ast.Call) -> Literal["number", "truth"]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS or node.keywords:
            raise _wrong(node, f"the functions are {', '.join(FUNCTIONS)}")
        least, most = (2, 9) if name in ("min", "max") else (1, 1)
        if not least <= len(node.args) <= most:
            raise _wrong(node, f"{name} takes {'two or more numbers' if most > 1 else 'one'}")
        names = self._names
        for part in node.args:
            self._must_be(part, "number")
        if not name.startswith("is"):
            return "number"
        self._must_name(node, names)
        return "truth"

    def _name(self, node: ast.expr) -> None:
        self._names += 1
        is_dotted = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if not (isinstance(node, ast.Name) or is_dotted):
            raise _wrong(node, f"{ast.unparse(node)!r} cannot stand in an expression")
        reason = self._check_name(ast.unparse(node))
        if reason is not None:
            raise _wrong(node, reason)

    def _must_be(self, node: ast.expr, what: Literal["number", "truth"]) -> None:
        if self.check(node) != what:
            other = "a question" if what == "number" else "a number"
            wanted = "a number" if what == "number" else "a question such as 'max > 1'"
            raise _wrong(node, f"{ast.unparse(node)!r} is {other} where {wanted} is needed")


def _wrong(node: ast.expr, reason: str) -> ExpressionError:
    return ExpressionError(f"{reason} (column {node.col_offset + 1})")


class Evaluation:
    """One evaluation of a checked tree.

    ``value_of`` gives the number of a name, None where it is missing. ``why`` says after `truth`
    why a comparison with NaN could not be decided.
    """

    def __init__(
        self,
        value_of: Callable[[str], float | None],
        divide: Callable[[float, float], float] | None = None,
    ) -> None:
        self._value_of = value_of
        self._divide = divide or ieee_divide
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
                return self._divide(left, right)
            return _ARITHMETIC[type(node.op)](left, right)
        if isinstance(node, ast.Call):
            return self._call(node)
        return self._value_of(ast.unparse(node))

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


def _constant(node: ast.expr) -> float | None:
    """The value of a part without names."""
    return Evaluation(lambda name: None).number(node)


def ieee_divide(left: float, right: float) -> float:
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
