"""The first minutes at the page: what is watched, numbers at the first click, curves over steps.

The pages are also checked with axe-core.
"""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, Page, expect
from tests.e2e.accessibility import serious
from tests.e2e.debugged import Process, in_state, look, picture

TRAINING = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4), nn.Tanh())
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(2000):
    loss = net(torch.randn(8, 3, 8, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_newcomer_is_told_what_is_watched_and_sees_numbers_at_the_first_click(
    tmp_path: Path, browser: Browser
) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    words = ("debug", "--no-open", "--port", "0", "--debugger-port", "0", str(script))
    with Process(*words) as training:
        page = look(browser, training.said(r"the page is at (\S+)").group(1))
        training.said("watching for NaN and Inf, dead and saturated layers")
        in_state(page, "paused before the first step")
        card = page.locator(".start-card")
        expect(card).to_be_visible()  # Beside the empty list of hits, which is shown first.
        page.get_by_role("tab", name="Watchpoints").click()
        expect(card).to_contain_text("Watching for NaN and Inf, dead and saturated layers")
        expect(card).to_contain_text("× a step")
        assert serious(page) == []
        _numbers_at_the_first_click(page)
        _curves(page)
        _ask_before_nothing_is_watched(page)


def _numbers_at_the_first_click(page: Page) -> None:
    page.get_by_label("Steps to run").fill("3")
    page.get_by_label("Steps to run").press("Enter")
    in_state(page, "paused after a step")
    page.get_by_label("Search ops").fill("tanh-op0")
    page.get_by_role("option", name=re.compile("tanh-op0")).first.click()
    details = page.get_by_role("region", name="Op", exact=True)
    expect(details.locator(".statistics-line").first).to_contain_text("min")
    expect(details.get_by_text("step 2").first).to_be_visible()
    expect(details.get_by_role("button", name="Keep from the next step")).to_be_visible()
    picture(page, "90-first-click")
    assert serious(page) == []


def _curves(page: Page) -> None:
    details = page.get_by_role("region", name="Op", exact=True)
    details.get_by_role("button", name="over steps").last.click()
    listed = page.get_by_role("list", name="Tensors in the chart")
    expect(listed).to_contain_text("recording, since step 0 (3 steps)")
    page.get_by_label("Another tensor").fill("0.weight")
    page.get_by_label("Another tensor").press("Enter")
    expect(listed.get_by_role("listitem")).to_have_count(2)
    page.get_by_label("Statistic", exact=True).select_option("norm")
    page.keyboard.press("s")
    expect(listed).to_contain_text("(6 steps)")
    picture(page, "91-over-steps")
    assert serious(page) == []


def _ask_before_nothing_is_watched(page: Page) -> None:
    page.get_by_role("tab", name="Watchpoints").click()
    page.get_by_role("button", name="stop watching").click()
    expect(page.get_by_role("heading", name="Nothing is watched")).to_be_visible()
    page.get_by_role("button", name="Continue", exact=True).click()
    dialog = page.get_by_role("dialog", name="Nothing is watched")
    expect(dialog).to_contain_text("even if its values become NaN")
    assert serious(page) == []
    dialog.get_by_role("button", name="Watch for NaN, Inf and dead layers").click()
    in_state(page, "running|ended")
    expect(page.locator(".start-card").or_(page.locator(".banner"))).to_be_visible()
