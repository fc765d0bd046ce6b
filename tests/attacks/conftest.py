"""A server for each test, so that no attack meets what another left behind."""

from collections.abc import Iterator

import pytest
from tests.server.serving_in_thread import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found
