"""Every test with the fixture ``path`` runs on each path of this machine, numpy included."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sonde import kernels

PATHS = kernels.available_paths()


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    before = kernels.current_path()
    kernels.use_path(request.param)
    yield request.param
    kernels.use_path(before)
