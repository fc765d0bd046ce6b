"""Sets of recommended watchpoints for one purpose each, by the words of a user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from sonde.core.errors import UsageError
from sonde.watch.conditions.recommended import RECOMMENDED, Recommended


@dataclass(frozen=True, slots=True)
class Preset:
    """``finds`` completes "watches for"; ``names`` are those of recommended watchpoints. ``cost``:
    how long a step takes with them, relative to one without (docs/debugger.md)."""

    id: str
    title: str
    finds: str
    names: tuple[str, ...]
    cost: str


PRESETS: Final[Mapping[str, Preset]] = {
    each.id: each
    for each in (
        Preset(
            "nan",
            "NaN",
            "NaN and Inf",
            ("tensors are not finite",),
            "1.05 to 1.10",
        ),
        Preset(
            "dead",
            "dead units",
            "dead and saturated layers",
            ("relu is dead", "tanh is saturated", "sigmoid is saturated"),
            "1.02",
        ),
        Preset(
            "learning",
            "does not learn",
            "weights that stay zeros or do not move, vanishing gradients",
            ("weights stay zeros", "weights do not move", "gradients vanish"),
            "1.02",
        ),
        Preset(
            "explosion",
            "explodes",
            "weights that move too far, NaN and Inf in tensors, gradients and weights",
            (
                "weights move too far",
                "gradients are not finite",
                "weights are not finite",
                "tensors are not finite",
            ),
            "1.06 to 1.12",
        ),
        Preset(
            "recommended",
            "everything recommended",
            "NaN and Inf, dead and saturated layers, weights and gradients that explode or do not "
            "move, tensors of zeros",
            tuple(each.name for each in RECOMMENDED),
            "1.14",
        ),
    )
}
NOTHING: Final = "nothing"
DEFAULT_PRESETS: Final = ("nan", "dead")
"""What ``sonde debug`` watches for unless it is told otherwise."""


def watchpoints_of(presets: Iterable[str]) -> tuple[Recommended, ...]:
    """The watchpoints of several presets, each once; UsageError for a name that is none."""
    wanted: set[str] = set()
    for name in presets:
        if name == NOTHING:
            continue
        preset = PRESETS.get(name)
        if preset is None:
            near = get_close_matches(name, [*PRESETS, NOTHING], n=1)
            known = f"choose from {', '.join([*PRESETS, NOTHING])}"
            hint = f"did you mean {near[0]!r}?" if near else known
            raise UsageError(f"there is no preset {name!r}; {hint}", slug="watch-preset")
        wanted.update(preset.names)
    return tuple(each for each in RECOMMENDED if each.name in wanted)
