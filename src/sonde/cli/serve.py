"""``sonde serve``: runs the debugger server, to which trainings connect."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sonde.cli.json_output import json_option, print_document
from sonde.cli.option_group import with_options
from sonde.cli.own_option import own_option
from sonde.core.errors import UsageError
from sonde.core.text.terminal_text import quoted

if TYPE_CHECKING:
    from sonde.debugger.launch.server_registry import ServerState
    from sonde.profile.document import Profile

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
    return with_options(command, *certificate_options)


def _truth_value(ctx: click.Context, option: click.Parameter, given: str) -> bool:
    word = given.strip().lower()
    if word in ("true", "yes", "on", "1"):
        return True
    if word in ("false", "no", "off", "0"):
        return False
    raise click.BadParameter(f"{quoted(given)} is neither True nor False", ctx, option)


profile_option = click.option(
    "--profile",
    default="",
    metavar="DIR",
    help="Colour graphs by the times in this profile, which 'sonde profile' wrote.",
)
logdir_option = click.option(
    "--logdir",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Also show the event files at and below DIR: of SummaryCollector, or a TensorBoard log.",
)
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
    callback=_truth_value,
    default="True",
    show_default=True,
    metavar="True|False",
    help="False: trainings cannot connect.",
)
@host_option
@token_option
@with_certificate
@pause_option
@click.option("--job-stderr", type=int, hidden=True)
@click.option("--job-findings", default="", hidden=True)
@profile_option
@logdir_option
@own_option
@json_option
def serve(
    port: int,
    debugger_port: int,
    enable_debugger: bool,
    host: str,
    token: str,
    certfile: str,
    keyfile: str,
    pause: bool,
    job_stderr: int | None,
    job_findings: str,
    profile: str,
    logdir: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Wait for trainings to connect, and show them in a browser.

    Trainings connect to the debugger port. They can be controlled from the page, or from a
    terminal with sonde ctl. Ctrl-C ends the server; the trainings continue.
    """
    need_server()
    from sonde.server.live.findings_output import FindingsOutput
    from sonde.server.serving import ServerOptions
    from sonde.server.serving import serve as serve_until_signalled
    from sonde.wire.tls import server_certificate

    certificate = server_certificate(certfile, keyfile)
    rank_port = debugger_port if enable_debugger else None
    output = None if job_stderr is None else FindingsOutput(job_findings)
    options = ServerOptions(
        host,
        port,
        rank_port,
        token,
        pause,
        certificate,
        output,
        profile_in(profile),
        logs=logs_in(logdir),
    )

    serve_until_signalled(options, lambda state: _tell(state, job_stderr, as_json=as_json))
    return 0


def _tell(state: ServerState, job_stderr: int | None, *, as_json: bool) -> None:
    """Prints the addresses of the server that is ready now."""
    if as_json:
        print_document(addresses_json(state))
    else:
        _print_addresses(state)
    if job_stderr is not None:
        # From now on the lines of the server are the job's, and outlive the rank that started
        # the server; until now they explained to that rank why the server did not start.
        os.dup2(job_stderr, sys.stderr.fileno())
        os.close(job_stderr)


def profile_in(path: str) -> Profile | None:
    """The profile that ``--profile`` names; None without one, UsageError if it is not one."""
    from sonde.profile.document import load_profile

    return load_profile(Path(path)) if path else None


def logs_in(directories: Sequence[Path]) -> tuple[Path, ...]:
    """The directories that ``--logdir`` names; UsageError if one is a file. A directory may appear
    later, when the training makes it."""
    for each in directories:
        if each.exists() and not each.is_dir():
            raise UsageError(f"--logdir {quoted(str(each))} is not a directory", slug="usage")
    return tuple(directories)


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


def _elsewhere(state: ServerState) -> tuple[str, str | None]:
    """The host that clients connect to; the page's address for other machines, if it differs."""
    if state.host not in ("0.0.0.0", "::"):
        return state.host, None
    host = socket.gethostname()  # 0.0.0.0 is not an address that a client can connect to.
    scheme = state.url.partition(":")[0]
    return host, state.address.replace(state.url, f"{scheme}://{host}:{state.port}")


def addresses_json(state: ServerState) -> dict[str, Any]:
    """Where the page is, and where trainings connect; printed once, when the server is ready."""
    host, elsewhere = _elsewhere(state)
    return {
        "page": state.address,
        "elsewhere": elsewhere,
        "host": host,
        "rank_port": state.rank_port,
        "fingerprint": state.fingerprint or None,
    }


def _print_addresses(state: ServerState) -> None:
    click.echo(f"sonde: the page is at {state.address}")
    host, address = _elsewhere(state)
    if address is not None:
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
