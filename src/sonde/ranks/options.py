"""What a user may choose for the checks over ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from sonde.ranks.placement_file import DeclaredPlacements

OnHang = Literal["continue", "stop"]
DEFAULT_EVERY: Final = 10
DEFAULT_HANG_SECONDS: Final = 60.0
FIRST_STEPS: Final = 5
"""The first steps are all compared: most faults of several ranks are there from the start."""

FEWEST_FOR_OUTLIERS: Final = 4
"""The ranks that are needed to tell which of them has numbers far from the others."""


@dataclass(frozen=True, slots=True)
class RankOptions:
    """``every``: hash weights and gradients in every so many steps. ``hang_seconds``: say where the
    ranks stand after so long without progress; 0: never. ``findings_file``: where the findings are
    written as JSON; empty: nowhere. ``placements``: how tensors are laid out, as a file says it.
    ``is_default``: the user has not asked for the comparison, which says nothing where there is
    nothing to compare. Can be pickled and passed to child processes."""

    every: int = DEFAULT_EVERY
    hang_seconds: float = DEFAULT_HANG_SECONDS
    on_hang: OnHang = "continue"
    findings_file: str = ""
    placements: DeclaredPlacements | None = None
    is_default: bool = False

    def is_sampled(self, step: int, interval: int = 0) -> bool:
        """Whether ``step`` is compared. ``interval``: instead of ``every``, a multiple of it, so
        that the steps are a part of those of ranks with a shorter interval."""
        return step < FIRST_STEPS or step % max(interval, self.every) == 0
