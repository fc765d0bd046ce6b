"""One process from which the programs are forked."""

from collections.abc import Iterator

import pytest
from tests.programs.running import Programs


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    found = Programs(tmp_path_factory.mktemp("programs"))
    yield found
    found.close()
