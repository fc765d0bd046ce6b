"""Checks of arguments: each function returns the value, or raises an error that says what to pass.

Users import them as ``sonde.train.validator``. A wrong type raises a ``SondeError`` that is a
``TypeError``, a wrong value one that is a ``ValueError``. numpy numbers are accepted like Python's;
a bool is not a number; checks of floats refuse NaN and Inf.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from numbers import Integral, Real
from typing import TypeVar

from sonde.core.errors import SondeError

T = TypeVar("T")


class ArgumentTypeError(SondeError, TypeError):
    """An argument of the wrong type."""


class ArgumentValueError(SondeError, ValueError):
    """An argument of the right type with a value that is not allowed."""


def check_positive_int(value: object, name: str, owner: str | None = None) -> int:
    """An integer of at least 1."""
    return _integer(value, 1, name, owner)


def check_non_negative_int(value: object, name: str, owner: str | None = None) -> int:
    """An integer of at least 0."""
    return _integer(value, 0, name, owner)


def check_positive_float(value: object, name: str, owner: str | None = None) -> float:
    """A finite number greater than 0."""
    if (number := _real(value, name, owner)) <= 0:
        raise wrong_value(name, owner, "must be greater than 0", value)
    return number


def check_non_negative_float(value: object, name: str, owner: str | None = None) -> float:
    """A finite number of at least 0."""
    if (number := _real(value, name, owner)) < 0:
        raise wrong_value(name, owner, "must be at least 0", value)
    return number


def check_is_float(value: object, name: str, owner: str | None = None) -> float:
    """A finite float; an integer is refused, because ``1`` for a rate is usually a typing error."""
    if not isinstance(value, float):
        raise wrong_type(name, owner, "must be a float", value)
    return _real(value, name, owner)


def check_bool(value: object, name: str, owner: str | None = None) -> bool:
    """True or False; other values that compare equal to them are refused."""
    if not isinstance(value, bool):
        raise wrong_type(name, owner, "must be True or False", value)
    return value


def check_value_type(
    name: str, value: T, types: type | Sequence[type], owner: str | None = None
) -> T:
    """A value of one of ``types``; a bool passes as an int only where ``bool`` is named."""
    allowed = (types,) if isinstance(types, type) else tuple(types)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        names = " or ".join(kind.__name__ for kind in allowed)
        raise wrong_type(name, owner, f"must be {names}", value)
    return value


def check_string(
    value: object, choices: Collection[str], name: str, owner: str | None = None
) -> str:
    """One of the given words."""
    if not isinstance(value, str):
        raise wrong_type(name, owner, "must be a str", value)
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise wrong_value(name, owner, f"must be one of {listed}", value)
    return value


def wrong_type(name: str, owner: str | None, rule: str, value: object) -> ArgumentTypeError:
    """The error for an argument of the wrong type."""
    got = f"{value!r} ({type(value).__name__})" if len(repr(value)) <= 60 else type(value).__name__
    return ArgumentTypeError(f"{_place(name, owner)} {rule}, not {got}", slug="argument-type")


def wrong_value(name: str, owner: str | None, rule: str, value: object) -> ArgumentValueError:
    """The error for an argument with a value out of its range."""
    return ArgumentValueError(f"{_place(name, owner)} {rule}, not {value!r}", slug="argument-value")


def _place(name: str, owner: str | None) -> str:
    return f"{owner}: {name}" if owner else name


def _integer(value: object, minimum: int, name: str, owner: str | None) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise wrong_type(name, owner, "must be an integer", value)
    if value < minimum:
        raise wrong_value(name, owner, f"must be an integer of at least {minimum}", value)
    return int(value)


def _real(value: object, name: str, owner: str | None) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(name, owner, "must be a number", value)
    if not math.isfinite(value):
        raise wrong_value(name, owner, "must be finite", value)
    return float(value)
