"""``--deterministic`` of ``sonde run`` and ``sonde repeat``: removes randomness of a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import click

from sonde.adapters.torch.determinism import MAX_SEED, Determinism
from sonde.cli.option_group import with_options
from sonde.cli.script import needing_torch
from sonde.cli.script_command import own_command
from sonde.core.errors import UsageError
from sonde.core.observation_variables import is_first_rank
from sonde.logs import say_result

T = TypeVar("T", bound=Callable[..., Any])
Start = Callable[[], AbstractContextManager[object]]

_HASH_SEED = "PYTHONHASHSEED"


def determinism_options(command: T) -> T:
    """Add the four options to a command, in the order of the help."""
    return with_options(
        command,
        click.option(
            "--deterministic",
            is_flag=True,
            help="Remove randomness (seeds, deterministic algorithms, unseeded generators) and "
            "report at the end which randomness is left.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, MAX_SEED),
            metavar="N",
            help="With --deterministic: the seed. Default: 0.",
        ),
        click.option(
            "--no-shuffle",
            is_flag=True,
            help="With --deterministic: DataLoaders give their data in order.",
        ),
        click.option("--no-dropout", is_flag=True, help="With --deterministic: no dropout."),
    )


def requested(
    deterministic: bool, seed: int | None, no_shuffle: bool, no_dropout: bool
) -> Determinism | None:
    """The settings of the options; UsageError for an option that needs ``--deterministic``."""
    given = {"--seed": seed is not None, "--no-shuffle": no_shuffle, "--no-dropout": no_dropout}
    if not deterministic:
        for name, is_given in given.items():
            if is_given:
                raise UsageError(f"{name} needs --deterministic", slug="usage")
        return None
    return Determinism(seed or 0, no_shuffle, no_dropout)


def without_randomness(determinism: Determinism | None, start: Start) -> Start:
    """``start`` inside a context that removes randomness; ``start`` itself for None."""
    if determinism is None:
        return start
    _restart_with_fixed_hashes()

    @contextmanager
    def both() -> Iterator[object]:
        with needing_torch("--deterministic needs PyTorch, which is not installed"):
            from sonde.adapters.torch.determinism.switch import deterministic
        with deterministic(determinism, _print), start() as inner:
            yield inner

    return both


def _print(line: str) -> None:
    if is_first_rank(os.environ):  # one rank prints it
        say_result(line)


def _restart_with_fixed_hashes() -> None:
    """Restart this process with a fixed hash seed, which can be set only when Python starts.

    Not if Sonde was imported by another program, which must not be restarted.
    """
    command = own_command()
    if command is None or os.environ.get(_HASH_SEED, "random") != "random":
        return
    sys.stdout.flush()
    sys.stderr.flush()
    environ = {**os.environ, _HASH_SEED: "0"}
    os.execve(sys.executable, command, environ)
