"""Reports of one directory have links to each other."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from sonde.report import page
from sonde.report.links import link_reports, write_report


def links_of(path: Path) -> list[tuple[str, str, str]]:
    found = re.search(r'id="links">([^<]*)<', path.read_text())
    assert found is not None
    return [
        (each["kind"], each["title"], each["address"]) for each in msgspec.json.decode(found[1])
    ]


def test_a_new_report_and_those_before_it_name_each_other(tmp_path: Path) -> None:
    first, second = tmp_path / "a loss.html", tmp_path / "b.html"
    write_report(first, page("losses", "a < b & c", {"text": "</script>"}))
    assert links_of(first) == []
    whole = first.read_text()
    write_report(second, page("profile", "train.py: profile", {}))
    assert links_of(first) == [("profile", "train.py: profile", "b.html")]
    assert links_of(second) == [("losses", "a < b & c", "a%20loss.html")]
    second.unlink()
    link_reports(tmp_path)
    assert first.read_text() == whole


def test_pages_of_others_and_files_that_cannot_be_read_stay_as_they_are(tmp_path: Path) -> None:
    other, folder = tmp_path / "index.html", tmp_path / "folder.html"
    other.write_text("<html><title>mine</title></html>")
    folder.mkdir()
    write_report(tmp_path / "a.html", page("study", "s", {}))
    assert other.read_text() == "<html><title>mine</title></html>"
    assert links_of(tmp_path / "a.html") == []
    link_reports(tmp_path / "missing")
