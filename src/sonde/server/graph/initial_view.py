"""Chooses the scopes of a graph that are open at first: no more than a screen can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sonde.server.graph.boxes import Box, grouped
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.levels import MOST_BOXES
from sonde.server.graph.step_parts import part_of_scope
from sonde.wire.graphs import Opening
from sonde.wire.shapes import Phase

USUAL_BOXES: Final = 30
_FEW: Final = 4
"""With at most so many boxes of ops, the first scope is opened even if it has many boxes."""
_MANY: Final = 150
_NEARLY_ALL: Final = 0.8
_PHASES: Final[tuple[Phase, ...]] = ("forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True)
class _Unit:
    """A scope, and the nested scopes that contain a single scope each. They are opened together,
    because a box in a box shows nothing new. ``inner``: the content of the innermost."""

    scopes: tuple[int, ...]
    inner: tuple[Box, ...]

    @property
    def cost(self) -> int:
        return len(self.scopes) - 1 + len(self.inner)


def opening_of_model(index: GraphIndex, most: int = USUAL_BOXES) -> Opening:
    """The scopes of the networks to open so that about ``most`` boxes of them are visible, depth by
    depth; ``index`` is a summary. All networks are open, even if one has very many boxes."""
    most = min(max(most, 0), MOST_BOXES)
    boxes = [
        box
        for box in grouped(index, 0)
        if box.what == "scope"
        and box.path not in index.functions
        and index.scopes[~box.parts[0]].ops > 0
        and part_of_scope(box.path) == "network"
    ]
    units = [_with_core(index, unit) for unit in _units(index, boxes, "forward")]
    total, depths = 0, list[tuple[str, ...]]()
    while units and (total + _cost(units) <= most or (not depths and _cost(units) <= _MANY)):
        total += _cost(units)
        # The page opens single ones in this order if not all of them fit.
        units.sort(key=lambda unit: -index.scopes[unit.scopes[0]].ops)
        depths.append(tuple(index.scopes[scope].path for unit in units for scope in unit.scopes))
        units = [inner for unit in units for inner in _units(index, unit.inner, "forward")]
    return Opening(index.graph, tuple(depths))


def _with_core(index: GraphIndex, unit: _Unit) -> _Unit:
    """The unit, and the scopes inside it that contain nearly all of its ops one after the other,
    such as the backbone in a wrapper that adds the loss."""
    scopes, inner = list(unit.scopes), unit.inner
    while True:
        ops = index.scopes[scopes[-1]].ops
        core = next(
            (
                ~box.parts[0]
                for box in inner
                if box.what == "scope" and index.scopes[~box.parts[0]].ops >= _NEARLY_ALL * ops > 0
            ),
            None,
        )
        found = () if core is None else tuple(grouped(index, core))
        if core is None or len(found) > USUAL_BOXES:
            return _Unit(tuple(scopes), tuple(inner))
        scopes.append(core)
        inner = (*(box for box in inner if box.parts != [~core]), *found)


def opening(index: GraphIndex, most: int = USUAL_BOXES) -> Opening:
    """The scopes to open so that about ``most`` boxes are visible, depth by depth: first those of
    the network, then of its gradients and its optimizer; of one depth all or none."""
    most = min(max(most, 0), MOST_BOXES)
    root = grouped(index, 0)
    total, depths = len(root), list[tuple[str, ...]]()
    is_little = sum(_acts(index, box) for box in root) <= _FEW
    for phase in _PHASES:
        units = _units(index, root, phase)
        if not depths and is_little:  # Even a large one, unless it is too large to read.
            first = [unit for unit in units[:1] if total + unit.cost <= _MANY]
            units = units if total + _cost(units) <= most else first
            most = max(most, total + _cost(units))
        while units and total + _cost(units) <= most:
            total += _cost(units)
            depths.append(
                tuple(index.scopes[scope].path for unit in units for scope in unit.scopes)
            )
            units = [inner for unit in units for inner in _units(index, unit.inner, phase)]
    return Opening(index.graph, tuple(depths))


def _units(index: GraphIndex, boxes: Sequence[Box], phase: Phase) -> list[_Unit]:
    """The units of the scopes among ``boxes`` whose first op is of that phase."""
    found: list[_Unit] = []
    for box in boxes:
        scope = ~box.parts[0]
        if box.what == "scope" and index.span(~scope)[0].phase == phase:
            scopes, inner = [scope], grouped(index, scope)
            while len(inner) == 1 and inner[0].what == "scope":
                scopes.append(~inner[0].parts[0])
                inner = grouped(index, scopes[-1])
            found.append(_Unit(tuple(scopes), tuple(inner)))
    found.sort(key=lambda unit: index.span(~unit.scopes[0])[0].order)
    return found


def _acts(index: GraphIndex, box: Box) -> bool:
    """Whether the box contains ops, not only their inputs."""
    return box.parts[0] < 0 or index.nodes[box.parts[0]].kind == "op"


def _cost(units: Sequence[_Unit]) -> int:
    return sum(unit.cost for unit in units)
