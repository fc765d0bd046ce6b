"""``sonde profile``: finds where the time of a program goes, and what would make it faster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from sonde.cli.json_output import OPTION, json_option, print_document
from sonde.cli.profile_run import (
    ProfileOptions,
    profile_program,
    profile_ranks,
    run_trial,
    try_variants,
)
from sonde.cli.script import needing_torch
from sonde.cli.script_command import ScriptCommand, program_arguments
from sonde.core.errors import UsageError

EPILOG = """\b
Examples:
  sonde profile train.py --epochs 1             steps 5 to 14 of the program
  sonde profile --steps 20:40 --stop train.py   later steps, then stop
  sonde profile --try compile,amp train.py      measure the gain of these changes
  sonde profile --ranks 2 train.py              two processes, as with torchrun
  torchrun --nproc-per-node 2 -m sonde profile train.py
  sonde profile --fail-if 'step_time > 1.2 * baseline.json' train.py
  sonde profile diff before after               compare two profiles

\b
Exit codes: that of the program; 2 for an error in the command; 3 if --fail-if is true.
"""


class ProfileCommand(ScriptCommand):
    """``diff`` in place of a script is no program: ``--json`` after it is an option of Sonde."""

    def split(self, args: list[str]) -> tuple[list[str], list[str]]:
        ours, theirs = super().split(args)
        is_module = any(word.startswith("-m") for word in ours)
        if theirs[:1] == ["diff"] and not is_module and OPTION in theirs:
            return [*ours, OPTION], [word for word in theirs if word != OPTION]
        return ours, theirs


@click.command(cls=ProfileCommand, epilog=EPILOG)
@click.option(
    "--steps",
    metavar="START:STOP",
    default="5:15",
    show_default=True,
    help="The steps to profile, as a slice: 5:15 is steps 5 to 14. A step ends with an "
    "optimizer's step(). The first of these steps learns the names of the ops and is not timed.",
)
@click.option(
    "--to",
    "directory",
    metavar="DIR",
    default="sonde_profile",
    show_default=True,
    help="The directory for report.html, trace.json and profile.json.",
)
@click.option("--stop", is_flag=True, help="Stop the program after these steps.")
@click.option(
    "--memory",
    is_flag=True,
    help="Record memory even where that slows steps down, in programs with many short ops.",
)
@click.option(
    "--try",
    "variants",
    metavar="LIST",
    help="Run short variants of the program and report the gain of each: compile, amp, "
    "channels_last, workers, fused, threads, buckets, or all.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="How often each variant of --try is run.",
)
@click.option(
    "--ranks",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Run the program in N processes, as torchrun does on one machine.",
)
@click.option(
    "--fail-if",
    metavar="CONDITION",
    help="Exit with code 3 if this is true, such as 'step_time > 1.2 * baseline.json'.",
)
@click.option("--as-trial", metavar="ORDER", hidden=True)
@click.option("--quiet", is_flag=True, hidden=True)
@json_option
@program_arguments
def profile(**given: Any) -> Callable[[], BaseException | None] | None:
    """Run SCRIPT unmodified and report where the time of its steps goes.

    Each step is divided into waiting for data, forward, backward, optimizer, collectives and the
    rest. Ops, modules and lines of your code are timed. Changes that would make a step shorter are
    suggested, with the measured gain. Outside the chosen steps the program runs at full speed.
    `sonde profile diff A B` compares two profiles.
    """
    options = ProfileOptions(**given)
    if options.module is None and options.program[:1] == ("diff",):
        _show_difference(options.program[1:], as_json=options.as_json)
        return None
    with needing_torch("PyTorch is not installed, so there is nothing to profile"):
        return _prepare(options, os.environ)


def _prepare(
    options: ProfileOptions, environ: Mapping[str, str]
) -> Callable[[], BaseException | None]:
    """The function to execute, after all options are checked."""
    from sonde.profile.condition import parse_condition
    from sonde.profile.record.window import parse_window
    from sonde.profile.report.files import make_directory
    from sonde.profile.trial.runs import parse_names

    if options.as_trial is not None:
        order = options.as_trial
        return lambda: run_trial(options, order)
    window = parse_window(options.steps)
    condition = parse_condition(options.fail_if) if options.fail_if is not None else None
    rank, ranks = _rank(environ)
    if ranks > 1 and (options.ranks > 1 or options.variants is not None):
        raise UsageError(
            "--ranks and --try start the ranks themselves: run without torchrun", slug="usage"
        )
    names = parse_names(options.variants) if options.variants is not None else None
    if names is None and options.ranks == 1:
        return lambda: profile_program(options, window, condition, rank, ranks)
    make_directory(Path(options.directory))
    if names is not None:
        return lambda: try_variants(options, window, names, condition)
    fail_if = ["--fail-if", options.fail_if] if options.fail_if is not None else []
    stop = ["--stop"] if options.stop else []
    return lambda: profile_ranks(options, [*stop, *fail_if])


def _show_difference(paths: Sequence[str], *, as_json: bool) -> None:
    from sonde.profile.analyse.difference import compare_profiles
    from sonde.profile.document import load_profile
    from sonde.profile.report.terminal import show_difference

    if len(paths) != 2:
        raise UsageError(
            "profile diff takes two profiles: sonde profile diff BEFORE AFTER", slug="usage"
        )
    before, after = (load_profile(Path(path)) for path in paths)
    difference = compare_profiles(before, after)
    if as_json:
        print_document(asdict(difference))
    else:
        show_difference(difference, sys.stdout)


def _rank(environ: Mapping[str, str]) -> tuple[int, int]:
    """The rank of this process and the number of ranks, as set by the launcher."""
    rank, ranks = environ.get("RANK", ""), environ.get("WORLD_SIZE", "")
    if rank.isdigit() and ranks.isdigit() and int(rank) < int(ranks):
        return int(rank), int(ranks)
    return 0, 1
