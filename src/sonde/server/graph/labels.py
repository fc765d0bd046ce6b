"""The texts of boxes: the names that people read in place of those that files have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_READ: Final = {"Default": "Forward", "Gradients": "Backward"}
_RECOMPUTED: Final = "recompute_"
_UNNAMED: Final = re.compile(r"(?:^|_)data-(\d+)$")


def scope_label(label: str) -> str:
    """``Forward`` for ``Default``, ``Backward`` for ``Gradients``, ``Recomputed`` for
    ``recompute_Default``; other names stay."""
    if label.startswith(_RECOMPUTED):
        inner = label.removeprefix(_RECOMPUTED)
        return "Recomputed" if inner in _READ else f"Recomputed {inner}"
    return _READ.get(label, label)


def leaf_label(label: str, kind: str) -> str:
    """``constant 3`` for the constant ``data-3``, ``input 3`` for the input of that name."""
    found = _UNNAMED.search(label)
    return label if found is None else f"{kind} {found.group(1)}"


def group_label(labels: Sequence[str]) -> str:
    """The name of equal scopes together: ``Block 0-5`` for ``0-Block`` to ``5-Block``, ``Dense
    fc1-fc3`` for ``fc1-Dense`` to ``fc3-Dense``; the class alone, or the name without its number,
    if the numbers do not follow each other."""
    names = [label.partition("-") for label in labels]
    found = [re.search(r"\d+$", name) for name, _, _ in names]
    numbers = [int(each.group()) for each in found if each is not None]
    cls = names[0][2]
    follows = len(numbers) == len(labels) and numbers == list(
        range(numbers[0], numbers[0] + len(numbers))
    )
    if cls:
        return f"{cls} {names[0][0]}-{names[-1][0]}" if follows else cls
    return re.sub(r"_?\d+$", "", labels[0]) or labels[0]
