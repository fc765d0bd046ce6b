"""Which steps are profiled."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sonde.core.errors import UsageError

_WINDOW = re.compile(r"^\s*(\d+)\s*:\s*(\d+)\s*$")


@dataclass(frozen=True, slots=True)
class StepWindow:
    """The steps from ``start`` up to, not including, ``stop``; never empty.

    The first step of two or more is run to learn the names of its ops, which costs time, so that
    it is not timed. Step 0 has the program's preparations in it and is never timed.
    """

    start: int
    stop: int

    def __contains__(self, step: int) -> bool:
        return self.start <= step < self.stop

    @property
    def named(self) -> int:
        """The step that is run to learn names."""
        return self.start

    @property
    def first_timed(self) -> int:
        return self.start if self.stop - self.start == 1 else self.start + 1

    def __str__(self) -> str:
        return f"{self.start}:{self.stop}"


def parse_window(text: str) -> StepWindow:
    """``"5:15"``: steps 5 to 14, as a slice has them."""
    match = _WINDOW.match(text)
    if match is None:
        raise UsageError(
            f"--steps {text!r} is not a range such as 5:15, which is steps 5 to 14",
            slug="profile-steps",
        )
    start, stop = int(match[1]), int(match[2])
    if start >= stop:
        raise UsageError(
            f"--steps {text!r} has no step in it; try {stop}:{start + 10}"
            if stop < start
            else f"--steps {text!r} has no step in it; try {start}:{start + 10}",
            slug="profile-steps",
        )
    if stop == 1:
        raise UsageError(
            "step 0 has the program's preparations in it and cannot be profiled alone; "
            "try --steps 1:2",
            slug="profile-steps",
        )
    return StepWindow(start, stop)
