"""The site that ``make docs`` builds: links, pages, and words of MindSpore in its search."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

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


class Targets(HTMLParser):
    """What a page links to and loads, and the places in it that links can name."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and tag != "meta":
                self.places.add(value or "")
            elif name in ("href", "src") and tag != "base":
                self.links.add(value or "")


def test_every_link_and_fragment_of_the_built_pages_leads_somewhere(site: Path) -> None:
    pages = {path: Targets(path) for path in site.rglob("*.html") if path.name != "404.html"}
    broken, checked = [], 0
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            checked += 1
            if parts.scheme in ("http", "https"):  # Not opened: the tests use no network.
                is_right = re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?|localhost:\d+", parts.netloc)
            elif parts.scheme:
                is_right = None
            else:
                is_right = leads_somewhere(page, parts.path, unquote(parts.fragment), pages)
            if not is_right:
                broken.append(f"{page.relative_to(site)}: {link}")
    assert checked > 10_000
    assert broken == []


def leads_somewhere(page: Path, path: str, place: str, pages: dict[Path, Targets]) -> bool:
    target = (page.parent / unquote(path)).resolve() if path else page
    if target.is_dir():
        target /= "index.html"
    return target.is_file() and (not place or target not in pages or place in pages[target].places)


REPOSITORY_LINK = re.compile(r"\]\(([^)#:\s]*)#([^)\s]+)\)")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_fragments_in_pages_of_the_repository_are_headings(name: str, site: Path) -> None:
    text = (ROOT / name).read_text()
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    own = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}
    for path, place in REPOSITORY_LINK.findall(text):
        if path:
            assert path.startswith("docs/")
            made = re.sub(r"README\.md$", "index.md", path.removeprefix("docs/"))
            known = Targets(site / re.sub(r"\.md$", ".html", made)).places
        assert place in (known if path else own), f"{name} links to {path}#{place}"


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
