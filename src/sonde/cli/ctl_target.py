"""What every ``sonde ctl`` command has in common: the server, the run, how answers are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

import click

from sonde.cli.ctl_client import Client, find_server, run_path
from sonde.core.errors import UsageError

_MOST_SECONDS: Final = 1e6
F = TypeVar("F", bound=Callable[..., Any])


class Target:
    """The server, and the run that is meant."""

    def __init__(self, server: str | None, token: str | None, run: str | None) -> None:
        self._find = partial(find_server, server, token)
        self.asked = run
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = self._find()
        return self._client

    def path(self, rest: str = "") -> str:
        return run_path(self.run()) + rest

    def run(self) -> str:
        """The run asked for, the only one connected, or the newest."""
        if self.asked is not None:
            return self.asked
        runs = self.client.get("/runs")["runs"]
        if not runs:
            raise UsageError(
                f"no training has connected to {self.client.url} yet", slug="no-such-run"
            )
        connected = [run for run in runs if run["controls"]]
        if len(connected) > 1:
            names = ", ".join(run["id"] for run in connected)
            raise UsageError(
                f"several runs are connected: {names}; choose with --run", slug="no-such-run"
            )
        return str((connected or runs)[-1]["id"])


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")(
        command
    )


def rank_option(command: F) -> F:
    return click.option("--rank", type=int, help="Of several; the lowest if not given.")(command)


def timeout_option(command: F) -> F:
    return click.option(
        "--timeout", default=3600.0, callback=_seconds, help="Seconds to wait at most."
    )(command)


def _seconds(_: click.Context, option: click.Parameter, given: float) -> float:
    if not given >= 0:
        raise UsageError(
            f"--{option.name} is {given:g}; it must be seconds, 0 or more", slug="usage"
        )
    return min(given, _MOST_SECONDS)


def show(answer: Any, as_json: bool, lines: Iterable[str]) -> None:
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        for line in lines:
            click.echo(line)
