"""Two dumps compared in the page: a planted fault is named, listed, shown and marked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.e2e.debugged import Process, chromium, look, picture

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = pytest.mark.flaky(reruns=2)

SCRIPT = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
if "--fault" in sys.argv:
    net[3] = nn.Hardtanh()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
loss = net(torch.randn(4, 6)).square().mean()
loss.backward()
optimizer.step()
"""
PLACE = "Default/network-Sequential/3-"


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same training, once with another activation in place of the tanh."""
    root = tmp_path_factory.mktemp("compared")
    script = root / "train.py"
    script.write_text(SCRIPT)
    for name, words in (("wrong", ["--fault"]), ("right", [])):
        with Process("run", "--dump-to", str(root / name), str(script), *words) as training:
            assert training.wait() == 0, training.text
    return root / "wrong", root / "right"


def test_a_planted_fault_is_on_top_in_the_table_in_the_graph_and_side_by_side(
    dumps: tuple[Path, Path],
) -> None:
    wrong, right = map(str, dumps)
    with (
        Process("view", "--no-browser", "--port", "0", wrong, right) as view,
        chromium() as browser,
    ):
        address = view.said(r"the page is at (\S+)").group(1)
        assert address.endswith("&tab=compare")
        page = look(browser, address)
        first = page.get_by_label("First divergence")
        expect(first).to_contain_text(f"{PLACE}Hardtanh/hardtanh-op0")
        expect(first).to_contain_text(f"{PLACE}Tanh/tanh-op0")
        expect(first).to_contain_text("train.py:11")
        expect(page.locator(".pill.verdict-diverged")).to_be_visible()
        picture(page, "70-comparison")
        rows = page.locator(".pair-row.line")
        marked = page.locator(".pair-row.first")
        expect(marked).to_contain_text("hardtanh-op0 ↔ 3-Tanh/tanh-op0")
        page.get_by_label("Status").select_option("diverged")
        expect(rows).to_have_count(1)
        page.get_by_label("Status").select_option("")
        page.get_by_role("tab", name="largest distance").click()
        expect(page).to_have_url(re.compile("pair_sort=error"))
        page.get_by_label("Search pairs").fill("hardtanh-op0")
        expect(rows.first).to_contain_text("hardtanh-op0")
        marked.click()
        expect(page.locator(".versus")).to_contain_text("− right")
        expect(page.locator(".sides [role=grid], .sides .grid")).to_have_count(2)
        expect(page.get_by_label("Difference as a heat map")).to_be_visible()
        picture(page, "71-pair-side-by-side")
        page.keyboard.press("m")
        page.get_by_role("button", name="Show in the graph").click()
        box = page.locator(f'svg .box.pair-first[data-path="{PLACE}Hardtanh/hardtanh-op0"]')
        expect(box).to_be_visible()
        expect(page.locator("svg .box.pair-equal").first).to_be_visible()
        picture(page, "72-graph-compared")
