"""The pictures of the tutorials: the pages that their commands open, in a real browser.

With ``SONDE_WRITE_PICTURES`` set they replace those in ``docs/images``.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.docs.console import FOLDER, ROOT, prepared, run
from tests.e2e.debugged import Process, in_state, look, picture

from sonde.testing.sample_values import SAMPLE_TOKEN

# A browser on a busy machine is late now and then; a second try is reported as one.
pytestmark = [pytest.mark.flaky(reruns=2), pytest.mark.timeout(900)]

IMAGES = ROOT / "docs" / "images"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the scripts, in which the commands run."""
    found = prepared(tmp_path)
    monkeypatch.chdir(found)
    return found


def take(page: Page, name: str, folder: Path) -> None:
    """A screenshot in which ``folder`` has the name that the pages give it."""
    page.evaluate(
        """([folder, instead]) => {
          const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          while (texts.nextNode()) {
            const text = texts.currentNode;
            if (text.data.includes(folder)) text.data = text.data.replaceAll(folder, instead);
          }
        }""",
        [str(folder), FOLDER],
    )
    made = picture(page, name)
    if os.environ.get("SONDE_WRITE_PICTURES"):
        shutil.copyfile(made, IMAGES / f"{name}.png")


def test_the_captured_step_in_the_debugger(folder: Path, browser: Browser) -> None:
    run("sonde run --guard pairs.py", folder)
    words = ("replay", "sonde_steps/step_5.rank_0", "--debug", "--exit")
    with Process(*words, SONDE_DEBUGGER_TOKEN=SAMPLE_TOKEN) as process:
        page = look(browser, process.said(r"the page is at (\S+)").group(1), dark=False)
        in_state(page, "paused")
        page.keyboard.press("Space")
        in_state(page, "paused at a hit")
        page.keyboard.press("h")
        hit = page.get_by_role("listitem").filter(has_text="div-op0").first
        expect(hit).to_contain_text("producer")
        expect(page.locator(".toast")).to_have_count(0)
        take(page, "tutorial-loss-is-nan", folder)


@pytest.mark.parametrize(
    ("command", "report", "name", "text"),
    [
        (
            "sonde compare --run port.py --run original.py --html report.html",
            "report.html",
            "tutorial-port-trains-worse",
            "an op is missing or added",
        ),
        (
            "python compiled.py --eager > eager.log; python compiled.py > compiled.log;"
            " sonde loss compiled.log eager.log --html loss.html",
            "loss.html",
            "tutorial-compiled-model-disagrees",
            "out of tolerance from step 0 on",
        ),
    ],
    ids=["port", "compiled"],
)
def test_a_report(
    folder: Path, browser: Browser, command: str, report: str, name: str, text: str
) -> None:
    run(command, folder)
    page = look(browser, (folder / report).as_uri(), dark=False)
    expect(page.get_by_text(text).first).to_be_visible()
    take(page, name, folder)


def test_the_ranks_in_the_debugger(folder: Path, browser: Browser) -> None:
    words = ("debug", "--no-open", "--port", "0", "torchrun", "--nproc-per-node", "8", "ranks.py")
    with Process(*words, SONDE_DEBUGGER_TOKEN=SAMPLE_TOKEN) as process:
        address = process.said(r"the page is at (\S+)").group(1)
        for rank in range(8):
            process.said(f"rank {rank}: paused")
        page = look(browser, f"{address}&tab=ranks", dark=False)
        in_state(page, "paused")
        page.keyboard.press("Space")
        checks = page.get_by_role("table", name="Checks of the ranks")
        expect(checks).to_contain_text("2.weight", timeout=120_000)
        take(page, "tutorial-ranks-drift-apart", folder)
