"""What others put into the directory of a report."""

import os
from pathlib import Path

import pytest

from sonde.report.links import LINKS, MARK, write_report

PAGE = (
    MARK.format(kind="diagnosis") + "\n<title>{title}</title>\n" + LINKS.format(links="[]") + "\n"
)


def test_pipes_links_and_odd_names_neither_stop_nor_change_a_report(tmp_path: Path) -> None:
    directory = tmp_path / "reports"
    directory.mkdir()
    other = tmp_path / "other.html"
    other.write_text(PAGE.format(title="elsewhere"))
    os.mkfifo(directory / "a.html")
    (directory / "b.html").symlink_to(other)
    (directory / "c.html").mkdir()
    odd = Path(os.fsdecode(os.fsencode(directory) + b"/d\xff.html"))
    odd.write_text(PAGE.format(title="&lt;script&gt;alert(1)&lt;/script&gt;"))
    write_report(directory / "own.html", PAGE.format(title="own"))
    assert other.read_text() == PAGE.format(title="elsewhere")
    assert (directory / "b.html").is_symlink()
    text = (directory / "own.html").read_text()
    assert "d%FF.html" in text
    assert "<script>alert" not in text
    assert "elsewhere" not in text
    assert "own.html" in odd.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_reports_of_other_users_stay_as_they_are(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.html"
    foreign.write_text(PAGE.format(title="foreign"))
    os.chown(foreign, 12345, 12345)
    write_report(tmp_path / "own.html", PAGE.format(title="own"))
    assert foreign.read_text() == PAGE.format(title="foreign")
    assert foreign.stat().st_uid == 12345
