"""Waits until a server gives the expected answer, woken by its events, without polling."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from websockets.sync.client import connect

from sonde.cli.ctl_client import Client
from sonde.core.errors import UsageError


def until(
    url: str, path: str, is_so: Callable[[Any], bool], *, token: str = "", seconds: float = 60.0
) -> Any:
    """The answer of ``path`` once it is the expected one; if it never is, the last is reported.
    ``url`` may be the address of the page, with the token."""
    url, _, in_address = url.partition("?token=")
    token = token or unquote(in_address.partition("&")[0])
    client = Client(url, token)
    headers = {"Authorization": f"Bearer {token}"}
    address = f"{client.url.replace('http', 'ws', 1)}/api/v1/events"
    end = time.monotonic() + seconds
    with connect(address, additional_headers=headers, proxy=None) as announcements:
        while True:
            found: Any
            try:
                found = client.get(path)
            except UsageError as error:  # There is no such run yet, say.
                found = error
            if not isinstance(found, UsageError) and is_so(found):
                return found
            try:
                announcements.recv(max(end - time.monotonic(), 0.0))
            except TimeoutError:
                raise AssertionError(f"{path} never came to that: {found}") from None
