"""What rules judge by, and the shape of what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sonde.core.finding import Finding
from sonde.core.graph import Graph, OpNode, Source
from sonde.profile.analyse.timings import Timings
from sonde.profile.document import LoaderItem, Machine
from sonde.profile.places import Places
from sonde.profile.record.object_tracking import SeenCall, SeenLoader, SeenOptimizer
from sonde.profile.record.private import Compilation

Direction = Literal["operator", "framework", "multi-node", "data"]
How = Literal["in the trace", "replayed", "tried"]

LEAST_SHARE = 0.05
"""A gain below this share of a step is not worth a finding."""

LEAST_SECONDS = 2e-4
"""Nor is less than this of a step worth one, where the time cannot simply be saved."""

MUCH_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class ProfileEvidence:
    """Everything that was seen and measured.

    ``data_lines`` and ``rest_lines`` are what sampling found outside of ops. ``all_reduces`` are
    the seconds of a step's all-reduces one by one and in one, where that was replayed.
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

    def share(self, seconds: float) -> float:
        """Of a usual step: medians are set against a median."""
        usual = self.timings.usual_seconds
        return seconds / usual if usual > 0 else 0.0

    def waits(self) -> tuple[float, float]:
        """A step's seconds waiting for data, and the seconds of all else in it."""
        waited = self.timings.steady_part_seconds("data")
        busy = self.timings.usual_seconds - self.timings.usual_part_seconds("data")
        return waited, max(busy, 0.0)

    def is_worth(self, seconds: float) -> bool:
        return self.share(seconds) >= LEAST_SHARE

    def cost(self, nodes: Sequence[OpNode]) -> float:
        """What a step would usually be shorter without these ops."""
        times = self.timings.ops
        return sum(times[node.name].usual_cost_seconds for node in nodes if node.name in times)


def judgement(
    evidence: ProfileEvidence,
    rule: str,
    direction: Direction,
    *,
    message: str,
    advice: str,
    source: Source | None,
    gain_seconds: float,
    how: How,
    share: float | None = None,
    **facts: object,
) -> Finding:
    """A finding whose gain is stated in seconds and as a share of a step, a usual one if not told.

    No gain is more than all there is: noise does not make it so.
    """
    share = min(1.0, evidence.share(gain_seconds) if share is None else share)
    return Finding(
        rule=rule,
        severity="warning" if share >= MUCH_SHARE else "info",
        message=message,
        status="established" if how == "tried" else "supported",
        source=source,
        evidence={
            "direction": direction,
            "gain_seconds": gain_seconds,
            "gain_share": share,
            "gain_how": how,
            **facts,
        },
        advice=advice,
    )


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
