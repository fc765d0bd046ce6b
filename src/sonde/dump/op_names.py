"""Finds the op of the graph that a file name or row of a dump names.

File names lose slashes, and MindSpore numbers some ops (Conv2DBackprop*, Cast, AddN) differently
in file names than in its graph, so a search is needed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from sonde.core.graph import Graph, OpNode
from sonde.dump.layout import escape_op

_NUMBER = re.compile(r"-op([0-9]{1,9})$")


class OpText(NamedTuple):
    """The text for an op; with ``is_full`` the name may be in full, with slashes."""

    op_type: str
    op_name: str
    is_full: bool

    @property
    def escaped(self) -> str:
        return escape_op(self.op_type, self.op_name)


@dataclass(slots=True)
class OpNames:
    """The ops of one graph by the texts that file names and rows have for them."""

    graph: Graph
    _by_text: dict[str, list[OpNode]] = field(init=False)
    _by_stem: dict[str, list[OpNode]] = field(init=False)

    def __post_init__(self) -> None:
        by_text: dict[str, list[OpNode]] = defaultdict(list)
        by_stem: dict[str, list[OpNode]] = defaultdict(list)
        for node in self.graph:
            text = escape_op(node.type, node.name)
            by_text[text].append(node)
            if node.kind == "input":
                # MindSpore dumps the tensors of a batch as parameters.
                by_text[escape_op("Parameter", node.name)].append(node)
            elif node.kind == "op":
                by_stem[_NUMBER.sub("", text)].append(node)
        self._by_text, self._by_stem = by_text, by_stem

    def resolve(self, texts: Iterable[OpText]) -> dict[OpText, OpNode]:
        """The node of each text of one directory; texts that fit no node or several are left out.

        - A name in full is exact.
        - An escaped name belongs to the one node that escapes to it. Where several do, nodes
          that other texts name in full are excluded (``FileNamer`` names all but one in full).
        - MindSpore's numbers: the remaining texts of a scope and type are paired by number, if the
          graph has as many nodes left there.
        """
        found: dict[OpText, OpNode] = {}
        open_texts: list[OpText] = []
        for text in texts:
            if text.is_full and text.op_name in self.graph and self._is(text):
                found[text] = self.graph.node(text.op_name)
            else:
                open_texts.append(text)
        exact = {node.name for node in found.values()}
        left: dict[str, list[OpText]] = defaultdict(list)
        for text in open_texts:
            nodes = self.candidates(text)
            meant = [node for node in nodes if node.name not in exact]
            if len(meant) == 1:
                found[text] = meant[0]
            elif not nodes:
                left[_NUMBER.sub("", text.escaped)].append(text)
        self._pair_by_number(left, found)
        return found

    def candidates(self, text: OpText) -> list[OpNode]:
        """Every node that an escaped text may mean."""
        as_it_is = self._by_text.get(f"{text.op_type}.{text.op_name}")  # Most are escaped already.
        return self._by_text.get(text.escaped, []) if as_it_is is None else as_it_is

    def _is(self, text: OpText) -> bool:
        node = self.graph.node(text.op_name)
        return node.type == text.op_type or escape_op(node.type, node.name) == text.escaped

    def _pair_by_number(self, left: dict[str, list[OpText]], found: dict[OpText, OpNode]) -> None:
        taken = {node.name for node in found.values()}
        for stem, texts in left.items():
            nodes = [node for node in self._by_stem.get(stem, []) if node.name not in taken]
            if len(nodes) == len(texts):
                texts.sort(key=lambda text: _number(text.op_name))
                nodes.sort(key=lambda node: _number(node.name))
                found.update(zip(texts, nodes, strict=True))


def _number(name: str) -> int:
    match = _NUMBER.search(name)
    return int(match[1]) if match else -1
