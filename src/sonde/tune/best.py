"""``best.yaml``: the best trial's values and the command that runs it again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sonde.tune.listing import ListedTrial, StudyListing

BEST_FILE = "best.yaml"


def write_best(listing: StudyListing, directory: Path) -> Path | None:
    """Write the best trial, replacing an earlier one; None, and no file, while there is none."""
    import yaml  # type: ignore[import-untyped]

    best = listing.best_trial
    if best is None:
        return None
    done = sum(1 for one in listing.trials if one.state not in ("running", "interrupted"))
    head = (
        f"# The best of {done} trials: {listing.target} {best.value!r}\n"
        f"# To run it again:\n#   {best.command}\n"
    )
    text = head + yaml.safe_dump(_content(listing, best), sort_keys=False, allow_unicode=True)
    path = directory / BEST_FILE
    partial = directory / f".{BEST_FILE}.{os.getpid()}"
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    return path


def _content(listing: StudyListing, best: ListedTrial) -> dict[str, Any]:
    return {
        "study": listing.study,
        "trial": best.number,
        "target": {"name": listing.target, "goal": listing.goal, "value": best.value},
        "parameters": best.parameters,
        "command": best.command,
        "directory": best.directory,
    }
