"""How fast a training is, with Sonde and without, by its recent steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sonde.wire.shapes import LossPoint


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of a step as it runs now, and without Sonde; None while no step is over."""

    seconds: float | None = None
    bare_seconds: float | None = None
    is_estimated: bool = False


def speed_of(recent: Sequence[LossPoint]) -> Speed:
    """Medians, of several optimizers the mean of theirs, each as often as it steps. With Sonde: of
    the steps that are observed as the last one is, or are not as it is not. Without: of steps whose
    ops were not observed, if there are; else it is an estimate."""
    if not recent:
        return Speed()
    alike = [each for each in recent if each.observed == recent[-1].observed]
    bare = [each for each in recent if not each.observed]
    return Speed(
        _typical([(each.optimizer, each.seconds) for each in alike]),
        _typical([(each.optimizer, each.bare_seconds) for each in bare or recent]),
        not bare,
    )


def _typical(times: Sequence[tuple[str, float]]) -> float:
    """A step of the one optimizer of a GAN may take much longer than one of the other."""
    by_optimizer: dict[str, list[float]] = {}
    for optimizer, seconds in times:
        by_optimizer.setdefault(optimizer, []).append(seconds)
    return sum(median(each) * len(each) for each in by_optimizer.values()) / len(times)
