"""``sonde serve``: the debugger's server, for trainings that connect to it."""

from __future__ import annotations

import shlex
import socket
from typing import TYPE_CHECKING

import click

from sonde.core.errors import UsageError

if TYPE_CHECKING:
    from sonde.debugger.server_state import ServerState

EPILOG = """\b
Examples:
  sonde serve                              the page at http://127.0.0.1:8080
  sonde serve --host 0.0.0.0               for other machines, with a token
\b
Then, in the shell of the training:
  SONDE_DEBUGGER_HOST=127.0.0.1 SONDE_DEBUGGER_PORT=50051 sonde run train.py
"""


@click.command(short_help="Serve the debugger's page.", epilog=EPILOG)
@click.option("--port", default=8080, show_default=True, help="Of the page; 0 takes a free one.")
@click.option(
    "--debugger-port",
    default=50051,
    show_default=True,
    help="Where trainings connect; 0 takes a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen at. Any but this machine's own asks everybody for the token.",
)
@click.option(
    "--token",
    default="",
    envvar="SONDE_DEBUGGER_TOKEN",
    help="What browsers and trainings must know, 16 letters or more; made up for other hosts.",
)
@click.option(
    "--pause/--no-pause",
    default=True,
    show_default=True,
    help="Let a training wait before its first step.",
)
def serve(port: int, debugger_port: int, host: str, token: str, pause: bool) -> int:
    """Wait for trainings, and show them in a browser.

    Trainings connect to the debugger port. Drive them from a terminal with sonde ctl, too. Ctrl-C
    ends the server; trainings go on.
    """
    need_server()
    from sonde.server.serving import ServerOptions
    from sonde.server.serving import serve as serve_until_told

    options = ServerOptions(host, port, debugger_port, token, pause)
    serve_until_told(options, _say)
    return 0


def need_server() -> None:
    """UsageError unless the packages of the server are installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
        import websockets  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the debugger needs the package {error.name}: pip install 'sonde[debugger]'",
            slug="extra-missing",
        ) from None


def _say(state: ServerState) -> None:
    click.echo(f"sonde: the page is at {state.address}")
    host = state.host
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()  # No training on another machine finds the server at 0.0.0.0.
        address = state.address.replace(state.url, f"http://{host}:{state.port}")
        click.echo(f"sonde: from other machines it is at {address}")
    token = f" SONDE_DEBUGGER_TOKEN={shlex.quote(state.token)}" if state.token else ""
    click.echo(
        f"sonde: trainings connect to port {state.rank_port}: SONDE_DEBUGGER_HOST={host} "
        f"SONDE_DEBUGGER_PORT={state.rank_port}{token} sonde run train.py"
    )
