"""The page in a real browser over a real training: from the first pause to the end."""

from __future__ import annotations

import os
import re
import shutil

import pytest
from playwright.sync_api import Page, expect
from tests.e2e.debugged import RAINFALL, ROOT, Process, chromium, in_state, look, picture, read

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = pytest.mark.flaky(reruns=2)

README_PICTURE = ROOT / "docs" / "images" / "debugger.png"
NETWORK = "Default/network-FlowNet/"
LOG = f"{NETWORK}log-op0"


@pytest.mark.document(221, 239)
def test_the_training_pauses_at_the_origin_of_a_nan_which_is_inspected_and_compared() -> None:
    words = ("debug", "--no-open", "--port", "0", "--debugger-port", "0", "--watch-for", "nothing")
    with Process(*words, str(RAINFALL), "--epochs", "200") as training, chromium() as browser:
        page = look(browser, training.said(r"the page is at (\S+)").group(1))
        in_state(page, "paused before the first step")
        _see_what_is_known_before_the_first_step(page)
        _see_the_graph(page)
        _keep_values_of_the_log(page)
        _watch_for_overflow(page)
        _hit_the_producer(page)
        _open_the_tensor(page)
        _compare_with_the_previous_step(page)
        _come_back_after_a_reload(page)
        _follow_a_carrier_to_the_origin(page)
        _run_to_an_op(page)
        _terminate(page)
        training.said(r"the training has ended")
    assert "Traceback" not in training.text


def _see_what_is_known_before_the_first_step(page: Page) -> None:
    # The ops of the forward pass, as soon as they are traced; modules and parameters until then.
    name = page.locator(".breadcrumb")
    expect(name).to_contain_text("as traced: its ops have not run yet")
    expect(page.locator(f'svg .box[data-path="{NETWORK}"]')).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("log-op")
    expect(page.get_by_role("option", name=re.compile("log-op0")).first).to_be_visible()
    page.get_by_label("Search ops").fill("weight")
    page.get_by_role("option", name=re.compile("soil.weight")).click()
    details = page.get_by_role("region", name="Op", exact=True)
    expect(details.locator(".under").first).to_contain_text("mean")
    picture(page, "01-before-the-first-step")
    page.get_by_label("Search ops").fill("")
    page.get_by_label("Search ops").press("Escape")


def _see_the_graph(page: Page) -> None:
    page.keyboard.press("s")
    in_state(page, "paused after a step")
    expect(page.locator(".where")).to_contain_text("step 1")
    network = page.locator(f'svg .box[data-path="{NETWORK}"]')
    expect(network).to_be_visible()
    expect(page.get_by_role("treeitem", name="mse_loss")).to_be_visible()
    read(page)
    picture(page, "02-graph")
    expect(page.locator(f'svg .box[data-path="{LOG}"]')).to_be_visible()
    read(page)


def _keep_values_of_the_log(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("log-op")
    page.get_by_role("option", name=re.compile("log-op0")).first.click()
    details = page.get_by_role("region", name="Op", exact=True)
    expect(details.get_by_role("heading", name="log-op0")).to_be_visible()
    expect(details.locator(".this-line")).to_contain_text("wetness = torch.log(rain + 1.0)")
    expect(page.locator(f'svg .box.selected[data-path="{LOG}"]')).to_be_visible()
    picture(page, "03-search-and-details")
    details.get_by_role("button", name="keep values").click()
    expect(details.get_by_role("button", name=re.compile("^kept: last 2 steps"))).to_be_visible()
    page.get_by_label("Search ops").fill("")
    page.get_by_label("Search ops").press("Escape")


def _watch_for_overflow(page: Page) -> None:
    page.keyboard.press("w")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".formula")).to_be_visible()
    picture(page, "04-new-watchpoint")
    dialog.get_by_role("button", name="Add watchpoint").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("list", name="Watchpoints")).to_contain_text("Tensor overflow")


def _hit_the_producer(page: Page) -> None:
    page.keyboard.press("Space")
    in_state(page, "paused at a hit")
    page.keyboard.press("h")
    hit = page.get_by_role("listitem").filter(has_text="log-op0").first
    expect(hit).to_contain_text("step 7")
    expect(hit).to_contain_text("origin")
    expect(page.locator(f'svg .box.origin.current[data-path="{LOG}"]')).to_be_visible()
    expect(page.locator(".toast")).to_have_count(0)
    made = picture(page, "05-hit")
    if os.environ.get("SONDE_WRITE_PICTURES"):
        README_PICTURE.parent.mkdir(exist_ok=True)
        shutil.copyfile(made, README_PICTURE)


def _open_the_tensor(page: Page) -> None:
    page.get_by_role("list", name="Causes").get_by_role(
        "button", name="1 tensor in forward"
    ).click()
    hit = page.get_by_role("list", name="Tensors").get_by_role("listitem")
    expect(hit).to_contain_text("log-op0")
    hit.get_by_role("button", name="float32[32,8]").click()
    table = page.get_by_role("table", name="Values")
    expect(table.get_by_role("cell").first).not_to_have_text("·")
    page.get_by_role("button", name="find").click()
    expect(table.locator(".cell.nan.target")).to_have_text("nan")
    expect(table.locator(".cell.nan.target")).to_be_in_viewport()
    picture(page, "06-tensor")
    page.get_by_role("tab", name="heat map").click()
    expect(page.get_by_role("img", name="Values as a heat map")).to_be_visible()
    picture(page, "07-heat-map")
    page.get_by_role("tab", name="table").click()


def _compare_with_the_previous_step(page: Page) -> None:
    page.get_by_label("Compare with").select_option(label="previous step (6)")
    expect(page.locator(".distances")).to_contain_text("differ")
    expect(page.locator(".distances")).to_contain_text("1 finite in one only")
    expect(page.get_by_role("table", name="Difference")).to_be_visible()
    picture(page, "08-compare")
    page.get_by_role("tab", name="heat map").click()
    expect(page.get_by_role("img", name="Difference as a heat map")).to_be_visible()
    picture(page, "09-compare-heat-map")


def _come_back_after_a_reload(page: Page) -> None:
    before = page.url
    texts = page.locator(".distances").inner_text()
    page.reload()
    expect(page.get_by_role("img", name="Difference as a heat map")).to_be_visible()
    expect(page.locator(".distances")).to_have_text(re.compile(re.escape(texts.split("\n")[0])))
    in_state(page, "paused at a hit")
    assert page.url == before
    page.keyboard.press("g")
    expect(page.locator(f'svg .box.selected[data-path="{LOG}"]')).to_be_visible()


def _follow_a_carrier_to_the_origin(page: Page) -> None:
    page.get_by_role("button", name="Continue").click()
    # What got NaN from an origin that the training has paused for does not pause it again.
    in_state(page, "running")
    page.get_by_role("button", name="Pause").click()
    in_state(page, "paused on request")
    page.locator(".hits").get_by_label("Step").fill("7")
    page.locator(".hits").get_by_label("Step").press("Enter")
    carrier = page.get_by_role("listitem").filter(has_text="addmm-op0").first
    expect(carrier).to_contain_text("origin: log-op0")
    carrier.get_by_role("button", name=re.compile("^chain of")).click()
    expect(carrier.get_by_role("list", name="From the origin to here")).to_contain_text("log-op0")
    picture(page, "10-carrier")
    carrier.get_by_role("button", name="origin: log-op0").click()
    expect(page.locator(f'svg .box.selected[data-path="{LOG}"]')).to_be_visible()


def _run_to_an_op(page: Page) -> None:
    page.get_by_role("tab", name="Watchpoints").click()
    page.get_by_label("Enable Tensor overflow").uncheck()
    expect(page.locator(".watchpoint.off")).to_be_visible()
    page.get_by_role("treeitem", name="mse_loss").click()
    page.get_by_role("treeitem", name="mse_loss-op0").click()
    page.get_by_role("button", name="run to here").click()
    in_state(page, "paused at an op")
    expect(page.locator(".where-op")).to_have_text("mse_loss-op0")
    page.keyboard.press("n")
    expect(page.locator(".where-op")).not_to_have_text("mse_loss-op0")
    in_state(page, "paused at an op")
    page.keyboard.press("l")
    expect(page.get_by_role("img", name="Loss by step")).to_be_visible()
    picture(page, "11-loss")
    page.keyboard.press("i")
    expect(page.locator(".metadata")).to_contain_text("rainfall.py --epochs 200")
    measured = r"[\d.]+ (s|ms|µs), [\d.]+ steps/s"
    # Every step may have been observed: then there is nothing to tell of a step without Sonde.
    for speed, text in (("with", measured), ("without", rf"{measured}|not known: ")):
        fact = page.get_by_role("row", name=f"speed {speed} Sonde").get_by_role("cell")
        expect(fact).to_have_text(re.compile(f"^({text})"))
    picture(page, "12-run")


def _terminate(page: Page) -> None:
    page.get_by_role("button", name="Terminate").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    picture(page, "13-terminate")
    dialog.get_by_role("button", name="Terminate").click()
    in_state(page, "ended")
    expect(page.get_by_role("button", name="Continue")).to_be_disabled()
    picture(page, "14-ended")


@pytest.mark.document(
    220,
    says="the Debugger server is launched and waiting for the training to connect",
    how="`sonde serve`: the page says `Waiting for a training` and how to start one",
)
def test_help_lists_the_keys_before_any_training() -> None:
    with Process("serve", "--port", "0", "--debugger-port", "0") as server, chromium() as browser:
        page = look(browser, server.said(r"the page is at (\S+)").group(1), dark=False)
        expect(page.get_by_role("heading", name="Waiting for a training")).to_be_visible()
        said = server.said(r"connect to port \d+: (.*) SONDE_DEBUGGER_TOKEN=").group(1)
        expect(page.get_by_text(f"{said} sonde run train.py")).to_be_visible()
        picture(page, "20-waiting-light")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("run to the selected op")
        picture(page, "21-help-light")
