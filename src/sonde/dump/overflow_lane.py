"""The native shortcut of sinks that want only ops with values that are not finite."""

from __future__ import annotations

from typing import Any

from sonde import kernels
from sonde.core.sink import LaneParts


class OverflowLane:
    """What such a sink has to do with its shortcut, see ``core.sink``; it brings only bad ops."""

    def __init__(self) -> None:
        self._lane: Any = None

    def lane_parts(self) -> LaneParts:
        return LaneParts(
            heads=[],
            tails=[],
            stamps=[],
            index=[],
            whole=kernels.non_finite,
            strided=kernels.non_finite_strided,
            describe=lambda node, view: (b"", b""),
            other=lambda node, view, stamp: view.non_finite() > 0,
            grow=lambda: (0, 0),
            takes_inputs=True,
            takes_outputs=True,
            is_watch=True,
        )

    def take_lane(self, lane: Any) -> None:
        self._lane = lane

    def begin_lane(self) -> None:
        """A step begins."""
        if self._lane is not None:
            self._lane.begin()
