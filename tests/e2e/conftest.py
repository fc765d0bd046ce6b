"""A browser, and a server with a training that is none."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from tests.e2e.debugged import chromium
from tests.server.serving_in_thread import Server, serving

from sonde.testing.fake_rank import FakeRank


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


@pytest.fixture
def rank(server: Server) -> Iterator[FakeRank]:
    found = FakeRank(server.rank_port, run="sample", steps=50).start()
    yield found
    found.close()
    found.join()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole programs take long."""
    for item in items:
        if item.nodeid.startswith("tests/e2e/"):
            item.add_marker(pytest.mark.slow)
