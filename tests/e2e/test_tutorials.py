"""The commands of the tutorials print what the pages say, and open what the pictures show.

``python -m tests.docs.console docs/tutorials/*.md`` writes into the pages what the commands print;
with ``SONDE_WRITE_PICTURES`` set, the pictures replace those in ``docs/images``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.docs.console import FOLDER, ROOT, commands, prepared, run, without_errors
from tests.e2e.debugged import Process, in_state, look, picture

from sonde.testing.sample_values import SAMPLE_TOKEN

pytestmark = pytest.mark.slow

# A browser on a busy machine is late now and then; a second try is reported as one.
in_a_browser = pytest.mark.flaky(reruns=2)

IMAGES = ROOT / "docs" / "images"
PAGES = {
    path.stem: path
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    if commands(path.read_text())
}


@dataclass(frozen=True)
class Tutorial:
    """A folder in which the commands of a page have run, each with what it printed."""

    folder: Path
    printed: list[str]


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tutorial]:
    """Runs the commands of a page, once."""
    done: dict[str, Tutorial] = {}

    def run_all(name: str) -> Tutorial:
        if name not in done:
            folder = prepared(tmp_path_factory.mktemp(name))
            texts = [command.text for command in commands(PAGES[name].read_text())]
            done[name] = Tutorial(folder, [run(text, folder) for text in texts])
        return done[name]

    return run_all


def test_each_tutorial_has_commands() -> None:
    assert list(PAGES) == [
        "compiled-model-disagrees",
        "loss-is-nan",
        "port-trains-worse",
        "ranks-drift-apart",
    ]


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_tutorial_print_what_the_page_says(
    name: str, tutorial: Callable[[str], Tutorial]
) -> None:
    expected = commands(PAGES[name].read_text())
    for command, shown in zip(expected, tutorial(name).printed, strict=True):
        assert without_errors(shown) == without_errors(command.output), command.text


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


@in_a_browser
def test_the_captured_step_in_the_debugger(
    tutorial: Callable[[str], Tutorial], browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tutorial("loss-is-nan").folder
    monkeypatch.chdir(folder)
    words = ("replay", "sonde_steps/step_5.rank_0", "--debug", "--exit")
    with Process(*words, SONDE_DEBUGGER_TOKEN=SAMPLE_TOKEN) as process:
        page = look(browser, process.said(r"the page is at (\S+)").group(1), dark=False)
        in_state(page, "paused")
        page.keyboard.press("Space")
        in_state(page, "paused at a hit")
        page.keyboard.press("h")
        hit = page.get_by_role("listitem").filter(has_text="div-op0").first
        expect(hit).to_contain_text("origin")
        expect(page.locator(".toast")).to_have_count(0)
        take(page, "tutorial-loss-is-nan", folder)


@in_a_browser
@pytest.mark.parametrize(
    ("name", "report", "text"),
    [
        ("port-trains-worse", "report.html", "an op is missing or added"),
        ("compiled-model-disagrees", "loss.html", "out of tolerance from step 0 on"),
    ],
)
def test_a_report(
    name: str, report: str, text: str, tutorial: Callable[[str], Tutorial], browser: Browser
) -> None:
    folder = tutorial(name).folder
    page = look(browser, (folder / report).as_uri(), dark=False)
    expect(page.get_by_text(text).first).to_be_visible()
    take(page, f"tutorial-{name}", folder)


@in_a_browser
def test_the_ranks_in_the_debugger(
    tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = prepared(tmp_path)
    monkeypatch.chdir(folder)
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
