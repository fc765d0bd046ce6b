"""The option ``--own``: which installed packages are the user's own code."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from sonde.core.own_code import VARIABLE, parse_packages

F = TypeVar("F", bound=Callable[..., Any])


def own_option(command: F) -> F:
    """Add ``--own PACKAGE``, which sets the variable for this process and those it starts."""
    return click.option(
        "--own",
        "_own",
        multiple=True,
        metavar="PACKAGE",
        expose_value=False,
        callback=_set_own,
        help="An installed package whose lines are shown as your own code, such as transformers; "
        "several are separated by commas. Default: what is not in site-packages.",
    )(command)


def _set_own(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> None:
    known = parse_packages(os.environ.get(VARIABLE, ""))
    added = [name for text in given for name in parse_packages(text)]
    if added:
        os.environ[VARIABLE] = ",".join(dict.fromkeys((*known, *added)))
