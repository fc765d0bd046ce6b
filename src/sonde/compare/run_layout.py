"""How a run lies over its ranks, as far as a user says it, and what is done with the parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal

Rule = Literal["one", "last", "concat", "sum", "mean", "norm", "max", "min", "same"]
"""What is done with the parts along an axis. ``one``: they should be equal. ``same``: they have the
shape of the whole tensor; whether they are equal, or parts of a sum or a mean, the values tell."""
_WORDS: Final = {
    "one": "one of equal parts",
    "last": "the last one",
    "same": "parts that differ",
    "norm": "the norm of all",
    "max": "the largest",
    "min": "the smallest",
}


@dataclass(frozen=True, slots=True)
class AxisRule:
    """The rule for one axis of the grid. ``is_inner``: it is merged before the axes after it.
    ``blocks``: each part is that many blocks, and parts are concatenated block by block, as where
    the rows of a tensor are those of all samples at one position, then at the next."""

    rule: Rule
    dim: int = 0
    is_inner: bool = False
    blocks: int = 1

    def __str__(self) -> str:
        if self.rule != "concat":
            return _WORDS.get(self.rule, f"the {self.rule}")
        inside = f", in {self.blocks} blocks" if self.blocks > 1 else ""
        return f"concatenated in dim {self.dim}{inside}"


@dataclass(frozen=True, slots=True)
class RunLayout:
    """``mesh``: names and sizes of the axes, the outermost first. ``tensors``: for patterns of
    names the rule for each named axis; the first pattern that matches counts."""

    mesh: Mapping[str, int] = field(default_factory=dict)
    tensors: tuple[tuple[str, Mapping[str, AxisRule]], ...] = ()

    def rules_of(self, name: str) -> Mapping[str, AxisRule]:
        """The rules for the tensors of an op or a parameter."""
        return next((rules for pattern, rules in self.tensors if fnmatchcase(name, pattern)), {})
