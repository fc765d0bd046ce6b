"""The evidence on which rules decide, and the form of their findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sonde.core.finding import Finding
from sonde.core.graph import Graph, OpNode, Source
from sonde.profile.analyse.split import Part
from sonde.profile.analyse.timings import Timings
from sonde.profile.document import LoaderItem, Machine
from sonde.profile.places import Places
from sonde.profile.record.object_tracking import SeenCall, SeenLoader, SeenOptimizer
from sonde.profile.record.private import Compilation

Direction = Literal["operator", "framework", "multi-node", "data"]
How = Literal["in the trace", "replayed"]

LEAST_SHARE = 0.05
"""A gain below this share of a step is not reported."""

LEAST_SECONDS = 2e-4
"""Nor is a shorter time, if there is no simple way to save it."""

LONG_WAIT_SHARE = 0.1
"""A step that waits for at least this share of its time always has a finding."""

MUCH_SHARE = 0.2
"""A gain of at least this share of a step is a warning."""


@dataclass(frozen=True, slots=True)
class ProfileEvidence:
    """Everything that was observed and measured.

    ``data_lines`` and ``rest_lines`` are what sampling found outside of ops. ``all_reduces`` are
    the seconds of a step's all-reduces one by one, and as one, if they were replayed.
    ``shown_parts`` are the mean seconds of the parts of a step, as the report shows them.
    """

    timings: Timings
    machine: Machine
    places: Places
    graph: Graph | None = None
    data_lines: dict[Source, float] = field(default_factory=dict)
    rest_lines: dict[Source, float] = field(default_factory=dict)
    loaders: Sequence[tuple[SeenLoader, LoaderItem]] = ()
    optimizers: Sequence[SeenOptimizer] = ()
    call: SeenCall | None = None
    compilations: Sequence[Compilation] = ()
    collective_bytes: float | None = None
    all_reduces: tuple[float, float] | None = None
    shown_parts: Mapping[str, float] = field(default_factory=dict)

    def share(self, seconds: float) -> float:
        """The share of a usual step; ``seconds`` should be a median, too."""
        usual = self.timings.usual_seconds
        return seconds / usual if usual > 0 else 0.0

    def waits(self) -> tuple[float, float]:
        """The seconds of a step that wait for data, and all others."""
        waited = max(self.timings.steady_part_seconds("data"), self.long_wait("data"))
        busy = self.timings.usual_seconds - self.timings.usual_part_seconds("data")
        return waited, max(busy, 0.0)

    def long_wait(self, part: Part) -> float:
        """The seconds of a part in which the training waits; 0 if that is not long."""
        seconds, whole = self.shown_parts.get(part, 0.0), sum(self.shown_parts.values())
        return seconds if seconds > 0 and seconds >= LONG_WAIT_SHARE * whole else 0.0

    def cost(self, nodes: Sequence[OpNode]) -> float:
        """How much shorter a step would usually be without these ops."""
        times = self.timings.ops
        return sum(times[node.name].usual_cost_seconds for node in nodes if node.name in times)

    def network_seconds(self) -> float:
        """The usual length of forward and backward."""
        return sum(self.timings.usual_part_seconds(part) for part in ("forward", "backward"))

    def finding(
        self,
        rule: str,
        direction: Direction,
        *,
        message: str,
        advice: str,
        source: Source | None,
        gain_seconds: float,
        how: How = "in the trace",
        share: float | None = None,
        **facts: object,
    ) -> list[Finding]:
        """The finding, or nothing if its gain is less than ``LEAST_SHARE`` of a step.

        ``share`` is the gain as a share of a step; by default of a usual one. Noise can make it
        more than 1, so it is capped.
        """
        share = self.share(gain_seconds) if share is None else share
        if share < LEAST_SHARE:
            return []
        evidence = {
            "direction": direction,
            "gain_seconds": gain_seconds,
            "gain_share": min(1.0, share),
            "gain_how": how,
            **facts,
        }
        return [
            Finding(
                rule=rule,
                severity="warning" if share >= MUCH_SHARE else "info",
                message=message,
                status="supported",
                source=source,
                evidence=evidence,
                advice=advice,
            )
        ]
