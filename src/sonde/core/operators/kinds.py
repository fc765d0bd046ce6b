"""Which names of operators in PyTorch and MindSpore mean the same operator.

Patterns (``core.operators.patterns``) select ops, and comparisons pair ops of both frameworks, by
the table in ``core.operators.names``. The names of one *operator* compute the same; operators of
one *kind* may correspond to each other when two runs are compared; the *behaviour* is how an op
propagates the errors of its inputs, which `compare.runs.tolerance` needs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from sonde.core.operators.names import (
    ALSO,
    COMPOSED,
    GRADIENT_ENDS,
    KINDS,
    SAME_WORD,
    TORCH_CLASSES,
    Behaviour,
)


class _Operator(NamedTuple):
    """``names``: all names of the operator."""

    kind: str
    behaviour: Behaviour
    names: tuple[str, ...]


_TABLE: Final[dict[str, _Operator]] = {
    name: _Operator(kind, behaviour, tuple(names.split()))
    for behaviour, kinds in KINDS.items()
    for kind, operators in kinds.items()
    for names in operators.split("|")
    for name in names.split()
}
MINDSPORE_NAMES: Final = frozenset(
    (*(name for name in _TABLE if name[0].isupper()), *SAME_WORD.split())
)
"""The names of MindSpore's operators that have a counterpart in torch."""
_PLUMBING: Final = frozenset({"identity", "movement"})


@lru_cache(maxsize=4096)
def kind_of(op_type: str) -> str:
    """The kind of an op type; an unknown type is its own kind, without underscores and case."""
    found = _find(op_type)
    return _word(op_type) if found is None else found.kind


@lru_cache(maxsize=4096)
def behaviour_of(op_type: str) -> Behaviour:
    found = _find(op_type)
    return "other" if found is None else found.behaviour


def is_plumbing(op_type: str) -> bool:
    """Whether the op only passes values on: names, shapes and types change, numbers do not."""
    return behaviour_of(op_type) in _PLUMBING


def is_heavy(op_type: str) -> bool:
    """Whether the op is a matrix product or a convolution, which mixed precision is for."""
    return behaviour_of(op_type) == "product"


def is_complete_name(word: str) -> bool:
    """Whether a word is the whole name of a MindSpore operator or of a class of ``torch.nn``."""
    return word in MINDSPORE_NAMES or word in TORCH_CLASSES


def is_composed(function: str) -> bool:
    """Whether a function of torch runs as ops of other names."""
    return function in COMPOSED


@lru_cache(maxsize=65536)
def computes(name: str, op_type: str) -> bool:
    """Whether an op of type ``op_type`` computes the operator ``name`` or its gradient.

    ``name`` is a name of MindSpore or of a function of torch.
    """
    return _identity(op_type) in _identities(name)


@lru_cache(maxsize=4096)
def _identities(name: str) -> frozenset[str]:
    found: set[str] = set()
    for each in (name, ALSO.get(name, name)):
        found.add(_identity(each))
        operator = _find(each)
        for known in (each,) if operator is None else operator.names:
            stem = known.removesuffix("_forward")
            found.update(_identity(stem + end) for end in GRADIENT_ENDS if stem + end in _TABLE)
        found.add(f"{_word(each)}backward")
    return frozenset(found)


def _identity(op_type: str) -> str:
    """A text that is the same for all names of an operator."""
    found = _find(op_type)
    return _word(op_type) if found is None else found.names[0]


def _word(op_type: str) -> str:
    return re.sub(r"grad$", "backward", op_type.replace("_", "").lower())


def _find(op_type: str) -> _Operator | None:
    return _TABLE.get(op_type) or _TABLE.get(op_type.rstrip("_"))
