"""Graphs of the size of real networks in a real browser; times are printed, not judged."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.debugged import chromium, in_state, look, picture, read
from tests.server.serving_in_thread import serving

from sonde.testing.fake_rank import FakeRank
from sonde.testing.sample_graph import sample_graph

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = pytest.mark.flaky(reruns=2)

BLOCKS = "Default/network-Net/blocks-ModuleList/"


def _open(page: Page, path: str) -> float:
    """Open a scope or group; the milliseconds until it was drawn."""
    graph = page.locator("svg.picture")
    before = int(graph.get_attribute("data-boxes") or 0)
    page.locator(f'svg .box[data-path="{path}"]').dispatch_event("dblclick")
    expect(page.locator(f'svg .box.open[data-path="{path}"]')).to_be_attached()
    expect(graph).not_to_have_attribute("data-boxes", str(before))
    return float(graph.get_attribute("data-milliseconds") or 0)


@pytest.mark.parametrize("blocks", [1_111, 11_111])
def test_a_graph_of_many_ops_opens_expands_and_is_searched(
    blocks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = sample_graph(blocks)
    with serving() as server, chromium() as browser:
        rank = FakeRank(server.rank_port, run="large", nodes=nodes).start()
        server.wait_for("/runs/large", lambda run: run["ranks"][0]["graphs"][0]["whole"])
        page = look(browser, f"{server.page}&run=large")
        expect(page.locator("svg .box").first).to_be_visible()
        opened = page.evaluate("performance.now()")
        in_state(page, "paused before the first step")
        expect(page.locator(".breadcrumb")).to_contain_text(f"{len(nodes):,} nodes")
        expect(page.locator('svg .box.open[data-path="Default/network-Net/"]')).to_be_visible()
        read(page)
        picture(page, f"39-large-{blocks}-first")
        expect(page.locator(f'svg .box.open[data-path="{BLOCKS}"]')).to_be_visible()
        times = [_open(page, "Default/optimizer-SGD/")]
        times.append(_open(page, f"{BLOCKS}*0-Block/"))
        times.append(_open(page, f"{BLOCKS}7-Block/"))
        expect(page.locator(f'svg .box[data-path="{BLOCKS}7-Block/add-op0"]')).to_be_attached()
        picture(page, f"40-large-{blocks}")
        page.get_by_label("Search ops").fill(f"/{blocks - 1}-Block/add")
        match = page.get_by_role("listbox", name="Matching ops").get_by_role("option").first
        expect(match).to_contain_text("add-op0")
        match.click()
        expect(page.get_by_role("heading", name="add-op0")).to_be_visible()
        rank.close()
        rank.join()
    with capsys.disabled():
        spent = ", ".join(f"{time:.0f}" for time in times)
        print(f"\n{len(nodes):,} nodes: opened in {opened:.0f} ms, scopes in {spent} ms")
