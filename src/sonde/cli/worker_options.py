"""``--workers`` and ``--ray`` of the commands that read large dumps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def worker_options(command: F) -> F:
    """Add the options ``workers`` and ``ray`` (see `sonde.workers`)."""
    workers = click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Divide the steps and ranks among N processes. Default: one per core, if that is "
        "faster; 1: this process alone.",
    )
    ray = click.option(
        "--ray",
        metavar="ADDRESS",
        help="Divide them among the machines of a Ray cluster (HOST:PORT, ray://HOST:10001, auto; "
        "local: a new one here), which have the dumps at the same paths. Needs 'sonde[ray]'.",
    )
    return workers(ray(command))
