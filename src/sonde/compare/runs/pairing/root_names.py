"""Pairs the networks of two runs that have other names: ``network-Net`` and ``student-Net``.

The first part of a scope is the variable that holds the network, which two scripts, or two versions
of one script, may call differently; dumps of older versions have ``network`` for all of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

_ROOT = re.compile(r"((?:Gradients/|recompute_)*Default/)([^/]+-[^/]+)(?=/)")
_NUMBER = re.compile(r"_[0-9]+$")


@dataclass(frozen=True, slots=True)
class RootNames:
    """Translates names of one run to those of the other: ``renamed`` has the roots that differ."""

    renamed: dict[str, str] = field(default_factory=dict)

    def __call__(self, name: str) -> str:
        """The name of an op, scope or parameter as the other run would write it."""
        if not self.renamed:
            return name
        match = _ROOT.match(f"{name}/")
        if match is not None:
            root = self.renamed.get(match[2], match[2])
            return f"{match[1]}{root}{name[match.end() :]}"
        root, dot, rest = name.partition(".")  # A parameter: ``student-Net.fc.weight``.
        return f"{self.renamed.get(root, root)}{dot}{rest}"


def translate_roots(names: Iterable[str], others: Iterable[str]) -> RootNames:
    """How the roots in ``names`` are called in ``others``, both in execution order.

    A root with the same name in both stays; the others are paired by class, in their order.
    """
    mine, theirs = _roots(names), _roots(others)
    left: dict[str, list[str]] = defaultdict(list)
    for root in theirs:
        if root not in mine:
            left[_class_of(root)].append(root)
    renamed: dict[str, str] = {}
    for root in mine:
        candidates = left[_class_of(root)]
        if root not in theirs and candidates:
            renamed[root] = candidates.pop(0)
    return RootNames(renamed)


def _roots(names: Iterable[str]) -> dict[str, None]:
    found = (match[2] for match in map(_ROOT.match, names) if match is not None)
    return dict.fromkeys(root for root in found if not root.startswith("optimizer-"))


def _class_of(root: str) -> str:
    return _NUMBER.sub("", root.rpartition("-")[2])
