"""``--check-ranks`` of ``sonde run``: compares the ranks of a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from sonde.cli.option_group import refuse_without, with_options
from sonde.cli.script import needing_torch
from sonde.core.errors import UsageError
from sonde.debugger.settings import DebuggerOptions
from sonde.ranks.options import DEFAULT_EVERY, DEFAULT_HANG_SECONDS, RankOptions
from sonde.ranks.placement_file import read_placements

F = TypeVar("F", bound=Callable[..., Any])


def rank_command_options(command: F) -> F:
    """Add the options to a command, in the order of the help; see `RankWords`."""
    return with_options(
        command,
        click.option(
            "--check-ranks",
            is_flag=True,
            help="Compare the ranks of the training (torchrun, accelerate, "
            "torch.multiprocessing): weights, gradients, batches, collectives (docs/ranks.md).",
        ),
        click.option(
            "--ranks-every",
            type=click.IntRange(min=1),
            metavar="K",
            help="With --check-ranks: compare weights and gradients in every K-th step. "
            f"Default: {DEFAULT_EVERY}.",
        ),
        click.option(
            "--placements",
            metavar="FILE",
            help="With --check-ranks: a YAML file that says which tensors are replicated or "
            "sharded over which ranks, where DDP and DTensor do not (docs/ranks.md).",
        ),
        click.option(
            "--ranks-json",
            metavar="FILE",
            help="With --check-ranks: write the findings to this file.",
        ),
        click.option(
            "--hang-after",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help="With --check-ranks: after so long without progress, say where each rank "
            f"stands; 0: never. Default: {DEFAULT_HANG_SECONDS:g}.",
        ),
        click.option(
            "--on-hang",
            type=click.Choice(["continue", "stop"]),
            help="With --check-ranks: leave a job that hangs alone (default), or stop it.",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class RankWords:
    """The options as parsed by click; None: not given. Without slots, so that a class can inherit
    from this one and from `GuardWords`."""

    check_ranks: bool
    ranks_every: int | None
    placements: str | None
    ranks_json: str | None
    hang_after: float | None
    on_hang: Literal["continue", "stop"] | None

    def requested_ranks(self) -> RankOptions | None:
        """The checks that are asked for; UsageError for an option that needs ``--check-ranks``."""
        words = {
            "--ranks-every": self.ranks_every,
            "--placements": self.placements,
            "--ranks-json": self.ranks_json,
            "--hang-after": self.hang_after,
            "--on-hang": self.on_hang,
        }
        if not self.check_ranks:
            given = {name: value is not None for name, value in words.items()}
            refuse_without("--check-ranks", given)
            return None
        return RankOptions(
            every=DEFAULT_EVERY if self.ranks_every is None else self.ranks_every,
            hang_seconds=DEFAULT_HANG_SECONDS if self.hang_after is None else self.hang_after,
            on_hang=self.on_hang or "continue",
            findings_file="" if self.ranks_json is None else _findings_file(self.ranks_json),
            placements=None if self.placements is None else read_placements(Path(self.placements)),
        )


def _findings_file(given: str) -> str:
    """The absolute path: the server writes the file, wherever the program goes meanwhile."""
    path = Path(given).absolute()
    if not path.parent.is_dir() or path.is_dir():
        what = "is a directory" if path.is_dir() else f"has no directory {path.parent}"
        raise UsageError(f"--ranks-json {given} {what}; give a file to write to", slug="ranks-json")
    return str(path)


def default_rank_checks(environ: Mapping[str, str]) -> RankOptions | None:
    """The checks of a program that is debugged on several ranks. It may be paused for any time, so
    that a hang is not looked for."""
    size = environ.get("WORLD_SIZE", "")
    is_several = size.isdigit() and int(size) > 1
    return RankOptions(hang_seconds=0.0, is_default=True) if is_several else None


def start_rank_checks(
    options: RankOptions, debugger: DebuggerOptions | None, *, is_observed: bool
) -> AbstractContextManager[object]:
    """The context in which the ranks of the program are compared."""
    with needing_torch("PyTorch is not installed, so there are no ranks to compare"):
        from sonde.adapters.torch.ranks.checking import check_ranks
    return check_ranks(options, debugger=debugger, is_observed=is_observed)
