"""Sonde's page in a frame of another page of this machine, as a notebook shows it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.dump.sample_dumps import DATA
from tests.e2e.debugged import picture

from sonde.integrations.notebook.page_frame import end_pages, open_page


@pytest.fixture
def other_site(tmp_path: Path) -> Iterator[str]:
    """The address of a server that is not Sonde's, for files in ``tmp_path``."""
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_page_is_in_the_frame(browser: Browser, other_site: str, tmp_path: Path) -> None:
    dump = str(DATA / "nan_log")
    frame = open_page(dump, "localhost")
    try:
        (tmp_path / "book.html").write_text(f"<!doctype html>{frame._repr_html_()}")
        page = browser.new_page()
        page.goto(f"http://{other_site}/book.html")
        inside = page.frame_locator("iframe")
        expect(inside.get_by_role("tab", name="Watchpoints")).to_be_visible(timeout=30_000)
        picture(page, "notebook-frame")
        assert open_page(dump, "localhost").address == frame.address, "one server per dump"
    finally:
        end_pages()
