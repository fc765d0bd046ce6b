"""``--guard`` of ``sonde run``: monitors the training and keeps the step that goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from sonde.cli.option_group import refuse_without, with_options
from sonde.cli.script import needing_torch
from sonde.core.errors import UsageError
from sonde.logs import say
from sonde.monitor import GuardStopped
from sonde.monitor.options import DEFAULT_DIRECTORY, DEFAULT_KEEP, GuardOptions, guard_options

F = TypeVar("F", bound=Callable[..., Any])

STOPPED = 3
"""The exit code of a training that the guard stopped."""


def guard_command_options(command: F) -> F:
    """Add the options to a command, in the order of the help; see `GuardWords`."""
    return with_options(
        command,
        click.option(
            "--guard",
            is_flag=True,
            help="Monitor loss, gradients and weights of every step, and keep the step that "
            f"goes wrong, so that 'sonde replay' can run it again. Default directory: "
            f"./{DEFAULT_DIRECTORY}.",
        ),
        click.option("--guard-to", metavar="DIR", help="With --guard: the directory to write to."),
        click.option(
            "--keep",
            type=click.IntRange(min=0),
            metavar="N",
            help="With --guard: keep at most N steps; further triggers are only counted. "
            f"Default: {DEFAULT_KEEP}.",
        ),
        click.option(
            "--on-trigger",
            type=click.Choice(["continue", "skip", "stop", "pause"]),
            help="With --guard: what to do when the step has been kept: continue as if nothing "
            "had happened (default), skip the optimizer's step, stop the training, or pause it "
            "for the debugger's page or 'sonde ctl'.",
        ),
        click.option(
            "--trigger",
            "guard_triggers",
            metavar="EXPRESSION",
            multiple=True,
            help="With --guard: also keep steps for which this holds, such as "
            "'grad_norm > 10 * median(grad_norm, 100)' (docs/guard.md). May be repeated.",
        ),
        click.option(
            "--snapshot-every",
            type=click.IntRange(min=1, max=1000),
            metavar="K",
            help="With --guard: copy weights and optimizer state to host memory every K steps, "
            "so that a replay can begin up to K steps before the trigger.",
        ),
        click.option(
            "--repeat-every",
            type=click.IntRange(min=1),
            metavar="K",
            help="With --guard: execute every K-th step a second time before its update; a "
            "step that computes something else is kept.",
        ),
        click.option(
            "--optimizer-state",
            is_flag=True,
            help="With --guard: keep the optimizer's state in captured steps, so that 'sonde "
            "replay' can execute its update, also with other settings (--set lr=...).",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardWords:
    """The options as parsed by click; None: not given."""

    guard: bool
    guard_to: str | None
    keep: int | None
    on_trigger: str | None
    guard_triggers: tuple[str, ...]
    snapshot_every: int | None
    repeat_every: int | None
    optimizer_state: bool

    def requested_guard(self) -> GuardOptions | None:
        """The guard that is asked for; UsageError for an option that needs ``--guard``."""
        given = {
            "--guard-to": self.guard_to is not None,
            "--keep": self.keep is not None,
            "--on-trigger": self.on_trigger is not None,
            "--trigger": bool(self.guard_triggers),
            "--snapshot-every": self.snapshot_every is not None,
            "--repeat-every": self.repeat_every is not None,
            "--optimizer-state": self.optimizer_state,
        }
        if not self.guard:
            refuse_without("--guard", given)
            return None
        return guard_options(
            DEFAULT_DIRECTORY if self.guard_to is None else self.guard_to,
            keep=DEFAULT_KEEP if self.keep is None else self.keep,
            on_trigger=self.on_trigger or "continue",
            triggers=self.guard_triggers,
            snapshot_every=self.snapshot_every or 0,
            repeat_every=self.repeat_every or 0,
            optimizer_state=self.optimizer_state,
        )


def refuse_with_guard(*, is_dumped: bool, is_debugged: bool) -> None:
    """Raise if ops are to be observed as well: a guard observes them when it runs a step again."""
    if is_dumped:
        raise UsageError(
            "--guard cannot be combined with a dump; a step that it keeps can be dumped with "
            "'sonde replay DIR --dump-to OUT', with --stats or --overflow",
            slug="guard-with-dump",
        )
    if is_debugged:
        raise UsageError(
            "--guard cannot be combined with a debugger that observes every step; use "
            "--on-trigger pause, or 'sonde replay DIR --debug'",
            slug="guard-with-dump",
        )


def start_guard(options: GuardOptions) -> AbstractContextManager[object]:
    """The context in which the program runs guarded."""
    with needing_torch("PyTorch is not installed, so there is nothing to guard"):
        from sonde.adapters.torch.monitor.guarding import guard
    return guard(options)


def say_if_stopped(outcome: BaseException | None) -> BaseException | None:
    """``outcome``; for a training that the guard stopped a line, and the exit code for it."""
    if not isinstance(outcome, GuardStopped):
        return outcome
    say(f"the guard stopped the training before the update of {outcome}")
    return SystemExit(STOPPED)
