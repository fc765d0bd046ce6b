"""Nodes in the list, in the graph, and where the training stands."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect
from tests.e2e.debugged import look
from tests.server.rank_conversation import OVERFLOW
from tests.server.serving_in_thread import Server

from sonde.testing.fake_rank import FakeRank

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = pytest.mark.flaky(reruns=2)

LOG = "Default/network-Net/loss-Loss/log-op0"
TANH = "Default/network-Net/blocks-ModuleList/1-Block/act-Tanh/tanh-op0"


@pytest.mark.document(
    223,
    says="`Current Node`: return to the current execution node",
    how="the button with the name of the current op, key c",
)
@pytest.mark.document(
    229,
    says="training metadata: `Device ID` being used and the current training `Step`",
    how="the step in the top bar; panel `Run` (key i) has device, rank, host and process",
)
@pytest.mark.document(
    230,
    says="`Node List`: expanded according to the `scope`; a click chooses the node in the graph",
    how="the tree on the left of the page",
)
def test_a_node_chosen_in_the_list_and_the_current_one_are_shown_in_the_graph(
    server: Server, rank: FakeRank, browser: Browser
) -> None:
    server.control("sample", "to", op="log-op0")
    page = look(browser, f"{server.page}&run=sample&op={TANH}&tree=Default/")

    def selected(path: str) -> None:
        expect(page.locator(f'svg .box.selected[data-path="{path}"]')).to_be_visible()

    tree = page.get_by_role("tree")
    tree.get_by_role("treeitem", name="tanh-op0").first.click()
    selected(TANH)
    page.keyboard.press("c")
    expect(page.locator(f'svg .box.selected.current[data-path="{LOG}"]')).to_be_visible()
    expect(page.locator(".where")).to_contain_text("step 0")
    page.keyboard.press("i")
    facts = page.locator(".metadata")
    expect(facts.get_by_role("row", name="device cpu")).to_be_visible()
    expect(facts.get_by_role("row", name="step 0")).to_be_visible()


@pytest.mark.document(
    245,
    says="the triggered `Watch Point List`: nodes and conditions in the execution order; a click "
    "shows the node",
    how="panel `Hits` (key h), `sonde ctl hits`",
)
def test_a_click_in_the_list_of_hits_shows_the_node_in_the_graph(
    server: Server, rank: FakeRank, browser: Browser
) -> None:
    server.post("/runs/sample/watchpoints", OVERFLOW)
    server.control("sample", "continue")
    page = look(browser, f"{server.page}&run=sample&op={TANH}&side=hits")
    page.get_by_role("button", name="by cause", pressed=True).click()
    hits = page.get_by_role("listitem").filter(has_text="step 5")
    expect(hits).to_have_count(2)
    expect(hits.first).to_contain_text("log-op0")
    expect(page.locator(f'svg .box.selected[data-path="{TANH}"]')).to_be_visible()
    hits.first.get_by_role("button", name="log-op0").first.click()
    page.keyboard.press("g")
    expect(page.locator(f'svg .box.selected[data-path="{LOG}"]')).to_be_visible()
