"""What of a run was observed, and why the rest was not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast, get_args

GapReason = Literal[
    "observation_failed", "sink_failed", "other_thread", "nothing_ran", "unreadable_tensors",
    "step_dropped", "steps_not_reached", "steps_not_selected", "ops_not_selected",
]  # fmt: skip
CHOSEN: Final = frozenset(("steps_not_selected", "ops_not_selected"))
"""What the user chose not to observe."""
_TEXTS: Final[dict[GapReason, str]] = {
    "observation_failed": "observation failed{step} and was switched off ({detail})",
    "sink_failed": "recording failed{step} and was switched off ({detail})",
    "other_thread": "modules or optimizers ran in thread {detail}, which is not observed",
    "nothing_ran": "no op of a training step ran in the observed thread",
    "unreadable_tensors": "values of some tensors cannot be read (first {detail})",
    "step_dropped": "the rest of a step was not observed{step} ({detail})",
    "steps_not_reached": "none of the selected steps was reached ({detail})",
    "steps_not_selected": "only the selected steps were observed",
    "ops_not_selected": "only the selected ops were observed",
}


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of a run that was not observed; ``step``: since that step, if it is known."""

    reason: GapReason
    detail: str = ""
    step: int | None = None

    def __str__(self) -> str:
        step = "" if self.step is None else f" in step {self.step}"
        return _TEXTS[self.reason].format(step=step, detail=self.detail)

    def to_json(self) -> dict[str, Any]:
        return {"reason": self.reason, "step": self.step, "detail": self.detail}


@dataclass(slots=True)
class Coverage:
    """Counts the steps of a run: those that were observed as a whole, those that were cut off by
    the end of the program, and those that ended while nothing was observed.

    ``add`` may be called from any thread, the rest is for the training thread. ``is_delegated``:
    child processes do the training, and each of them has a coverage of its own. ``first_step`` and
    ``next_step``: the numbers of the first step and of the one after the last. ``selected_steps``:
    the steps that the user chose.
    """

    steps: int = 0
    incomplete_steps: int = 0
    unobserved_steps: int = 0
    is_delegated: bool = False
    first_step: int = 0
    next_step: int = 0
    selected_steps: str = "all"
    _gaps: dict[GapReason, Gap] = field(default_factory=dict)

    def add(self, gap: Gap) -> None:
        """Note a gap; only the first for a reason counts."""
        self._gaps.setdefault(gap.reason, gap)

    @property
    def has_observed(self) -> bool:
        return bool(self.steps or self.incomplete_steps)

    @property
    def has_failed(self) -> bool:
        """Whether Sonde stopped observing or recording because of an error, which it reported."""
        return not {"observation_failed", "sink_failed"}.isdisjoint(self._gaps)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The gaps, those that were not chosen first."""
        found = dict(self._gaps)
        lost = self.has_failed or "step_dropped" in found
        if not self.has_observed and not self.is_delegated:
            if self.unobserved_steps and not lost:
                found["steps_not_reached"] = Gap("steps_not_reached", self._reached())
            else:
                found.setdefault("nothing_ran", Gap("nothing_ran"))
        elif self.unobserved_steps and not lost:
            found["steps_not_selected"] = Gap("steps_not_selected")
        return tuple(sorted(found.values(), key=lambda each: each.reason in CHOSEN))

    def _reached(self) -> str:
        last = self.next_step - 1
        steps = f"step {last}" if last == self.first_step else f"steps {self.first_step}-{last}"
        return f"{self.selected_steps}; the run had {steps}"

    @property
    def unchosen_gaps(self) -> tuple[Gap, ...]:
        """The gaps because of which nothing can be said about the run as a whole."""
        return tuple(each for each in self.gaps if each.reason not in CHOSEN)

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "incomplete_steps": self.incomplete_steps,
            "unobserved_steps": self.unobserved_steps,
            "is_complete": not self.gaps,
            "gaps": [gap.to_json() for gap in self.gaps],
        }


def gaps_from_json(document: Mapping[str, Any]) -> tuple[Gap, ...]:
    """The gaps of a coverage that was written by ``to_json``; what is not a gap is skipped."""
    entries = document.get("gaps")
    found: list[Gap] = []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("reason") in get_args(GapReason):
            step = entry.get("step")
            found.append(
                Gap(
                    cast(GapReason, entry["reason"]),
                    str(entry.get("detail", "")),
                    step if isinstance(step, int) else None,
                )
            )
    return tuple(found)
