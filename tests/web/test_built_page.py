"""The page in the package was built from these sources; checked without Node."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
STATIC = ROOT / "src" / "sonde" / "server" / "static"
REPORT = ROOT / "src" / "sonde" / "report" / "static"
LEFT_OUT = {"src/wire.ts"}


def _digest() -> str:
    names = ["index.html", "package.json", "vite.config.ts"]
    for folder in ("src", "public"):
        files = (path for path in (WEB / folder).rglob("*") if path.is_file())
        names += [path.relative_to(WEB).as_posix() for path in files]
    digest = hashlib.sha256()
    for name in sorted(set(names) - LEFT_OUT):
        digest.update(f"{name}\0".encode() + (WEB / name).read_bytes() + b"\0")
    return digest.hexdigest()


def test_the_page_in_the_package_was_built_from_these_sources() -> None:
    built_from = (STATIC / "sources.sha256").read_text().strip()
    assert built_from == _digest(), "the page is stale: make web"


def test_the_page_asks_for_no_file_that_is_not_there_and_for_no_other_host() -> None:
    page = (STATIC / "index.html").read_text()
    named = re.findall(r'(?:src|href)="\./([^"]+)"', page)
    assert len(named) >= 3
    for name in named:
        assert (STATIC / name).is_file(), name
    script = next(STATIC.glob("assets/index-*.js")).read_text()
    addresses = set(re.findall(r"https?://[\w.-]+", script)) - {"http://www.w3.org"}
    assert addresses == set()


def test_the_script_of_the_report_pages_was_built_from_these_sources() -> None:
    lines = (REPORT / "sources.sha256").read_text().splitlines()
    built_from = {name: digest for digest, name in (line.split("  ") for line in lines)}
    sources = {path for path in (WEB / "report").rglob("*") if path.is_file()}
    assert {path.relative_to(WEB).as_posix() for path in sources} <= built_from.keys()
    for name, digest in built_from.items():
        found = hashlib.sha256((WEB / name).read_bytes()).hexdigest()
        assert found == digest, f"{name} changed: make web"


def test_the_script_of_the_report_pages_can_be_embedded_in_a_page() -> None:
    for name in ("report.js", "report.css"):
        text = (REPORT / name).read_text().lower()
        assert "</script" not in text
        assert "</style" not in text
        assert "<!--" not in text
        assert set(re.findall(r"https?://[\w.-]+", text)) <= {"http://www.w3.org"}
