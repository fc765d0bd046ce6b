"""Every part of the page in both themes: axe finds nothing that keeps some people from using it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.e2e.accessibility import serious
from tests.e2e.debugged import look
from tests.server.serving_in_thread import Server

from sonde.testing.fake_rank import FakeRank

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = pytest.mark.flaky(reruns=2)

WEIGHT = "op=blocks.1.linear.weight&tab=tensor"
TANH = "op=Default/network-Net/blocks-ModuleList/1-Block/act-Tanh/tanh-op0"
SCOPE = "op=Default/network-Net/blocks-ModuleList/1-Block/"
PLACES = {
    "an op": (TANH, "tanh-op0"),
    "a module": (SCOPE, "1-Block"),
    "an op without values": (f"{TANH}&tab=tensor", "tanh-op0"),
    "a table": (WEIGHT, "finite|min"),
    "a heat map": (f"{WEIGHT}&mode=heat", "min"),
    "a curve": (f"{WEIGHT}&mode=curve", "linear.weight"),
    "the loss": ("tab=loss", "Loss"),
    "the run": ("tab=run", "Kept on request"),
    "watchpoints": ("side=watchpoints", "Watchpoints"),
    "findings": ("side=findings", "Findings"),
    "lines of code": ("listing=lines", "by code line"),
}
TARGETS = """() => [...document.querySelectorAll(
    "button, select, input, textarea, a, summary, .twist, .tick-mark")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !each.matches("p:not(.actions) > .link, .twist:empty"))
  .map((each) => [each.outerHTML.slice(0, 100), (each.closest("label") ?? each)])
  .map(([text, each]) => [text, each.getBoundingClientRect()])
  .filter(([, box]) => Math.min(box.width, box.height) < 23.5)
  .map(([text]) => text)"""
"""What is clicked and is narrower or lower than 24 pixels; links in a sentence may be."""


def _places(page: Page, address: str) -> None:
    for name, (query, text) in PLACES.items():
        page.goto(f"{address}&{query}")
        expect(page.locator("body")).to_contain_text(text.split("|")[-1])
        expect(page.locator("body")).not_to_contain_text("Loading…")
        assert serious(page) == [], name
        assert page.evaluate(TARGETS) == [], name


@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_every_part_of_the_page_is_accessible(
    server: Server, rank: FakeRank, browser: Browser, dark: bool
) -> None:
    page = look(browser, f"{server.page}&run=sample", dark=dark)
    expect(page.locator("svg .box").first).to_be_visible()
    address = page.url.split("?")[0] + "?run=sample"
    _places(page, address)
    page.keyboard.press("w")
    expect(page.get_by_role("dialog", name="New watchpoint")).to_be_visible()
    assert serious(page) == []
    assert page.evaluate(TARGETS) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert serious(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("no such op")
    expect(page.get_by_role("dialog")).to_contain_text("Nothing matches")
    assert serious(page) == []
