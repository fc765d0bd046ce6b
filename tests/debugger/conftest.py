"""What tests of the debugger start is ended with them."""

from collections.abc import Iterator

import pytest
from tests.debugger.running import end_all


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    end_all()
