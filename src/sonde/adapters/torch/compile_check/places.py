"""Finds the module and the line of the user's code that an op of a compiler's graph is from."""

from __future__ import annotations

import re
from typing import Any

from torch import fx

from sonde.adapters.torch.compiled.graph import sources_of
from sonde.core.graph import Source

_PART = re.compile(r"\['([^']+)'\]")


def source_of(node: fx.Node) -> Source | None:
    """The innermost line of the user's code that made the op, or the op it is the backward of."""
    return next(iter(sources_of(node)), None)


def module_of(node: fx.Node) -> str:
    """The path of the innermost module the op ran in, such as ``encoder.0``; empty for the root."""
    stack: Any = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    parts = _PART.findall(path.partition("_modules")[1] + path.partition("_modules")[2])
    if parts:
        return ".".join(parts)
    return path.removeprefix("L['self']").lstrip(".")
