"""The page in a real browser, without and with the token."""

import re

import pytest
from playwright.sync_api import expect
from tests.e2e.debugged import chromium, look, picture
from tests.server.serving_in_thread import Server

from sonde.cli import desktop
from sonde.testing.fake_rank import FakeRank

pytestmark = pytest.mark.slow


def test_the_page_asks_for_the_token_and_hides_it_from_the_address(
    server: Server, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = FakeRank(server.rank_port, run="sample").start()
    with chromium() as browser:
        page = look(browser, f"{server.url}/?run=sample&tab=loss")
        expect(page.get_by_role("heading")).to_have_text("This Sonde server needs its token")
        picture(page, "70-token-form")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_role("alert")).to_have_text("This token is wrong.")
        picture(page, "71-wrong-token")
        page.get_by_label("Token").fill(server.token)
        page.get_by_role("button", name="Open").click()
        expect(page.locator(".pill")).to_have_text(re.compile("paused"))
        expect(page).to_have_url(re.compile(r"run=sample.*tab=loss|tab=loss.*run=sample"))
        assert server.token not in page.url
        assert server.token not in page.evaluate("document.cookie")
        # A link in a file is of another site: the strict cookie is set and used all the same.
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        opened: list[str] = []
        monkeypatch.setattr(desktop.webbrowser, "open", opened.append)
        desktop.open_page(f"{server.page}&run=sample")
        other = look(browser, opened[0])
        expect(other.locator(".pill")).to_have_text(re.compile("paused"))
        assert server.token not in other.url
        desktop.forget_page()
        # A link on another site, to a browser that has the cookie.
        other.goto("data:text/html,<a id=x>open</a>")
        other.evaluate("address => { document.querySelector('#x').href = address }", server.url)
        other.locator("#x").click()
        expect(other.locator(".pill")).to_have_text(re.compile("paused"))
    rank.close()
