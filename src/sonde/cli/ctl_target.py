"""Shared by the ``sonde ctl`` commands: finds the server and the run, and prints answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import click

from sonde.cli.ctl_client import Client, find_server, run_path
from sonde.cli.json_output import json_option, print_document
from sonde.core.errors import UsageError
from sonde.core.text.terminal_text import printable

_MOST_SECONDS: Final = 1e6
_POLL_SECONDS: Final = 0.2
_MAY_COME: Final = ("no-server", "no-such-run")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class RunTarget:
    """The server and the run of a command. Waits up to ``patience_seconds`` for both to appear."""

    def __init__(
        self, server: str | None, token: str | None, run: str | None, patience_seconds: float
    ) -> None:
        self._find = partial(find_server, server, token)
        self._given = run
        self._end = time.monotonic() + patience_seconds

    @cached_property
    def client(self) -> Client:
        return self._in_time(self._find)

    def path(self, rest: str = "") -> str:
        return run_path(self.run) + rest

    @cached_property
    def run(self) -> str:
        """The run given by the user, the only one connected, or the newest."""
        return self._in_time(self._chosen)

    def runs(self) -> Any:
        """All runs, or the one given by the user; empty if none appeared in time."""
        try:
            return self._in_time(self._some)
        except UsageError as error:
            if error.slug != "no-such-run" or self._given is not None:
                raise
        return []

    def _in_time(self, ask: Callable[[], T]) -> T:
        while True:
            try:
                return ask()
            except UsageError as error:
                if error.slug not in _MAY_COME or time.monotonic() >= self._end:
                    raise
            time.sleep(_POLL_SECONDS)

    def _some(self) -> Any:
        if self._given is not None:
            return [self.client.get(run_path(self._given))]
        runs = self.client.get("/runs")["runs"]
        if not runs:
            raise UsageError(
                f"no training is connected to {self.client.url} yet", slug="no-such-run"
            )
        return runs

    def _chosen(self) -> str:
        runs = self._some()
        connected = [run for run in runs if run["controls"]]
        if len(connected) > 1:
            names = ", ".join(run["id"] for run in connected)
            raise UsageError(
                f"several runs are connected: {names}; choose one with --run", slug="usage"
            )
        return str((connected or runs)[-1]["id"])


def checked_seconds(_: click.Context, option: click.Parameter, given: float) -> float:
    if not given >= 0:
        raise UsageError(f"--{option.name} must be 0 or more seconds (got {given:g})", slug="usage")
    return min(given, _MOST_SECONDS)


rank_option = click.option("--rank", type=int, help="Only this rank.")
timeout_option = click.option(
    "--timeout", default=3600.0, callback=checked_seconds, help="Seconds to wait at most."
)


def command_of(group: click.Group, name: str | None = None) -> Callable[[F], click.Command]:
    """Add a function to ``group`` as a command that gets the `RunTarget` and ``--json``."""
    return lambda function: group.command(name)(json_option(click.pass_obj(function)))


def show(answer: Any, as_json: bool, lines: Iterable[str]) -> None:
    if as_json:
        print_document(answer)
    else:
        for line in lines:
            click.echo(printable(line))
