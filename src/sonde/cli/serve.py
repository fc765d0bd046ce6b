"""``sonde serve``: runs the debugger server, to which trainings connect."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from sonde.cli.own_option import own_option
from sonde.core.errors import UsageError

if TYPE_CHECKING:
    from sonde.debugger.launch.server_registry import ServerState

EPILOG = """\b
Examples:
  sonde serve                              the page at http://127.0.0.1:8080
  sonde start --port 8080 --enable-debugger True --debugger-port 50051   as MindInsight does it
  sonde serve --host 0.0.0.0 --certfile cert.pem --keyfile key.pem   for other machines
\b
Then, in another shell on the same machine:
  SONDE_DEBUGGER_PORT=50051 sonde run train.py
"""


host_option = click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on.",
)
token_option = click.option(
    "--token",
    default="",
    envvar="SONDE_DEBUGGER_TOKEN",
    help="The token that browsers and trainings must send, at least 16 characters. Default: a "
    "generated one, part of the address that is printed.",
)
certificate_options = (
    click.option(
        "--certfile", default="", metavar="FILE", help="Speak TLS with this certificate (PEM)."
    ),
    click.option(
        "--keyfile",
        default="",
        metavar="FILE",
        help="The key of the certificate. Default: in the same file.",
    ),
)


def with_certificate(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--certfile`` and ``--keyfile`` to a command."""
    for option in reversed(certificate_options):
        command = option(command)
    return command


pause_option = click.option(
    "--pause/--no-pause", default=True, show_default=True, help="Pause before the first step."
)


@click.command(epilog=EPILOG)
@click.option(
    "--port", default=8080, show_default=True, help="The port of the page; 0: any free port."
)
@click.option(
    "--debugger-port",
    default=50051,
    show_default=True,
    help="The port to which trainings connect; 0: any free port.",
)
@click.option(
    "--enable-debugger",
    type=bool,
    default=True,
    show_default=True,
    metavar="True|False",
    help="False: trainings cannot connect.",
)
@host_option
@token_option
@with_certificate
@pause_option
@own_option
def serve(
    port: int,
    debugger_port: int,
    enable_debugger: bool,
    host: str,
    token: str,
    certfile: str,
    keyfile: str,
    pause: bool,
) -> int:
    """Wait for trainings to connect, and show them in a browser.

    Trainings connect to the debugger port. They can be controlled from the page, or from a
    terminal with sonde ctl. Ctrl-C ends the server; the trainings continue.
    """
    need_server()
    from sonde.server.serving import ServerOptions
    from sonde.server.serving import serve as serve_until_signalled
    from sonde.wire.tls import server_certificate

    certificate = server_certificate(certfile, keyfile)
    rank_port = debugger_port if enable_debugger else None
    options = ServerOptions(host, port, rank_port, token, pause, certificate)
    serve_until_signalled(options, _print_addresses)
    return 0


def need_server() -> None:
    """Raise UsageError unless the packages that the server needs are installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
        import websockets  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the debugger needs the package {error.name}: pip install 'sonde[debugger]'",
            slug="extra-missing",
        ) from None


def _print_addresses(state: ServerState) -> None:
    click.echo(f"sonde: the page is at {state.address}")
    host = state.host
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()  # 0.0.0.0 is not an address that a client can connect to.
        scheme = state.url.partition(":")[0]
        address = state.address.replace(state.url, f"{scheme}://{host}:{state.port}")
        click.echo(f"sonde: from other machines it is at {address}")
    if state.rank_port is None:
        click.echo("sonde: trainings cannot connect: --enable-debugger is False")
        return
    more = f" SONDE_DEBUGGER_FINGERPRINT={state.fingerprint}" if state.fingerprint else ""
    click.echo(
        f"sonde: trainings connect to port {state.rank_port}: SONDE_DEBUGGER_HOST={host} "
        f"SONDE_DEBUGGER_PORT={state.rank_port} "
        f"SONDE_DEBUGGER_TOKEN={shlex.quote(state.token)}{more} sonde run train.py"
    )
