"""How fast a training is, with Sonde and without, by its recent steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sonde.wire.shapes import LossPoint


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of a step as it runs now, and without Sonde; None where that is not known."""

    seconds: float | None = None
    bare_seconds: float | None = None


def speed_of(recent: Sequence[LossPoint], bare: Sequence[LossPoint]) -> Speed:
    """Medians, of several optimizers the mean of theirs, each as often as it steps.

    With Sonde: of the ``recent`` steps that were observed if the last one was, else of those that
    were not. Without: of ``bare``, the latest steps that were not observed.
    """
    alike = [each for each in recent if each.observed == recent[-1].observed]
    return Speed(
        _typical([(each.optimizer, each.seconds) for each in alike]),
        _typical(
            [(each.optimizer, each.bare_seconds) for each in bare if each.bare_seconds is not None]
        ),
    )


def _typical(times: Sequence[tuple[str, float]]) -> float | None:
    """A step of the one optimizer of a GAN may take much longer than one of the other."""
    if not times:
        return None
    by_optimizer: dict[str, list[float]] = {}
    for optimizer, seconds in times:
        by_optimizer.setdefault(optimizer, []).append(seconds)
    return sum(median(each) * len(each) for each in by_optimizer.values()) / len(times)
