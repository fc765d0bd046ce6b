"""The page under a reader's hands: what is typed, which keys do what, what a reload gives back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.e2e.debugged import RAINFALL, Process, Serving, in_state, look, picture
from tests.server.rank_conversation import OVERFLOW
from tests.server.serving_in_thread import Server

from sonde.testing.fake_rank import FakeRank

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = pytest.mark.flaky(reruns=2)

NET = "Default/network-Net/"
TANH = f"{NET}blocks-ModuleList/1-Block/act-Tanh/tanh-op0"
PLANES = """
import torch
net = torch.nn.Conv2d(3, 2, 3)
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
good = torch.ones(6, 3, 20, 20)
bad = good.clone()
bad[4, 2, 7, 9] = bad[4, 2, 11, 3] = bad[5, 1, 0, 0] = 0
for step in range(1000):
    weight = bad if step == 3 else good
    optimizer.zero_grad()
    net(torch.rand(6, 3, 20, 20) * weight / weight).square().mean().backward()
    optimizer.step()
"""
WORDS = ("debug", "--no-open", "--port", "0", "--debugger-port", "0", "--watch-for", "nothing")


def test_another_tensor_is_named_letter_by_letter_and_compared_slot_by_slot(
    server: Server, rank: FakeRank, browser: Browser
) -> None:
    page = look(browser, f"{server.page}&run=sample&tab=tensor&op={TANH}")
    page.get_by_label("Compare with").select_option(label="another tensor…")
    name = page.get_by_label("Name of the other op")
    page.reload()
    name.click()
    other = TANH.replace("1-Block", "0-Block")
    page.keyboard.type(other)
    expect(name).to_have_value(other)
    page.keyboard.press("Enter")
    expect(page.locator(".distances")).to_contain_text("differ")
    expect(page.locator(".versus")).to_contain_text("tanh-op0 output 0")
    slots = page.get_by_label("Input or output of the other op").locator("option")
    expect(slots).to_have_text(["output 0", "input 0"])
    page.get_by_label("Input or output of the other op").select_option("input 0")
    expect(page).to_have_url(re.compile("with_io=input"))
    both = page.get_by_role("complementary", name="Statistics").locator("thead th")
    expect(both).to_have_text(["tanh-op0 output 0", "tanh-op0 input 0"])
    page.get_by_label("Tolerance", exact=True).fill("2.5")
    page.get_by_label("Tolerance", exact=True).press("Enter")
    page.get_by_role("tab", name="side by side").click()
    picture(page, "80-another-tensor")
    page.reload()
    expect(page.get_by_role("tab", name="side by side")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_label("Tolerance", exact=True)).to_have_value("2.5")


def test_keys_typed_into_the_search_before_there_is_a_graph_are_not_commands(
    browser: Browser,
) -> None:
    with Serving() as server, server.train("early", str(RAINFALL)):
        page = look(browser, f"{server.page}&run=early")
        in_state(page, "paused before the first step")
        expect(page.locator(".topbar .address")).to_have_text(re.compile(r"^127\.0\.0\.1:\d+$"))
        page.keyboard.press("/")
        page.keyboard.type("sns")
        page.keyboard.press("Escape")
        expect(page.get_by_label("Search ops")).to_have_value("sns")
        in_state(page, "paused before the first step")
        page.keyboard.press("s")
        in_state(page, "paused after a step")


def test_the_list_can_be_used_with_keys_alone(
    server: Server, rank: FakeRank, browser: Browser
) -> None:
    page = look(browser, f"{server.page}&run=sample&tree=Gradients/")
    tree = page.get_by_role("tree")
    expect(tree.get_by_role("treeitem", name="network-Net").first).to_be_visible()
    tree.focus()
    for key in ("Home", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(tree.get_by_role("treeitem", name="blocks-ModuleList")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".line.cursor")).to_have_attribute("aria-level", "2")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(f'.line.cursor[data-path="{NET}"]')).to_be_visible()
    page.keyboard.press("v")
    ticked = page.get_by_label(f"Watch {NET}", exact=True)
    expect(ticked).to_be_checked()
    ticked.focus()
    page.keyboard.press("Space")
    expect(ticked).not_to_be_checked()
    in_state(page, "paused before the first step")

    page.keyboard.press("/")
    page.keyboard.type("tanh")
    page.keyboard.press("ArrowDown")
    matches = page.get_by_role("listbox", name="Matching ops")
    expect(matches).to_be_focused()
    expect(page.locator(".result.cursor")).to_have_id("node-0")  # where the keys are is seen
    page.keyboard.press("Enter")
    expect(matches.get_by_role("option").first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".result.cursor")).to_have_id("node-1")
    # A button that the pointer pressed does not keep the space bar.
    page.get_by_role("button", name="collapse").click()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Continue unwatched").click()  # Nothing is watched.
    in_state(page, "running|ended|hit")


def test_a_reload_restores_lines_frames_counts_dialogs_and_scroll_positions(
    server: Server, rank: FakeRank, browser: Browser
) -> None:
    page = look(browser, f"{server.page}&run=sample&op={TANH}")
    page.get_by_role("button", name="by code line").click()
    page.get_by_label("Search lines").fill("self")
    expect(page).to_have_url(re.compile("line_query=self"))
    page.get_by_label("Steps to run").fill("7")
    page.reload()
    expect(page.get_by_label("Search lines")).to_have_value("self")
    expect(page.get_by_role("listbox", name="Lines of code")).to_be_visible()
    expect(page.get_by_label("Steps to run")).to_have_value("7")
    page.get_by_label("Steps to run").press("Escape")
    page.get_by_role("button", name="by code line").click()

    page.set_viewport_size({"width": 1280, "height": 330})
    tree = page.get_by_role("tree")
    expect(tree.get_by_role("treeitem", name="tanh-op0")).to_be_visible()
    tree.evaluate("element => element.scrollTo(0, 64)")
    expect(tree).to_have_js_property("scrollTop", 64)
    page.keyboard.press("x")
    expect(page.get_by_role("dialog")).to_contain_text("The training cannot be continued")
    page.reload()
    expect(page.get_by_role("dialog")).to_contain_text("The training cannot be continued")
    page.get_by_role("button", name="Cancel").click()
    expect(tree).to_have_js_property("scrollTop", 64)


def test_errors_in_a_watchpoint_are_shown_and_deleted_ones_can_be_restored(
    server: Server, rank: FakeRank, browser: Browser
) -> None:
    page = look(browser, f"{server.page}&run=sample&side=watchpoints", dark=False)
    page.keyboard.press("w")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name", exact=True)).to_be_focused()
    dialog.get_by_label("Condition", exact=True).select_option("tensor_too_large")
    dialog.get_by_label("the maximum above").fill("0,5")
    dialog.get_by_label("the maximum above").press("Tab")
    expect(dialog.get_by_role("alert")).to_contain_text("“0,5” is not a number")
    picture(page, "81-no-number-light")
    dialog.get_by_label("the maximum above").fill("0.5")
    dialog.get_by_role("radio", name="only these").check()
    page.reload()
    expect(dialog.get_by_role("radio", name="only these")).to_be_checked()
    dialog.get_by_role("radio", name="all tensors").check()
    dialog.get_by_role("button", name="Add watchpoint").click()
    rows = page.get_by_role("list", name="Watchpoints").get_by_role("listitem")
    expect(rows).to_contain_text(["the maximum above 0.5"])
    rows.get_by_role("button", name=re.compile("^Delete")).click()
    expect(rows).to_have_count(0)
    page.get_by_role("button", name="undo").click()
    expect(rows).to_contain_text(["the maximum above 0.5"])
    page.get_by_role("button", name="recommended").click()
    expect(rows.nth(3)).to_be_visible()
    count = rows.count()
    page.get_by_role("button", name="clear", exact=True).click()
    expect(rows).to_have_count(0)
    page.get_by_role("button", name="undo").last.click()
    expect(rows).to_have_count(count)
    server.post("/runs/sample/watchpoints", {**OVERFLOW, "ops": ["Blok"]})
    expect(rows.last.get_by_role("status")).to_have_text(
        "no op, parameter or gradient seen so far matches 'Blok'; did you mean 'Block'?"
    )
    expect(page.locator(".watchpoint").get_by_role("status")).to_have_count(1)
    rows.last.scroll_into_view_if_needed()
    picture(page, "82-no-such-op-light")


def test_a_weight_is_compared_with_its_step_before_and_a_hit_gradient_is_shown(
    browser: Browser,
) -> None:
    with Process(*WORDS, str(RAINFALL), "--epochs", "50") as training:
        page = look(browser, training.said(r"the page is at (\S+)").group(1))
        in_state(page, "paused before the first step")
        page.get_by_label("Steps to run").fill("2")
        page.keyboard.press("Tab")
        page.get_by_role("button", name="Run steps").click()
        _stands_at(page, 2)
        _open_the_weight(page)
        page.keyboard.press("s")
        _stands_at(page, 4)
        page.get_by_label("Compare with").select_option(label="previous step (3)")
        expect(page.locator(".versus")).to_have_text("step 4 − step 3")
        expect(page.locator(".distances")).to_contain_text("256 of 256 differ")
        picture(page, "82-weight-before")
        _watch_gradients(page)
        page.keyboard.press("F8")
        in_state(page, "paused at a hit")
        expect(page.locator(".headline")).to_contain_text(
            "the gradient of river.weight has 32 NaN of 32 values in step 7"
        )
        details = page.get_by_role("region", name="Op", exact=True)
        expect(details.get_by_role("heading", name="river.weight.grad")).to_be_visible()
        page.keyboard.press("h")
        page.get_by_role("button", name="by cause").click()
        hit = page.get_by_role("listitem").filter(has_text="river.weight.grad")
        expect(hit.first).to_be_in_viewport()
        hit.first.get_by_role("button", name="advice").click()
        expect(hit.first.locator(".advice")).to_be_visible()
        page.reload()
        expect(hit.first.locator(".advice")).to_be_visible()
        picture(page, "83-gradient-hit")
        page.keyboard.press("p")
        expect(page.locator(".watchpoint .hit-count")).to_have_text("6")
        details.get_by_role("button", name="1 hit").click()
        expect(page.locator(".hits [role=status]")).to_have_text("1 result")
        page.get_by_label("Location").select_option(value="0")
        expect(page.get_by_role("heading", name="No hit matches")).to_be_visible()
        page.get_by_label("Location").select_option(value="1")
        expect(page.locator(".hits [role=status]")).to_have_text("6 results")
        page.reload()
        expect(page.locator(".hits [role=status]")).to_have_text("6 results")


def test_a_new_watchpoint_can_be_checked_on_the_available_values(browser: Browser) -> None:
    with Process(*WORDS, str(RAINFALL), "--epochs", "50") as training:
        page = look(browser, training.said(r"the page is at (\S+)").group(1))
        in_state(page, "paused before the first step")
        page.keyboard.press("s")
        _stands_at(page, 1)
        page.keyboard.press("w")
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Condition", exact=True).select_option("tensor_too_large")
        dialog.get_by_label("the maximum above").fill("-100")
        dialog.get_by_role("button", name="Add watchpoint").click()
        page.locator(".toast").get_by_role("button", name="check now").click()
        check = page.locator(".recheck")
        said = re.compile(r"12 of \d+ checked, 12 new hits")
        expect(check.get_by_role("status")).to_have_text(said)
        expect(check).to_contain_text("were not saved")
        picture(page, "85-checked")
        page.reload()
        expect(check).to_contain_text("12 new hits")
        page.keyboard.press("h")
        expect(page.locator(".hits [role=status]")).to_have_text("12 results")


def test_find_visits_each_nan_in_all_planes(browser: Browser, tmp_path: Path) -> None:
    script = tmp_path / "planes.py"
    script.write_text(PLANES)
    with Process(*WORDS, str(script)) as training:
        page = look(browser, training.said(r"the page is at (\S+)").group(1))
        in_state(page, "paused before the first step")
        page.keyboard.press("w")
        page.get_by_role("button", name="Add watchpoint").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.keyboard.press("Space")
        in_state(page, "paused at a hit")
        expect(page.locator(".headline")).to_contain_text("div-op0")
        page.keyboard.press("t")
        target = page.get_by_role("table", name="Values").locator(".cell.nan.target")
        for index, row in (("[4, 2, :, :]", 7), ("[4, 2, :, :]", 11), ("[5, 1, :, :]", 0)):
            page.get_by_role("button", name="find").click()
            expect(page.get_by_label("Index")).to_have_value(index)
            expect(target.locator("..").get_by_role("rowheader")).to_have_text(str(row))
            expect(target).to_be_in_viewport()
        picture(page, "84-found")
        page.reload()
        expect(page.locator(".cell.target")).to_have_text("nan")
        page.get_by_role("button", name="Previous slice in dimension 0").click()
        expect(page.locator(".cell").first).to_be_visible()
        expect(page.locator(".cell.target")).to_have_count(0)


@pytest.mark.parametrize("follows", [True, False])
def test_a_rank_that_pauses_while_another_is_shown_is_followed_or_named_in_a_message(
    server: Server, browser: Browser, follows: bool
) -> None:
    ranks = [
        FakeRank(server.rank_port, run="pair", rank=number, world_size=2, steps=steps).start()
        for number, steps in enumerate((3, 50))
    ]
    page = look(browser, f"{server.page}&run=pair")
    in_state(page, "paused before the first step")
    page.get_by_label("follow training").set_checked(follows)
    page.keyboard.press("w")
    page.get_by_role("button", name="Add watchpoint").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Space")
    told = page.locator(".toast").filter(has_text="rank 1")
    second = page.get_by_role("tab", name="1", exact=True)
    if not follows:
        expect(told).to_contain_text("hit")
        expect(second).to_have_attribute("aria-selected", "false")
        told.get_by_role("button", name="show").click()
    in_state(page, "paused at a hit")
    expect(second).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("heading", name="log-op0")).to_be_visible()
    expect(told).to_have_count(0)
    page.get_by_role("tab", name="0", exact=True).click()
    page.keyboard.press("h")
    other = page.get_by_role("listitem").filter(has_text="rank 1, step 5")
    expect(other.first).to_be_visible()
    page.get_by_role("button", name="all ranks", pressed=True).click()
    expect(other).to_have_count(0)
    for each in ranks:
        each.close()
        each.join()


def _stands_at(page: Page, step: int) -> None:
    expect(page.locator(".where b")).to_have_text(str(step))
    in_state(page, "paused after a step")


def _open_the_weight(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("soil.weight")
    page.keyboard.press("Enter")
    page.locator('.result[data-path="soil.weight"]').click()
    page.keyboard.press("t")
    expect(page.get_by_label("Step", exact=True).first).to_contain_text("latest: step 2")


def _watch_gradients(page: Page) -> None:
    page.keyboard.press("w")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Condition", exact=True).select_option("gradient_exploding")
    dialog.get_by_role("button", name="Add watchpoint").click()
    expect(dialog).to_have_count(0)
