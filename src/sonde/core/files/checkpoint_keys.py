"""What the keys of a training's checkpoint say: how far it was, and whether it can go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PROGRESS: Final = ("step", "epoch", "iter", "iteration", "global_step", "steps", "epochs")
"""Keys under which programs keep how far a training was."""
_MOST_ENTRIES: Final = 64


def progress_keys(value: Mapping[Any, Any]) -> tuple[str, ...]:
    """The keys that say how far the training was."""
    return tuple(str(key) for key in value if str(key) in PROGRESS)


def holds_optimizer(value: Any, depth: int = 4) -> bool:
    """Whether a checkpoint holds the state of an optimizer, in any nesting."""
    if isinstance(value, (list, tuple)):
        return any(holds_optimizer(each, depth) for each in value[:_MOST_ENTRIES])
    if not isinstance(value, Mapping) or depth == 0:
        return False
    if "param_groups" in value:
        return True
    return any(holds_optimizer(each, depth - 1) for each in list(value.values())[:_MOST_ENTRIES])
