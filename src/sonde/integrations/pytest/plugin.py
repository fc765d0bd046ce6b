"""The plugin that pytest finds by its entry point: options and the fixture ``sonde_run``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from sonde.integrations.pytest.tested_function import TestedFunction

_FIXTURE: Final = "sonde_run"
_GOLDEN: Final = "sonde_golden"
_NOT_IN_NAMES: Final = re.compile(r"[^\w.,=+-]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sonde", "numbers of PyTorch programs (Sonde)")
    group.addoption(
        "--sonde",
        action="store_true",
        help="Run the tests that use the fixture sonde_run; without it they are skipped.",
    )
    group.addoption(
        "--sonde-update",
        action="store_true",
        help="As --sonde, and rewrite the golden files with the numbers of this run.",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--sonde") or config.getoption("--sonde-update"):
        return
    skipped = pytest.mark.skip(reason="observes the numbers of a program: pytest --sonde")
    for item in items:
        if _FIXTURE in getattr(item, "fixturenames", ()):
            item.add_marker(skipped)


@pytest.fixture
def sonde_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., TestedFunction]:
    """Call a function and keep the numbers that it computes: ``run = sonde_run(train, steps=2)``.

    The function gets the arguments that follow it, except ``seed``, with which the random
    generators are seeded before the call; they are restored after it. What is returned has the
    ``result`` of the function, its ``dump``, and the assertions ``assert_finite`` and
    ``assert_golden``.
    """
    from sonde.integrations.pytest.golden import GoldenFiles
    from sonde.integrations.pytest.tested_function import observe

    name = _NOT_IN_NAMES.sub("_", f"{request.path.stem}.{request.node.name}")
    golden = GoldenFiles(
        Path(request.path).parent / _GOLDEN,
        name,
        is_updated=bool(request.config.getoption("--sonde-update")),
    )

    def run(function: Callable[..., Any], *words: Any, seed: int = 0, **named: Any) -> Any:
        __tracebackhide__ = True
        directory = tmp_path_factory.mktemp("sonde_run")
        return observe(lambda: function(*words, **named), directory, golden, seed=seed)

    return run
