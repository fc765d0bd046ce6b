"""Finds the variables that keep the graphs of many losses alive."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import is_program
from sonde.adapters.torch.eager.naming.frame_variables import variables_of

MOST_NODES = 20_000
MOST_ELEMENTS = 4096
FEWEST = 5
"""Graphs, or tensors with one, from which on a variable keeps more than those of a step."""
MOST_NAMES = 4


def holders_of_graphs(mark: str) -> list[str]:
    """The names of variables of the user's frames, and of attributes of objects in them, that keep
    several graphs alive; a node of each graph has ``mark`` in its metadata."""
    found: list[str] = []
    for frame in private.frames_from(sys._getframe(1)):
        if not is_program(frame.f_code.co_filename):
            continue
        for name, value in variables_of(frame):
            if name.startswith("__") or isinstance(value, (type, ModuleType)):
                continue
            if _keeps_graphs(value, mark):
                found.append(name)
            elif not isinstance(value, torch.Tensor):
                held = [key for key, each in _attributes(value) if _keeps_graphs(each, mark)]
                found += [name, *held] if held else []
    return list(dict.fromkeys(found))[:MOST_NAMES]


def _attributes(value: object) -> Iterable[tuple[str, Any]]:
    return list(getattr(value, "__dict__", {}).items())[:MOST_ELEMENTS]


def _keeps_graphs(value: object, mark: str) -> bool:
    if isinstance(value, torch.Tensor):
        return value.grad_fn is not None and _marked(value.grad_fn, mark) >= FEWEST
    with_graph = [each for each in _elements(value) if each.grad_fn is not None]
    if len(with_graph) < FEWEST:
        return False
    # The layers of one step may be in a list, too: they have one graph.
    known: set[int] = set()
    return sum(_marked(each.grad_fn, mark, known) for each in with_graph) >= FEWEST


def _elements(value: object) -> Iterator[torch.Tensor]:
    """The tensors in a list or dictionary, and in the tuples and dictionaries in it."""
    for each in _listed(value):
        if isinstance(each, torch.Tensor):
            yield each
        else:
            yield from (one for one in _listed(each) if isinstance(one, torch.Tensor))


def _listed(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())[:MOST_ELEMENTS]
    return list(value)[:MOST_ELEMENTS] if isinstance(value, (list, tuple, deque)) else []


def _marked(start: Any, mark: str, known: set[int] | None = None) -> int:
    """How many nodes below ``start`` have the mark: first nodes, which have only leaves below."""
    seen: set[Any] = {start}
    waiting, count = [start], 0
    for node in waiting:
        below = [each for each, _ in node.next_functions if each is not None]
        inner = [each for each in below if not each.name().endswith("AccumulateGrad")]
        if not inner and mark in node.metadata:
            token = id(node.metadata[mark])
            count += known is None or token not in known
            if known is not None:
                known.add(token)
        for each in inner:
            if each not in seen and len(seen) < MOST_NODES:
                seen.add(each)
                waiting.append(each)
    return count
