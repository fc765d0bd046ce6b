"""The steps that are profiled."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sonde.core.errors import UsageError

_WINDOW = re.compile(r"^\s*(\d+)\s*:\s*(\d+)\s*$")


@dataclass(frozen=True, slots=True)
class StepWindow:
    """The steps from ``start`` up to, not including, ``stop``; never empty.

    The first of two or more steps is run to learn the names of its ops. That slows it down, so it
    is not timed. Step 0 includes the program's preparations and is never timed.
    """

    start: int
    stop: int

    def __contains__(self, step: int) -> bool:
        return self.start <= step < self.stop

    @property
    def first_timed(self) -> int:
        return self.start if self.stop - self.start == 1 else self.start + 1

    def __str__(self) -> str:
        return f"{self.start}:{self.stop}"


def parse_window(text: str) -> StepWindow:
    """Parse a slice: ``"5:15"`` is steps 5 to 14."""
    match = _WINDOW.match(text)
    if match is None:
        raise _wrong(f"--steps {text!r} is not a range such as 5:15, which is steps 5 to 14")
    start, stop = int(match[1]), int(match[2])
    if start >= stop:
        turned = f"{stop}:{start}" if 1 < start != stop else f"{start}:{start + 10}"
        raise _wrong(f"--steps {text!r} contains no step; try {turned}")
    if stop == 1:
        raise _wrong(
            "step 0 includes the program's preparations and cannot be profiled alone; "
            "try --steps 1:2"
        )
    return StepWindow(start, stop)


def _wrong(message: str) -> UsageError:
    return UsageError(message, slug="profile-steps")
