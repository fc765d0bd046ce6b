"""Real trainings and servers as processes, and a real browser that shows them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.e2e.running import environment
from tests.server.waiting import until
from tests.warm_python.starting import warm_python

from sonde.testing.sample_values import SAMPLE_TOKEN

ROOT = Path(__file__).parents[2]
RAINFALL = ROOT / "examples" / "rainfall.py"
SCREENSHOTS = ROOT / "screenshots"
PAGE_SIZE = {"width": 1280, "height": 800}
WAIT_SECONDS = 60.0
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-dev-shm-usage",
]

expect.set_options(timeout=30_000)


class Process:
    """A command of Sonde; what it says is read as it comes."""

    def __init__(self, *words: str, **more: str) -> None:
        self._process = subprocess.Popen(
            [warm_python(), "-m", "sonde", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environment(**more),
            start_new_session=True,
        )
        self.text = ""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.text += line
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def said(self, pattern: str) -> re.Match[str]:
        """Wait until a line of the output has ``pattern``."""
        with self._changed:
            self._changed.wait_for(
                lambda: re.search(pattern, self.text) or not self._reader.is_alive(), WAIT_SECONDS
            )
            found = re.search(pattern, self.text)
        assert found is not None, self.text
        return found

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(signal.SIGTERM)

    def end(self, number: int) -> None:
        """Send a signal to the command and its children, and wait."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(15)
        self._reader.join(15)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def wait(self) -> int:
        return self._process.wait(WAIT_SECONDS)


class Serving(Process):
    """``sonde serve`` on the ports given, or on free ones."""

    def __init__(self, port: int = 0, rank_port: int = 0) -> None:
        super().__init__(
            "serve",
            *("--port", str(port), "--debugger-port", str(rank_port)),
            SONDE_DEBUGGER_TOKEN=SAMPLE_TOKEN,
        )
        self.page = self.said(r"the page is at (\S+)").group(1)
        self.rank_port = int(self.said(r"trainings connect to port (\d+)").group(1))
        self.port = urlsplit(self.page).port or 0

    def wait_for(self, run: str) -> None:
        """Wait until a training is connected and paused."""
        until(
            self.page,
            f"/runs/{run}",
            lambda found: found["ranks"][0]["state"] == "paused",
            seconds=WAIT_SECONDS,
        )

    def train(self, run: str, *words: str) -> Process:
        """A training that connects to this server."""
        return Process(
            "run",
            *words,
            SONDE_DEBUGGER_HOST="127.0.0.1",
            SONDE_DEBUGGER_PORT=str(self.rank_port),
            SONDE_RUN_ID=run,
        )


def chromium_path() -> str:
    """The browser, which ``make test`` installs where it can."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    if os.environ.get("SONDE_BROWSER_TESTS"):
        pytest.fail("Chromium is not installed: apt-get install chromium")
    pytest.skip("Chromium is not installed: apt-get install chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def look(browser: Browser, address: str, *, dark: bool = True) -> Page:
    """A page of a user of its own; what goes wrong in it makes the test fail."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport=PAGE_SIZE, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.on("pageerror", _fail)
    page.goto(address)
    if "token=" in address:  # The browser is led on to the address without the token.
        page.wait_for_url(lambda url: "token=" not in url)
    return page


def _fail(error: Exception) -> None:
    raise AssertionError(f"an error in the page: {error}")


def picture(page: Page, name: str) -> Path:
    """A screenshot in a folder git does not see."""
    SCREENSHOTS.mkdir(exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path)
    return path


def read(page: Page) -> None:
    """What the graph shows is large enough to be read: no text smaller than 8 pixels, no name
    smaller than 9."""
    small = page.evaluate(
        """() => [...document.querySelectorAll("svg.picture text")]
          .filter((text) => text.checkVisibility())
          .map((text) => {
            const scale = text.getScreenCTM().a;
            const size = parseFloat(getComputedStyle(text).fontSize) * scale;
            const isSmall = text.closest(".is-outside, .is-op:not(.kind-op)") !== null;
            const isName = text.classList.contains("label") && !isSmall;
            return [text.textContent, size, isName ? 9 : 8];
          })
          .filter(([, size, least]) => size < least)"""
    )
    assert small == []


def in_state(page: Page, text: str) -> None:
    """Wait until the page shows this state of the training."""
    expect(page.get_by_role("banner").locator(".pill")).to_have_text(re.compile(text))
