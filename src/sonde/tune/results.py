"""The files a search leaves: ``report.html``, the study as a page, and ``best.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sonde.core.atomic_file import write_whole
from sonde.report import page
from sonde.tune.store.listing import ListedTrial, StudyListing

PAGE_FILE = "report.html"
BEST_FILE = "best.yaml"
MOST_POINTS = 120
"""More points of one trial than this are not distinguishable on the page."""


def write_page(listing: StudyListing, directory: Path) -> Path:
    """Write the page, replacing an earlier one as a whole."""
    path = directory / PAGE_FILE
    write_whole(path, study_page(listing))
    return path


def study_page(listing: StudyListing) -> str:
    """The HTML of the page."""
    return page("study", f"{listing.study}: {listing.target}", _page_content(listing))


def _page_content(listing: StudyListing) -> dict[str, Any]:
    content = listing.as_dict()
    for trial in content["trials"]:
        course = trial["course"]
        trial["course"] = course[:: max(1, len(course) // MOST_POINTS)]
    return content


def write_best(listing: StudyListing, directory: Path) -> Path | None:
    """Write the best trial, replacing an earlier file; None without a finished trial."""
    import yaml  # type: ignore[import-untyped]

    best = listing.best_trial
    if best is None:
        return None
    done = sum(1 for one in listing.trials if one.state not in ("running", "interrupted"))
    head = (
        f"# The best of {done} trials: {listing.target} {best.value!r}\n"
        f"# To run it again:\n#   {best.command}\n"
    )
    text = head + yaml.safe_dump(_best_content(listing, best), sort_keys=False, allow_unicode=True)
    path = directory / BEST_FILE
    write_whole(path, text)
    return path


def _best_content(listing: StudyListing, best: ListedTrial) -> dict[str, Any]:
    return {
        "study": listing.study,
        "trial": best.number,
        "target": {"name": listing.target, "goal": listing.goal, "value": best.value},
        "parameters": best.parameters,
        "command": best.command,
        "directory": best.directory,
    }
