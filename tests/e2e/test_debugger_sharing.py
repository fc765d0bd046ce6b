"""One server, several trainings and browsers; processes that die and come back."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.debugged import RAINFALL, Serving, chromium, in_state, look, picture

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = pytest.mark.flaky(reruns=2)

PROGRAM = """
import sys, torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(1_000_000):
    optimizer.zero_grad()
    net(torch.ones(4, 8)).square().mean().backward()
    optimizer.step()
"""


@pytest.fixture
def endless(tmp_path: Path) -> str:
    path = tmp_path / "endless.py"
    path.write_text(PROGRAM)
    return str(path)


def _step_is(page: Page, number: int) -> None:
    expect(page.locator(".where b")).to_have_text(str(number))


def test_two_trainings_and_four_browsers_share_a_server_and_survive_a_death(
    endless: str,
) -> None:
    with (
        Serving() as server,
        server.train("rain", str(RAINFALL), "--epochs", "500"),
        server.train("tanh", endless) as doomed,
        chromium() as browser,
    ):
        rain, rain_too, tanh, tanh_too = (
            look(browser, f"{server.page}&run={run}") for run in ("rain", "rain", "tanh", "tanh")
        )
        for page in (rain, rain_too, tanh, tanh_too):
            in_state(page, "paused before the first step")
        rain.get_by_label("Steps to run").fill("3")
        rain.get_by_role("button", name="Run steps").click()
        for page in (rain, rain_too):
            _step_is(page, 3)
            in_state(page, "paused after a step")
        for page in (tanh, tanh_too):
            _step_is(page, 0)
        tanh_too.keyboard.press("s")
        for page in (tanh, tanh_too):
            _step_is(page, 1)
        _step_is(rain, 3)
        expect(tanh.get_by_role("treeitem", name="network-Sequential").first).to_be_visible()
        rain_too.keyboard.press("w")
        rain_too.get_by_role("button", name="Add watchpoint").click()
        rain.get_by_role("tab", name="Watchpoints").click()
        expect(rain.get_by_role("list", name="Watchpoints")).to_contain_text("Tensor overflow")
        expect(rain.get_by_label("Run", exact=True).locator("option")).to_have_count(2)
        picture(rain, "30-shared")

        tanh.get_by_role("button", name="Continue").click()
        tanh.get_by_role("button", name="Continue unwatched").click()
        in_state(tanh_too, "running")
        doomed.end(signal.SIGKILL)
        for page in (tanh, tanh_too):
            in_state(page, "lost")
            expect(page.locator(".headline")).to_contain_text("the training process is gone")
        expect(tanh.get_by_role("treeitem", name="network-Sequential").first).to_be_visible()
        picture(tanh, "31-killed")
        rain.keyboard.press("s")
        _step_is(rain_too, 6)
        in_state(rain_too, "paused after a step")


def test_a_restarted_server_is_found_again_by_the_page_and_by_the_training(endless: str) -> None:
    with Serving() as first, first.train("again", endless), chromium() as browser:
        page = look(browser, f"{first.page}&run=again", dark=False)
        in_state(page, "paused before the first step")
        page.keyboard.press("s")
        _step_is(page, 1)
        in_state(page, "paused after a step")
        first.end(signal.SIGKILL)
        expect(page.get_by_role("alert")).to_contain_text("connection to the server is lost")
        picture(page, "32-server-gone-light")
        with Serving(first.port, first.rank_port) as second:
            expect(page.get_by_role("alert")).to_have_count(0)
            second.wait_for("again")
            in_state(page, "paused")
            page.keyboard.press("s")
            _step_is(page, 2)
            in_state(page, "paused after a step")
            picture(page, "33-server-back-light")
