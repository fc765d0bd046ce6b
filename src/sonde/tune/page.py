"""``report.html``: a study as one page that needs nothing but a browser."""

from __future__ import annotations

import html
import json
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from sonde.tune.listing import StudyListing

PAGE_FILE = "report.html"
SCRIPTS = ("plot.js", "charts.js", "page.js")
MOST_POINTS = 120


def write_page(listing: StudyListing, directory: Path) -> Path:
    """Write the page, replacing an earlier one as a whole."""
    path = directory / PAGE_FILE
    partial = directory / f".{PAGE_FILE}.{os.getpid()}"
    partial.write_text(page(listing), encoding="utf-8")
    partial.replace(path)
    return path


def page(listing: StudyListing) -> str:
    """The page's text. Nothing in it is fetched from elsewhere, and nothing is run but ours."""
    parts = files("sonde.tune") / "page_parts"
    data = json.dumps(_content(listing), allow_nan=False, separators=(",", ":"))
    filled = {
        "title": html.escape(f"{listing.study}: {listing.target}"),
        "style": (parts / "page.css").read_text("utf-8"),
        "script": "".join((parts / name).read_text("utf-8") for name in SCRIPTS),
        # In a script element only an end tag or a comment could be taken for markup.
        "data": data.replace("<", "\\u003c"),
    }
    text = (parts / "page.html").read_text("utf-8")
    return re.sub(r"@@(\w+)@@", lambda match: filled[match[1]], text)


def _content(listing: StudyListing) -> dict[str, Any]:
    content = listing.as_dict()
    for trial in content["trials"]:
        course = trial["course"]
        # A page draws no more points than one can see.
        trial["course"] = course[:: max(1, len(course) // MOST_POINTS)]
    return content
