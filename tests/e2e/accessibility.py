"""Checks a page with axe-core, if its script is installed (``make web``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

_AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"


def serious(page: Page) -> list[Any]:
    """What axe finds on the page that keeps some people from using it."""
    if not _AXE.exists():
        pytest.skip("axe-core is not installed")
    page.evaluate(_AXE.read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        (each["id"], [node["html"][:120] for node in each["nodes"][:3]])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
