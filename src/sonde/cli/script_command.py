"""The command line of commands that run a user's program: ``sonde run [OPTIONS] SCRIPT [ARGS]``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from sonde.capture.config_fields import why_not_a_net_name
from sonde.core.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_OUR_PROGRAMS = ("sonde", "__main__.py")


class ScriptCommand(click.Command):
    """A command with `program_arguments`, which must be given.

    Passes everything after the script, or after ``-m MODULE``, to the program.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ours, theirs = self.split(args)
        rest = super().parse_args(ctx, [*ours, "--", *theirs] if theirs else ours)
        if not ctx.params["program"] and ctx.params["module"] is None:
            raise UsageError(
                f"no program given: sonde {self.name} [OPTIONS] SCRIPT [ARGS]..., or -m MODULE",
                slug="usage",
            )
        return rest

    def split(self, args: list[str]) -> tuple[list[str], list[str]]:
        """The words of this command, and those of the program."""
        takes_value = {
            name
            for option in self.params
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }
        index = 0
        while index < len(args):
            word = args[index]
            if word == "--":
                return args[:index], args[index + 1 :]
            if word == "-" or not word.startswith("-"):
                return args[:index], args[index:]
            index += 2 if word in takes_value else 1
            if word.startswith("-m"):
                break
        return args[:index], args[index:]


def program_arguments(command: F) -> F:
    """Add the option ``-m MODULE`` and the argument ``SCRIPT [ARGS]...``."""
    module = click.option("-m", "module", metavar="MODULE", help="Run a module, like python -m.")
    program = click.argument(
        "program", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]..."
    )
    return module(program(command))


step_by_option = click.option(
    "--step-by",
    type=click.Choice(["optimizer", "manual"]),
    default="optimizer",
    help="What ends a step: an optimizer's step() (default), or only sonde.step().",
)

observe_option = click.option(
    "--observe",
    type=click.Choice(["evaluation", "data"]),
    multiple=True,
    help="Also observe what belongs to no training step: evaluations (trained networks in eval "
    "mode, without gradients), or the transforms of a DataLoader. May be repeated.",
)


def program_words(module: str | None, program: Sequence[str]) -> list[str]:
    """The program and its arguments as words of a command line."""
    return [*(["-m", module] if module is not None else []), *program]


def net_name_of(program: str, is_module: bool) -> str:
    """A folder name from the program's: ``src/my train.py`` gives ``my_train``."""
    stem = program if is_module else os.path.splitext(os.path.basename(program.rstrip("/")))[0]
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", stem)[:100].strip("_")
    return name if name and why_not_a_net_name(name) is None else "Net"


def own_command() -> list[str] | None:
    """The command line that starts this process again; None if another program has imported Sonde.

    To be called before the user's program runs, which has its own ``sys.argv``.
    """
    words = sys.argv[1:]
    is_own = os.path.basename(sys.argv[0]) in _OUR_PROGRAMS and sys.executable
    if not is_own or sys.orig_argv[-len(words) :] != words:
        return None
    return [sys.executable, *sys.orig_argv[1:]]
