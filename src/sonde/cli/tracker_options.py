"""``--log-to`` of ``sonde run``: signals and findings in the tracker that the user already has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar

import click

from sonde.cli.script import needing_torch
from sonde.core.errors import UsageError
from sonde.integrations.missing_library import MissingLibraryError
from sonde.integrations.trackers import TRACKERS

F = TypeVar("F", bound=Callable[..., Any])


def tracker_command_option(command: F) -> F:
    """Add the option to a command; see `TrackerWords`."""
    option = click.option(
        "--log-to",
        type=click.Choice(list(TRACKERS)),
        multiple=True,
        help="Also log signals and findings to this tracker: an alert for each finding, an "
        "artifact for each captured step. Implies --guard, unless --diagnose is given. May be "
        "repeated.",
    )
    return option(command)


@dataclass(frozen=True, kw_only=True)  # No slots: a class with options has a second base.
class TrackerWords:
    """The option as parsed by click."""

    log_to: tuple[str, ...]

    def requested_trackers(self, *, is_found: bool) -> tuple[str, ...]:
        """The trackers that are asked for; UsageError if one is not installed. ``is_found``:
        whether there will be findings to log."""
        for name in self.log_to:
            if not is_found:
                raise UsageError(
                    "--log-to needs --diagnose where a dump is written: a dump has no findings to "
                    "log",
                    slug="usage",
                )
            if find_spec(name) is None:
                raise MissingLibraryError(name, TRACKERS[name], ImportError(name=name))
        return tuple(dict.fromkeys(self.log_to))


def start_tracker(name: str, project: str) -> AbstractContextManager[object]:
    """The context in which the training is logged to a tracker."""
    with needing_torch("PyTorch is not installed, so there is nothing to log"):
        from sonde.integrations.trackers.tracked_training import tracked
    return tracked(name, project)
