"""``sonde debug``: runs an unmodified program under the debugger, and serves the page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import click

from sonde.cli.ctl_client import Client
from sonde.cli.desktop import forget_page, is_desktop, open_page
from sonde.cli.json_output import json_option, print_document
from sonde.cli.own_option import own_option
from sonde.cli.script_command import (
    ScriptCommand,
    observe_option,
    program_arguments,
    program_words,
    step_by_option,
)
from sonde.cli.serve import (
    host_option,
    logdir_option,
    logs_in,
    pause_option,
    profile_in,
    profile_option,
    token_option,
    with_certificate,
)
from sonde.core.errors import UsageError
from sonde.debugger.initial_watchpoints import starting_set
from sonde.debugger.launch.server_process import ServerProcess
from sonde.debugger.settings import run_id
from sonde.logs import say, say_result
from sonde.watch.conditions import DEFAULT_PRESETS, PRESETS

EPILOG = """\b
Examples:
  sonde debug train.py                          pauses before the first step; open the page
  sonde debug --no-pause --recommended train.py runs until a watchpoint is hit
  sonde debug --watch-for nan train.py          watches for NaN and Inf only
  sonde debug --watch points.json train.py --epochs 3
  sonde debug torchrun --nproc-per-node 2 train.py
"""


_LAUNCHER = "torch.distributed.run"


@click.command(cls=ScriptCommand, epilog=EPILOG)
@click.option(
    "--port",
    type=int,
    help="The port of the page; 0: any free port. Default: 8080, or any free port if it is taken.",
)
@host_option
@token_option
@with_certificate
@click.option(
    "--debugger-port",
    "rank_port",
    type=int,
    help="The port to which the training connects. Default: 50051, or any free port.",
)
@pause_option
@profile_option
@logdir_option
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the page in a browser. Default: only on a desktop.",
)
@click.option(
    "--watch",
    "watch_files",
    metavar="FILE",
    multiple=True,
    help="Start with the watchpoints of this file, as saved by the page. May be repeated.",
)
@click.option("--recommended", is_flag=True, help="Start with the recommended watchpoints.")
@click.option(
    "--watch-for",
    "presets",
    metavar="WHAT",
    multiple=True,
    help="Watch for 'nan', 'dead' units, why it does not learn ('learning'), an 'explosion', or "
    "'nothing'. May be repeated. Default: nan and dead, unless --watch or --recommended is given.",
)
@click.option(
    "--exit",
    "exits",
    is_flag=True,
    help="Stop the server when the training ends. Default: the page stays until Ctrl-C.",
)
@click.option(
    "--diagnose/--no-diagnose",
    default=True,
    help="Also say why the training fails, as 'sonde diagnose' does: on the page, and in the "
    "terminal. Default: yes.",
)
@step_by_option
@own_option
@observe_option
@json_option
@program_arguments
def debug(
    opens: bool | None,
    watch_files: tuple[str, ...],
    recommended: bool,
    presets: tuple[str, ...],
    exits: bool,
    diagnose: bool,
    step_by: str,
    observe: tuple[str, ...],
    as_json: bool,
    module: str | None,
    program: tuple[str, ...],
    **server_options: Any,
) -> Callable[[], BaseException | None]:
    """Run SCRIPT unmodified under the debugger.

    Starts the server, prints the address of the page, and runs the script, paused before its first
    step. The exit code is that of the script; 130 if it was ended from the page. Instead of a
    script, a torchrun command line can be given: every rank is debugged.
    """
    command = _command(module, program, step_by, observe, is_diagnosed=diagnose)
    if not presets and not watch_files and not recommended:
        presets = DEFAULT_PRESETS
    # Report errors in the options before all else.
    starting_set(watch_files, recommended=recommended, presets=presets)
    profile_in(server_options["profile"])
    logs_in(server_options["logdir"])

    def execute() -> BaseException | None:
        server = ServerProcess(**server_options)
        try:
            if as_json:
                print_document(_addresses_json(server))
            _announce(server, opens=is_desktop() if opens is None else opens)
            wanted = (*presets, "recommended") if recommended else presets
            say(f"watching for {_watched_text(wanted, watch_files)}")
            environ = _environment(server, server_options["host"], watch_files, wanted)
            code, was_terminated = _train(command, environ)
            if not exits and not was_terminated:
                _keep_page(server, code)
        finally:
            server.end()
            forget_page()
        return SystemExit(code)

    return execute


def _command(
    module: str | None,
    program: Sequence[str],
    step_by: str,
    observe: Sequence[str],
    *,
    is_diagnosed: bool,
) -> list[str]:
    """The command line that starts the training."""
    if "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1":
        raise UsageError(
            "sonde debug cannot run inside a rank; let it start the ranks: sonde debug torchrun "
            "--nproc-per-node 2 SCRIPT [ARGS]...",
            slug="usage",
        )
    options = ["--step-by", step_by, *(word for each in observe for word in ("--observe", each))]
    options += ["--diagnose"] if is_diagnosed else []
    is_launcher = module == _LAUNCHER
    if module is None and os.path.basename(program[0]) == "torchrun":
        is_launcher, program = True, program[1:]
    if is_launcher:
        launching = "sonde.adapters.torch.debugging.launching"
        return [sys.executable, "-m", launching, " ".join(options), *program]
    if module is None and not os.path.exists(program[0]):
        raise UsageError(f"script {program[0]!r} does not exist", slug="program-not-found")
    return [sys.executable, "-m", "sonde", "run", *options, *program_words(module, program)]


def _addresses_json(server: ServerProcess) -> dict[str, Any]:
    return {
        "page": server.page,
        "elsewhere": server.elsewhere or None,
        "rank_port": server.rank_port,
        "fingerprint": server.fingerprint or None,
    }


def _announce(server: ServerProcess, *, opens: bool) -> None:
    say_result(f"the page is at {server.page}")
    if server.elsewhere:
        say_result(f"from other machines it is at {server.elsewhere}")
    if opens:
        open_page(server.page)


def _watched_text(presets: Sequence[str], files: Sequence[str]) -> str:
    """What the training is watched for at the start, and how to change it."""
    found = [PRESETS[each].finds for each in presets if each in PRESETS]
    found += [f"the conditions of {file}" for file in files]
    if not found:
        return "nothing; the page offers what to watch for"
    return f"{', '.join(found)}; change it on the page, or with --watch-for"


def _environment(
    server: ServerProcess, host: str, watch_files: Sequence[str], presets: Sequence[str]
) -> Mapping[str, str]:
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    more = {
        "SONDE_DEBUGGER_HOST": name,
        "SONDE_DEBUGGER_PORT": str(server.rank_port),
        "SONDE_RUN_ID": run_id(os.environ),
    }
    more["SONDE_DEBUGGER_TOKEN"] = server.token
    if server.fingerprint:
        more["SONDE_DEBUGGER_FINGERPRINT"] = server.fingerprint
    if watch_files:
        more["SONDE_DEBUGGER_WATCH"] = os.pathsep.join(map(os.path.abspath, watch_files))
    more["SONDE_DEBUGGER_WATCH_FOR"] = ",".join(presets)
    return {**os.environ, **more}


def _train(command: Sequence[str], environ: Mapping[str, str]) -> tuple[int, bool]:
    """Run the training to its end. Returns its exit code, in the form of a shell, and whether this
    process got a SIGTERM, which is passed on to the training.

    The training is in the same process group, so Ctrl-C at the terminal reaches it directly.
    """
    received: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        if number == signal.SIGTERM:
            received.append(number)
            for process in started:
                process.send_signal(number)

    with _handling_signals(pass_on):  # not SIG_IGN, which the training would inherit
        process = subprocess.Popen(command, env=environ)
        started.append(process)
        if received:
            process.terminate()
        code = process.wait()
    return (code if code >= 0 else 128 - code), bool(received)


@contextmanager
def _handling_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call ``handler`` for Ctrl-C and SIGTERM in this context."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before: list[tuple[int, Any]] = [(each, signal.signal(each, handler)) for each in numbers]
    try:
        yield
    finally:
        for number, earlier in before:
            signal.signal(number, earlier)


def _has_runs(server: ServerProcess) -> bool:
    try:
        client = Client(server.page.partition("?")[0], server.token, server.trust)
        return bool(client.get("/runs")["runs"])
    except UsageError:
        return False


def _keep_page(server: ServerProcess, code: int) -> None:
    """Keep serving the page, with what it knows of the training, until Ctrl-C or SIGTERM."""
    how = "ended" if code in (0, 130) else f"ended with exit code {code}"
    if not server.is_running:
        say(f"the training has {how}; the page is closed, because its server has ended")
        return
    if not _has_runs(server):
        return  # The program did not start: the page has nothing to show.

    def stop(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), _handling_signals(stop):
        say_result(f"the training has {how}; the page stays at {server.page} until Ctrl-C")
        server.wait()
