"""What to compare and how strictly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sonde.compare.run_layout import RunLayout
from sonde.core.errors import SondeError
from sonde.core.selection import StepSet
from sonde.workers.run import WorkerOptions


class CompareError(SondeError):
    """Two runs that cannot be compared."""


def _ignore(_message: str, _done: int, _total: int) -> None:
    """Ignore progress reports."""


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """``steps``, ``rank``: None for all that both sides have. With ``rtol`` or ``atol`` a pair is
    out of tolerance if |a - b| > atol * sqrt(count) + rtol * |b| as norms, whatever its dtype; the
    growth of rounding errors is not considered. ``names`` pairs ops by full name. ``progress`` is
    called in the calling thread with the current task and the finished and total number of parts.
    ``layout_a``, ``layout_b``: how runs with other layouts lie over their ranks, where the dumps do
    not say. ``perturbed``: a dump of b with its weights changed in their last bits. ``workers``:
    where the steps are compared.
    """

    steps: StepSet | None = None
    rank: int | None = None
    rtol: float | None = None
    atol: float | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    layout_a: RunLayout = field(default_factory=RunLayout)
    layout_b: RunLayout = field(default_factory=RunLayout)
    perturbed: Path | None = None
    workers: WorkerOptions = field(default_factory=WorkerOptions)
    progress: Callable[[str, int, int], None] = _ignore

    @property
    def is_strict(self) -> bool:
        return self.rtol is not None or self.atol is not None
