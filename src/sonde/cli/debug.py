"""``sonde debug``: a program, unchanged, under the debugger, with the page to drive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import click

from sonde.cli.ctl_client import Client
from sonde.cli.desktop import forget_page, is_desktop, open_page
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
  sonde debug torchrun --nproc-per-node 2 train.py
"""


_LAUNCHER = "torch.distributed.run"


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
    help="What browsers must know, 16 letters or more; made up if others can connect.",
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
    The exit code is the script's; 130 if it was ended from the page. In place of a script,
    torchrun and what belongs to it: every rank is debugged.
    """
    if module is None and not program:
        raise UsageError(
            "debug needs a program: sonde debug [OPTIONS] SCRIPT [ARGS]..., or -m MODULE",
            slug="usage",
        )
    if "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1":
        raise UsageError(
            "sonde debug starts the ranks, no rank starts it: sonde debug torchrun "
            "--nproc-per-node 2 SCRIPT [ARGS]...",
            slug="usage",
        )
    words = _command(module, program, step_by)
    starting_set(watch_files, recommended=False)  # What is wrong with them is said before all.

    def execute() -> BaseException | None:
        server = ServerProcess(
            host=host, port=port, rank_port=debugger_port, token=token, pause=pause
        )
        try:
            _announce(server, opens=is_desktop() if opens is None else opens)
            environ = _environment(server, host, watch_files, recommended=recommended)
            code, is_told_to_end = _train(words, environ)
            if not exits and not is_told_to_end:
                _stay(server, code)
        finally:
            server.end()
            forget_page()
        return SystemExit(code)

    return execute


def _command(module: str | None, program: Sequence[str], step_by: str) -> list[str]:
    """What starts the training."""
    is_launcher = module == _LAUNCHER
    if module is None and os.path.basename(program[0]) == "torchrun":
        is_launcher, program = True, program[1:]
    if is_launcher:
        return [sys.executable, "-m", "sonde.adapters.torch.launching", step_by, *program]
    if module is None and not os.path.exists(program[0]):
        raise UsageError(f"there is no script {program[0]!r}", slug="program-not-found")
    words = [sys.executable, "-m", "sonde", "run", "--step-by", step_by]
    return [*words, *(["-m", module] if module is not None else []), *program]


def _announce(server: ServerProcess, *, opens: bool) -> None:
    _say(f"the page is at {server.page}")
    if server.elsewhere:
        _say(f"from other machines it is at {server.elsewhere}")
    if opens:
        open_page(server.page)


def _say(text: str) -> None:
    print(f"sonde: {text}", file=sys.stderr, flush=True)


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
    told: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        if number == signal.SIGTERM:
            told.append(number)
            for process in started:
                process.send_signal(number)

    # A function, not SIG_IGN: what is ignored is so in the training, too.
    before: list[tuple[int, Any]] = [
        (number, signal.signal(number, pass_on)) for number in (signal.SIGINT, signal.SIGTERM)
    ]
    try:
        process = subprocess.Popen(words, env=environ)
        started.append(process)
        if told:
            process.terminate()
        code = process.wait()
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    return (code if code >= 0 else 128 - code), bool(told)


def _has_runs(server: ServerProcess) -> bool:
    try:
        return bool(Client(server.page.partition("?")[0], server.token).get("/runs")["runs"])
    except UsageError:
        return False


def _stay(server: ServerProcess, code: int) -> None:
    """The page stays, with what it knew, until somebody ends it."""
    how = "ended" if code in (0, 130) else f"ended with exit code {code}"
    if not server.is_running:
        return _say(f"the training has {how}; the page is gone, because its server has ended")
    if not _has_runs(server):
        return None  # The program was not found, or not even begun: there is nothing to see.

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
