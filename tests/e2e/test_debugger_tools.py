"""What the page offers beside the main way: watchpoint sets, filters, slices, files, themes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.e2e.debugged import in_state, look, picture, read
from tests.server.serving_in_thread import Server

from sonde.testing.fake_rank import FakeRank
from sonde.wire.shapes import TensorName

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = pytest.mark.flaky(reruns=2)

TANH = "Default/network-Net/blocks-ModuleList/1-Block/act-Tanh/tanh-op0"


def _names(page: Page) -> list[str]:
    return page.get_by_role("list", name="Watchpoints").locator(".name").all_inner_texts()


@pytest.mark.document(
    241,
    says="set a `Watch Point`: the `+` button, a watch condition, tick the boxes of nodes, `OK`",
    how="tick boxes in the node list, `watch these` or key w, `Add watchpoint`; `sonde ctl watch "
    "add`",
)
def test_watchpoints_are_made_from_ticked_scopes_edited_saved_loaded_and_deleted(
    server: Server, rank: FakeRank, browser: Browser, tmp_path: Path
) -> None:
    page = look(browser, f"{server.page}&run=sample&side=watchpoints", dark=False)
    net = page.get_by_label("Watch Default/network-Net/", exact=True)
    net.check()
    for path in ("blocks-ModuleList", "loss-Loss"):
        page.get_by_label(f"Watch Default/network-Net/{path}/", exact=True).uncheck()
    expect(net).to_have_js_property("indeterminate", True)
    page.get_by_label("Watch Default/network-Net/blocks-ModuleList/", exact=True).check()
    page.reload()
    expect(page.locator(".ticked")).to_contain_text("1 ticked, 1 excluded")
    expect(net).to_have_js_property("indeterminate", True)
    page.get_by_role("button", name="watch these").click()
    dialog = page.get_by_role("dialog")
    ops = dialog.get_by_label("Ops to watch")
    expect(ops).to_have_value("Default/network-Net/\n!Default/network-Net/loss-Loss/")
    dialog.get_by_label("Condition", exact=True).select_option("tensor_too_large")
    dialog.get_by_label("the maximum above").fill("3.5")
    dialog.get_by_label("the maximum above").press("Tab")
    page.reload()
    expect(dialog.get_by_label("the maximum above")).to_have_value("3.5")
    dialog.get_by_role("button", name="add a condition").click()
    dialog.get_by_role("radio", name="and").click()
    dialog.get_by_label("Condition", exact=True).nth(1).select_option("expression")
    dialog.get_by_label("Expression").fill("nan_count >")
    dialog.get_by_role("button", name="Add watchpoint").click()
    expect(dialog.get_by_role("alert")).to_contain_text("nan_count >")
    picture(page, "50-expression-refused-light")
    dialog.get_by_label("Expression").fill("std > 0.1")
    dialog.get_by_label("Name", exact=True).fill("large and wide")
    dialog.get_by_role("button", name="Add watchpoint").click()
    expect(dialog).to_have_count(0)
    row = page.get_by_role("list", name="Watchpoints").get_by_role("listitem")
    expect(row).to_contain_text("Tensor above threshold: the maximum above 3.5 and std > 0.1")
    expect(row).to_contain_text("Default/network-Net/ except Default/network-Net/loss-Loss/")
    row.get_by_role("button", name="Edit large and wide").click()
    dialog.get_by_role("radio", name="every N-th hit").check()
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("pauses at every 10th hit")

    with page.expect_download() as saved:
        page.get_by_role("link", name="save").click()
    path = tmp_path / "points.json"
    saved.value.save_as(path)
    assert json.loads(path.read_text())["watchpoints"][0]["break_after"] == 10
    row.get_by_role("button", name="Delete large and wide").click()
    expect(row).to_have_count(0)
    page.get_by_label("Load watchpoints").set_input_files(path)
    expect(row).to_contain_text("large and wide")
    path.write_text("no JSON")
    page.get_by_label("Load watchpoints").set_input_files(path)
    expect(page.get_by_role("alert")).to_contain_text("it is not JSON")
    page.get_by_role("button", name="recommended").click()
    expect(row.nth(3)).to_be_visible()
    assert len(_names(page)) == len(server.get("/runs/sample/watchpoints")["watchpoints"])
    picture(page, "51-recommended-light")


@pytest.mark.document(
    222,
    says="Computational Graph: click the box (one `scope`) to expand the graph",
    how="its triangle or a double click; a click selects the scope and shows parameters, shapes "
    "and norms",
)
def test_a_graph_opens_as_far_as_it_can_be_read_and_closes_to_what_is_seen(
    server: Server, rank: FakeRank, browser: Browser
) -> None:
    page = look(browser, f"{server.page}&run=sample")

    def box(path: str, state: str = "") -> Locator:
        return page.locator(f'svg .box{state}[data-path="{path}"]')

    expect(box("Default/network-Net/", ".open")).to_be_visible()
    read(page)
    expect(page.get_by_role("treeitem", name="network-Net").first).to_be_visible()
    for _ in range(4):
        page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="collapse").click()
    expect(box("Default/network-Net/", ":not(.open)")).to_be_in_viewport(ratio=1)
    expect(box("Gradients/")).to_be_in_viewport(ratio=1)
    page.reload()
    expect(box("Default/network-Net/", ":not(.open)")).to_be_in_viewport(ratio=1)
    box("Gradients/").dblclick()
    expect(box("Gradients/", ".open")).to_be_visible()
    read(page)
    picture(page, "57-gradients")
    page.get_by_role("button", name="Zoom out").click()
    looked = page.locator("svg.picture > g").get_attribute("transform")
    page.reload()
    expect(box("Gradients/", ".open")).to_be_visible()
    expect(page.locator("svg.picture > g")).to_have_attribute("transform", str(looked))


def test_nodes_are_found_by_kind_by_line_and_by_keys_and_a_reload_keeps_all(
    server: Server, rank: FakeRank, browser: Browser
) -> None:
    page = look(browser, f"{server.page}&run=sample")
    page.get_by_label("Kind").select_option("weight")
    results = page.get_by_role("listbox", name="Matching ops").get_by_role("option")
    expect(results.first).to_contain_text("blocks.0.linear.weight")
    page.keyboard.press("k")
    for _ in range(6):
        page.keyboard.press("j")
    expect(page.get_by_role("heading", name="blocks.3.linear.weight")).to_be_visible()
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.get_by_role("heading", name="blocks.1.linear.weight")).to_be_visible()
    expect(page.locator('svg .box.selected[data-path="blocks.1.linear.weight"]')).to_be_visible()
    expect(page.locator(".graph-tools")).not_to_contain_text("loading")
    picture(page, "52-weights")
    page.reload()
    expect(results.nth(1)).to_have_attribute("aria-selected", "true")
    expect(page.locator('svg .box.selected[data-path="blocks.1.linear.weight"]')).to_be_visible()
    page.get_by_label("Kind").select_option("")
    page.get_by_role("button", name="by code line").click()
    lines = page.get_by_role("listbox", name="Lines of code").get_by_role("option")
    expect(lines.filter(has_text="self.log(x)")).to_be_visible()
    picture(page, "53-lines")
    lines.filter(has_text="self.log(x)").click()
    expect(results).to_have_count(1)
    expect(results).to_contain_text("log-op0")


@pytest.mark.document(
    235,
    says="`View`: visualize a `Tensor` with too many dimensions in the new panel",
    how="tab with a table; an index such as `[3, 10:13]` chooses a slice",
)
def test_a_slice_of_a_tensor_is_what_numpy_says_and_the_file_has_it_all(
    server: Server, rank: FakeRank, browser: Browser
) -> None:
    page = look(browser, f"{server.page}&run=sample&tab=tensor&op={TANH}")
    values = rank.array(TensorName(TANH))
    cells = page.get_by_role("table", name="Values").get_by_role("cell")
    expect(cells.first).to_have_attribute("title", str(float(values[0, 0])))
    page.get_by_label("Index").fill("[3, 10:13]")
    page.get_by_label("Index").press("Enter")
    expect(cells).to_have_count(3)
    for place in range(3):
        expect(cells.nth(place)).to_have_attribute("title", str(float(values[3, 10 + place])))
    page.get_by_label("Number format").select_option("scientific")
    page.get_by_label("Digits").fill("2")
    expect(cells.first).to_have_text(re.compile(r"^−?\d\.\d\de[+-]\d+$"))
    page.get_by_label("Index").fill("[99, :]")
    page.get_by_label("Index").press("Enter")
    expect(page.get_by_text("Index 99 is out of range for dimension 0 of size 32")).to_be_visible()
    picture(page, "54-wrong-index")
    with page.expect_download() as download:
        page.get_by_role("link", name=".npy").click()
    loaded = np.load(io.BytesIO(download.value.path().read_bytes()))
    np.testing.assert_array_equal(loaded, values)
    page.get_by_role("tab", name="over steps").click()
    expect(page.get_by_role("img", name="Statistics by step")).to_be_visible()
    picture(page, "55-over-steps")


def test_ranks_and_themes_are_switched_and_remembered(server: Server, browser: Browser) -> None:
    ranks = [
        FakeRank(server.rank_port, run="pair", rank=number, world_size=2).start()
        for number in range(2)
    ]
    page = look(browser, f"{server.page}&run=pair&tab=tensor&op={TANH}")
    page.get_by_role("tab", name="1", exact=True).click()
    expect(page).to_have_url(re.compile("rank=1"))
    cells = page.get_by_role("table", name="Values").get_by_role("cell")
    other = ranks[1].array(TensorName(TANH))
    expect(cells.first).to_have_attribute("title", str(float(other[0, 0])))
    page.get_by_label("Compare with").select_option(label="rank 0")
    expect(page.locator(".distances")).to_contain_text("2,048 of 2,048 differ")
    picture(page, "56-ranks")
    page.get_by_role("button", name="Colours: system").click()
    page.get_by_role("button", name="Colours: dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    expect(page.locator(".distances")).to_contain_text("differ")
    page.get_by_label("Ranks to control").select_option("one")
    page.keyboard.press("s")
    in_state(page, "paused after a step")
    expect(page.get_by_role("tab", name="0", exact=True)).to_have_attribute(
        "title", re.compile(r"^rank 0: paused, step 0, client 127\.0\.0\.1:\d+$")
    )
    for each in ranks:
        each.close()
        each.join()


@pytest.mark.document(
    225,
    says="Right-click a node and select `Continue to`",
    how="a right click on a node of the graph or the list, or the key `a`, opens a menu with "
    "*Continue to*; also the key `o` and `sonde ctl to`",
)
def test_the_menu_of_a_node_runs_to_it_and_is_reached_by_keys(
    server: Server, rank: FakeRank, browser: Browser
) -> None:
    page = look(browser, f"{server.page}&run=sample&op={TANH}")
    box = page.locator(f'svg .box[data-path="{TANH}"]')
    menu = page.get_by_role("menu", name="Actions of tanh-op0")
    box.click(button="right")
    expect(menu).to_be_visible()
    expect(menu.get_by_role("menuitem", name="Continue to")).to_be_focused()
    picture(page, "58-menu-of-a-node")
    menu.get_by_role("menuitem", name="Continue to").click()
    expect(menu).to_have_count(0)
    in_state(page, "paused at an op")
    expect(page.locator(".where-op")).to_have_text("tanh-op0")

    page.locator("svg.picture").focus()
    page.keyboard.press("Shift+F10")
    expect(menu).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("svg.picture")).to_be_focused()
    page.keyboard.press("a")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_label("Ops to watch, one per line")).to_have_value(TANH)
    page.keyboard.press("Escape")

    scope = page.get_by_role("treeitem", name="network-Net").first
    scope.click(button="right")
    inner = page.get_by_role("menu", name="Actions of network-Net")
    expect(inner.get_by_role("menuitem", name="View the tensor")).to_have_count(0)
    page.get_by_label("Search ops").click()
    expect(inner).to_have_count(0)
