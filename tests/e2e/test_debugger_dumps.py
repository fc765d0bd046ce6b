"""Dumps on disk in the page: steps instead of controls, checked over all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.e2e.debugged import RAINFALL, Process, chromium, look, picture

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = pytest.mark.flaky(reruns=2)

LOG = "Default/network-FlowNet/log-op0"


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two dumps of the same training."""
    root = tmp_path_factory.mktemp("dumps")
    paths = (root / "first", root / "second")
    trainings = [
        Process("run", "--dump-to", str(path), "--dump-steps", "5-8", str(RAINFALL))
        for path in paths
    ]
    for training in trainings:
        with training:
            assert training.wait() == 0, training.text
    return paths


def test_a_dump_is_viewed_step_by_step_checked_and_compared_with_another(
    dumps: tuple[Path, Path],
) -> None:
    first, second = map(str, dumps)
    with (
        Process("view", "--no-browser", "--port", "0", first, second) as view,
        chromium() as browser,
    ):
        address = view.said(r"the page is at ([^\s&]+)").group(1)
        page = look(browser, f"{address}&run=first&op={LOG}&tab=tensor&step=6")
        expect(page.get_by_label("Step of the dump")).to_have_value("6")
        page.get_by_role("button", name="Next step").click()
        expect(page).to_have_url(re.compile("step=7"))
        nan = page.locator(".statistics tr").filter(has_text="nan").locator("td").last
        expect(nan).not_to_have_text("0")
        expect(page.get_by_role("heading", name="Outputs in step 7")).to_be_visible()
        page.get_by_label("Compare with").select_option(label="previous step (6)")
        expect(page.locator(".distances")).to_contain_text("256 of 256 differ")
        page.get_by_label("Compare with").select_option(value="run:second")
        expect(page.locator(".versus")).to_contain_text("second")
        expect(page.locator(".distances")).to_contain_text("the same, 1 NaN in both")
        picture(page, "60-dump-compared")
        page.get_by_role("tab", name="over steps").click()
        expect(page.get_by_role("img", name="Statistics by step")).to_be_visible()
        expect(page.get_by_text("not finite in 1 step, first in step 7")).to_be_visible()
        page.get_by_role("tab", name="Watchpoints").click()
        page.keyboard.press("w")
        page.get_by_role("button", name="Add watchpoint").click()
        page.get_by_role("button", name="check all steps").click()
        page.get_by_role("tab", name="Hits").click()
        producer = page.get_by_role("listitem").filter(has=page.locator(".badge-text.origin")).first
        expect(producer).to_contain_text("log-op0")
        expect(producer).to_contain_text("step 7")
        page.keyboard.press("g")
        expect(page.locator(f'svg .box.origin[data-path="{LOG}"]')).to_be_visible()
        picture(page, "61-dump-hits")


def test_the_loss_of_a_dump_of_statistics_is_drawn(tmp_path: Path) -> None:
    dump = str(tmp_path / "d")
    with Process("run", "--stats", "--dump-to", dump, str(RAINFALL)) as training:
        assert training.wait() == 0, training.text
    with Process("view", "--no-browser", "--port", "0", dump) as view, chromium() as browser:
        page = look(browser, view.said(r"the page is at (\S+)").group(1))
        page.get_by_role("tab", name="Loss").click()
        expect(page.get_by_role("region", name="Loss", exact=True)).to_be_visible()
