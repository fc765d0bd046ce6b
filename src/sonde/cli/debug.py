"""``sonde debug``: a program, unchanged, under the debugger, with the page to drive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import click

from sonde.cli.run import RunCommand
from sonde.core.errors import UsageError
from sonde.debugger.server_process import ServerProcess
from sonde.debugger.settings import run_id
from sonde.debugger.starting_set import starting_set

EPILOG = """\b
Examples:
  sonde debug train.py                          waits before the first step; open the page
  sonde debug --no-pause --recommended train.py runs until something looks wrong
  sonde debug --watch points.json train.py --epochs 3
"""


@click.command(cls=RunCommand, short_help="Run a script under the debugger.", epilog=EPILOG)
@click.option("--port", type=int, help="Of the page. Default: 8080, or a free one; 0: a free one.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen at. Any but this machine's own asks everybody for a token.",
)
@click.option(
    "--token",
    default="",
    envvar="SONDE_DEBUGGER_TOKEN",
    help="What browsers must know; made up if others can connect.",
)
@click.option(
    "--debugger-port", type=int, help="Where the training connects. Default: 50051, or a free one."
)
@click.option(
    "--pause/--no-pause",
    default=True,
    show_default=True,
    help="Wait before the first step, for somebody at the page.",
)
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the page in a browser. Default: on a desktop.",
)
@click.option(
    "--watch",
    "watch_files",
    metavar="FILE",
    multiple=True,
    help="Begin with the watchpoints of this file, as the page saves them. May be repeated.",
)
@click.option("--recommended", is_flag=True, help="Begin with the recommended watchpoints.")
@click.option(
    "--exit",
    "exits",
    is_flag=True,
    help="End the server with the training. Default: the page stays until Ctrl-C.",
)
@click.option(
    "--step-by",
    type=click.Choice(["optimizer", "manual"]),
    default="optimizer",
    help="What ends a step: an optimizer's step() (default), or sonde.step() alone.",
)
@click.option("-m", "module", metavar="MODULE", help="Run a module, like python -m.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
def debug(
    port: int | None,
    host: str,
    token: str,
    debugger_port: int | None,
    pause: bool,
    opens: bool | None,
    watch_files: tuple[str, ...],
    recommended: bool,
    exits: bool,
    step_by: str,
    module: str | None,
    program: tuple[str, ...],
) -> Callable[[], BaseException | None]:
    """Run a Python script, not changed by a letter, under the debugger.

    Starts the server, says where the page is, and runs the script, paused before its first step.
    The exit code is the script's; 130 if it was ended from the page.
    """
    if module is None and not program:
        raise UsageError(
            "debug needs a program: sonde debug [OPTIONS] SCRIPT [ARGS]..., or -m MODULE",
            slug="usage",
        )
    if module is None and not os.path.exists(program[0]):
        raise UsageError(f"there is no script {program[0]!r}", slug="program-not-found")
    starting_set(watch_files, recommended=False)  # What is wrong with them is said before all.
    words = [sys.executable, "-m", "sonde", "run", "--step-by", step_by]
    words += ["-m", module, *program] if module is not None else list(program)

    def execute() -> BaseException | None:
        server = ServerProcess(
            host=host, port=port, rank_port=debugger_port, token=token, pause=pause
        )
        try:
            _say(f"the page is at {server.page}")
            if _is_desktop() if opens is None else opens:
                webbrowser.open(server.page)
            environ = _environment(server, host, watch_files, recommended=recommended)
            code, is_told_to_end = _train(words, environ)
            if not exits and not is_told_to_end:
                _stay(server, code)
        finally:
            server.end()
        return SystemExit(code)

    return execute


def _say(text: str) -> None:
    print(f"sonde: {text}", file=sys.stderr, flush=True)


def _is_desktop() -> bool:
    """Whether somebody sits in front of this machine's screen, as far as that can be known."""
    if not sys.stderr.isatty() or os.environ.get("SSH_CONNECTION") or os.environ.get("CI"):
        return False
    return sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def _environment(
    server: ServerProcess, host: str, watch_files: Sequence[str], *, recommended: bool
) -> Mapping[str, str]:
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    more = {
        "SONDE_DEBUGGER_HOST": name,
        "SONDE_DEBUGGER_PORT": str(server.rank_port),
        "SONDE_RUN_ID": run_id(os.environ),
    }
    if server.token:
        more["SONDE_DEBUGGER_TOKEN"] = server.token
    if watch_files:
        more["SONDE_DEBUGGER_WATCH"] = os.pathsep.join(map(os.path.abspath, watch_files))
    if recommended:
        more["SONDE_DEBUGGER_RECOMMENDED"] = "1"
    return {**os.environ, **more}


def _train(words: Sequence[str], environ: Mapping[str, str]) -> tuple[int, bool]:
    """Run the training to its end; its exit code as a shell has it, and whether SIGTERM told all
    of us to end.

    It is in our process group: Ctrl-C at the terminal reaches it by itself, and is its business.
    """
    process = subprocess.Popen(words, env=environ)
    told: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        told.append(number)
        process.send_signal(number)

    before: list[tuple[int, Any]] = [
        (signal.SIGINT, signal.signal(signal.SIGINT, signal.SIG_IGN)),
        (signal.SIGTERM, signal.signal(signal.SIGTERM, pass_on)),
    ]
    try:
        code = process.wait()
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    return (code if code >= 0 else 128 - code), bool(told)


def _stay(server: ServerProcess, code: int) -> None:
    """The page stays, with what it knew, until somebody ends it."""
    how = "ended" if code in (0, 130) else f"ended with exit code {code}"
    if not server.is_running:
        return _say(f"the training has {how}; the page is gone, because its server has ended")

    def stop(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _say(f"the training has {how}; the page stays at {server.page} until Ctrl-C")
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
