"""Options that say where the network of a captured step comes from, for replay and verify."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sonde.cli.option_group import with_options
from sonde.cli.script import needing_torch, run_program
from sonde.core.errors import UsageError
from sonde.core.text.problem_line import ProblemLine
from sonde.logs import say
from sonde.replay.errors import ReplayError

if TYPE_CHECKING:
    from sonde.adapters.torch.replay.networks.sources import FoundModules
    from sonde.adapters.torch.replay.storage.captured_step import CapturedStep

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ModuleOptions:
    """Where the network comes from: at most one of the fields but ``trust`` is given."""

    factory: str | None = None
    script: str | None = None
    runs_setup: bool = False
    trust: bool = False

    def __post_init__(self) -> None:
        given = {"--module": self.factory, "--script": self.script, "--run-setup": self.runs_setup}
        names = [name for name, value in given.items() if value]
        if len(names) > 1:
            raise UsageError(f"{names[0]} cannot be combined with {names[1]}", slug="usage")

    def words(self) -> list[str]:
        """The options as words of a command line, for a process that does the same."""
        words = [] if self.factory is None else ["--module", self.factory]
        words += [] if self.script is None else ["--script", os.path.abspath(self.script)]
        return words + ["--run-setup"] * self.runs_setup + ["--trust"] * self.trust


def module_options(command: F) -> F:
    """Add the options to a command, in the order of the help."""
    return with_options(
        command,
        click.option(
            "--module",
            "factory",
            metavar="PACKAGE.MODULE:FUNCTION",
            help="Build the network with this function (or FILE.py:FUNCTION), called without "
            "arguments. Default: the pickle of the network that the captured step has.",
        ),
        click.option(
            "--script",
            metavar="FILE",
            help="The script with the classes of the pickled network, if it has moved. Its "
            "imports and definitions are executed, its statements are not.",
        ),
        click.option(
            "--run-setup",
            "runs_setup",
            is_flag=True,
            help="Take the network from the script, which runs up to the first call of it.",
        ),
        click.option(
            "--trust",
            is_flag=True,
            help="Execute code from a captured step that another user may have written.",
        ),
    )


def open_step(directory: str, options: ModuleOptions) -> CapturedStep:
    """The captured step that a user names."""
    with needing_torch("PyTorch is not installed, so no step can be executed"):
        from sonde.adapters.torch.replay.storage.captured_step import CapturedStep
    return CapturedStep(Path(directory), trust=options.trust)


@contextmanager
def found_modules(step: CapturedStep, options: ModuleOptions) -> Iterator[FoundModules]:
    """The network of the step; a line says which way it was found."""
    from sonde.adapters.torch.replay.networks import sources

    if options.factory is not None:
        way = sources.modules_of_factory(step, options.factory)
    elif options.runs_setup:
        way = _after_setup(step)
    else:
        way = sources.pickled_modules(
            step, None if options.script is None else Path(options.script)
        )
    with way as found:
        say(f"the network: {found.text}")
        for stored in step.manifest.modules:
            if found.way == "pickle" and stored.dropped:
                say(
                    ProblemLine(
                        f"{stored.name} has hooks that could not be pickled and are left out: "
                        f"{', '.join(stored.dropped[:3])}",
                        slug="hooks-dropped",
                    )
                )
        yield found


@contextmanager
def _after_setup(step: CapturedStep) -> Iterator[FoundModules]:
    from sonde.adapters.torch.replay.networks.setup_run import SetupDone, SetupRun
    from sonde.adapters.torch.replay.networks.sources import FoundModules, fitted

    program = step.manifest.program
    if program.file is None:
        raise ReplayError(
            "--run-setup needs the script, and the step was captured in an interactive session",
            slug="script-missing",
        )
    module = program.module
    words: Sequence[str] = program.arguments if module else [program.file, *program.arguments]
    name = module or program.file
    setup = SetupRun(step)
    before = os.getcwd()
    if os.path.isdir(program.directory):
        os.chdir(program.directory)
    say(f"running {name} up to its first call of the network")
    try:
        outcome = run_program(module, words, setup.attached)
    finally:
        os.chdir(before)
    if not isinstance(outcome, SetupDone):
        why = "it ended" if outcome is None else f"{type(outcome).__name__}: {outcome}"
        raise ReplayError(
            f"the set-up of {name} did not call a network with the parameters of the step: {why}",
            slug="setup-failed",
        )
    modules = fitted(step, setup.found, name)
    yield FoundModules(modules, "set-up", f"taken from {name}, which ran up to its first call")
