"""A server without runs, for the tests that do not start their own."""

from collections.abc import Iterator

import pytest
from tests.server.serving_in_thread import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found
