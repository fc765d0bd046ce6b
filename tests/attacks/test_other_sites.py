"""A page of another site, in the browser of the user, reaches the server."""

from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request

import pytest
from tests.attacks.certificates import self_signed
from tests.server.serving_in_thread import Server, serving

from sonde.cli.ctl_client import Client
from sonde.wire.tls import Trust


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "x"]
)
def test_a_request_of_another_origin_is_refused(server: Server, origin: str) -> None:
    given = origin.format(port=server.port)
    for method in ("GET", "POST"):
        body = b"{}" if method == "POST" else None
        status, _, text = server.open(method, "/api/v1/runs", body, Origin=given)
        assert status == 403
        assert b"foreign-page" in text


def test_a_name_that_was_pointed_at_this_machine_is_refused(server: Server) -> None:
    status, _, text = server.open("GET", "/api/v1/runs", Host=f"evil.example:{server.port}")
    assert (status, b"foreign-host" in text) == (403, True)


def test_a_form_of_another_site_cannot_send_json(server: Server) -> None:
    kind = {"Content_Type": "text/plain"}
    assert server.open("POST", "/api/v1/runs/r/control", b"{}", **kind)[0] == 415


def test_the_cookie_is_strict_and_not_readable(server: Server) -> None:
    _, headers, body = server.open("GET", f"/?token={server.token}&tab=loss", Authorization="")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert server.token not in body.decode()
    assert b"url=/?tab=loss" in body


def test_a_link_of_another_site_is_followed_from_a_page_of_the_server(server: Server) -> None:
    given = {"Authorization": "", "Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    status, headers, body = server.open("GET", "/?run=a", **given)
    assert (status, b"url=/?run=a" in body, "set-cookie" in headers) == (200, True, False)
    given["Sec_Fetch_Site"] = "same-origin"
    assert server.open("GET", "/?run=a", **given)[0] == 401


def test_under_tls_the_cookie_is_secure_and_only_https_is_the_own_origin(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    with serving(certificate=certificate) as server:
        address = f"https://127.0.0.1:{server.port}"
        client = Client(address, server.token, Trust(certificate.fingerprint()))
        assert client.get("/runs")["runs"] == []
        for origin, status in ((address, 200), (address.replace("https", "http"), 403)):
            assert _status(client, address, origin) == status
        with client._opener.open(f"{address}/?token={server.token}", timeout=100) as opened:
            assert "Secure" in opened.headers["set-cookie"]


def _status(client: Client, address: str, origin: str) -> int:
    headers = {"Origin": origin, "Authorization": f"Bearer {client._token}"}
    request = Request(f"{address}/api/v1/runs", headers=headers)
    try:
        with client._opener.open(request, timeout=100) as answer:
            status: int = answer.status
    except HTTPError as error:
        with error:
            status = error.code
    return status
