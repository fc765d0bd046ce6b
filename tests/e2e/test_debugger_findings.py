"""The findings of a diagnosis on the page, in a real browser: headline, list, graph, loss curve."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.e2e.debugged import Process, in_state, look, picture
from tests.e2e.running import run

pytestmark = pytest.mark.flaky(reruns=2)

SCRIPTS = Path(__file__).parent / "scripts"
TWICE = SCRIPTS / "softmax_twice.py"
MESSAGE = (
    "the output of softmax at softmax_twice.py:17 is given to a loss at softmax_twice.py:27 that "
    "applies softmax again"
)
LINE = "return torch.softmax(scores, dim=-1)"
ADVICE = "remove softmax at softmax_twice.py:17 and give the loss the logits"
SOFTMAX = "Default/network-Classifier/_softmax-op0"


def has_the_finding(page: Page) -> None:
    """The headline, and the list with status, evidence and advice."""
    expect(page.locator(".headline-text")).to_have_text(f"{MESSAGE}, from step 0 on: {LINE}.")
    page.get_by_role("button", name="Findings", exact=True).click()
    found = page.get_by_role("list", name="Findings", exact=True).locator(".finding")
    expect(found).to_have_count(1)
    expect(found.locator(".finding-text")).to_have_text(f"1. {MESSAGE}")
    expect(found.locator(".finding-head b")).to_have_text("established")
    expect(found.locator(".finding-advice")).to_have_text(f"Do: {ADVICE}")
    table = found.get_by_role("table", name="Evidence of double-softmax")
    expect(table.locator("tr")).to_have_text(["innerSoftmax", "outerLogSoftmax"])


def has_its_mark(page: Page) -> None:
    """The op that the finding names is marked in the graph, and so is the module around it."""
    page.get_by_role("button", name="In the graph").click()
    box = page.locator(f'.box[data-path="{SOFTMAX}"]')
    expect(box.locator(".finding-mark")).to_have_count(1)
    expect(box).to_have_accessible_name(re.compile("named by the findings double-softmax$"))
    network = page.locator('.box[data-path="Default/network-Classifier/"]')
    expect(network.locator("> .finding-mark")).to_have_count(1)
    expect(page.locator(".legend")).to_contain_text("finding")
    head = page.locator('.box[data-path="Default/network-Classifier/head-Linear/"]')
    expect(head).to_have_count(1)
    expect(head.locator(".finding-mark")).to_have_count(0)


def test_a_training_is_diagnosed_without_asking(browser: Browser) -> None:
    words = ("debug", "--port", "0", "--debugger-port", "0", "--no-pause")
    with Process(*words, str(TWICE)) as training:
        page = look(browser, training.said(r"the page is at (\S+)").group(1))
        in_state(page, "ended")
        has_the_finding(page)
        picture(page, "95-findings")
        has_its_mark(page)
        picture(page, "96-findings-graph")
        page.get_by_role("tab", name="Loss").click()
        steps = page.get_by_role("list", name="Findings by step").locator("li")
        expect(steps).to_have_text(re.compile(r"1 from step 0 on: double-softmax \(established\)"))
        picture(page, "97-findings-loss")
        page.get_by_role("button", name="double-softmax").last.click()
        rule = page.get_by_role("dialog", name="double-softmax")
        expect(rule).to_contain_text(
            "Probabilities are given to a loss that expects logits and applies softmax itself."
        )
        picture(page, "98-findings-rule")
        rule.get_by_role("button", name="Close").click()
        page.emulate_media(color_scheme="light")
        picture(page, "99-findings-light")
        training.said(r"1\. established: the output of softmax at softmax_twice\.py:17")
        training.said("the training has ended; the page stays")


def test_without_a_diagnosis_the_page_says_so(browser: Browser) -> None:
    words = ("debug", "--port", "0", "--debugger-port", "0", "--no-pause", "--no-diagnose")
    with Process(*words, str(TWICE)) as training:
        page = look(browser, training.said(r"the page is at (\S+)").group(1))
        in_state(page, "ended")
        page.get_by_role("tab", name="Findings").click()
        expect(page.get_by_role("heading", name="Not diagnosed")).to_be_visible()
        expect(page.locator(".headline-text")).to_have_count(0)


def test_a_dump_of_a_diagnosed_training_has_its_findings(browser: Browser, tmp_path: Path) -> None:
    dump = tmp_path / "d"
    words = ("run", "--diagnose", "--dump-to", str(dump), "--dump-steps", "0", str(TWICE))
    assert run("-m", "sonde", *words).returncode == 1
    with Process("view", "--port", "0", "--no-browser", str(dump)) as view:
        page = look(browser, view.said(r"the page is at (\S+)").group(1))
        has_the_finding(page)
        has_its_mark(page)
