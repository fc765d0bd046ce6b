"""The site that ``make docs`` builds: links, pages, and words of MindSpore in its search."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import expect
from tests.docs.reference import PAGES, WORDS
from tests.e2e.debugged import chromium, look

pytest.importorskip("mkdocs")
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site. A link or an anchor that leads nowhere is an error of the build."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return folder


def entries(site: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((site / "search" / "search_index.json").read_text())[
        "docs"
    ]
    return found


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    made = {path.relative_to(site) for path in site.rglob("*.html")}
    expected = {
        page.with_name("index.html") if page.name == "README.md" else page.with_suffix(".html")
        for page in pages
    }
    assert expected <= made


def test_the_site_needs_no_network(site: Path) -> None:
    loaded = re.compile(r'<(?:script|link|img)[^>]*(?:src|href)="?(https?:[^">\s]+)')
    for page in site.rglob("*.html"):
        assert loaded.findall(page.read_text()) == [], page.name


def test_the_search_knows_the_words_of_mindspore(site: Path) -> None:
    known = {
        (each["location"], tag.lower()) for each in entries(site) for tag in each.get("tags", ())
    }
    for entry in yaml.safe_load(WORDS.read_text()):
        page = entry["page"].partition("#")[0].replace("README.md", "index.html")
        place = page.replace(".md", ".html")
        assert (place, entry["word"].lower()) in known, f"{entry['word']} does not lead to {place}"


def test_the_search_works_in_pages_that_are_opened_as_files(site: Path) -> None:
    with chromium() as browser:
        page = look(browser, (site / "index.html").as_uri())
        field = page.get_by_role("textbox", name="Search")
        expect(page.locator("html.js")).to_be_attached()
        page.keyboard.press("/")
        for word, place in (("MS_DEBUGGER_PORT", "environment"), ("Watch Point", "debugger")):
            field.fill("")
            field.press_sequentially(word)
            first = page.locator(".md-search-result__link").first
            expect(first).to_have_attribute("href", re.compile(rf"/{place}\.html"), timeout=60_000)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_pages_made_from_the_code_are_up_to_date(path: Path) -> None:
    assert path.read_text() == PAGES[path](), "run python -m tests.docs.reference"
