"""``sonde.debug()`` and ``sonde.breakpoint()``: the program itself starts the debugger."""

from __future__ import annotations

import atexit
import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from sonde.adapters.torch.adapter import StepBy
from sonde.adapters.torch.attach import attach, is_running, running_debugger
from sonde.adapters.torch.eager.outside_step import Observed
from sonde.core.errors import SondeError
from sonde.core.running_training import begin_counting_at
from sonde.core.text.problem_line import ProblemLine
from sonde.debugger.launch.probe import is_own_port, is_server
from sonde.debugger.launch.server_process import ServerProcess
from sonde.debugger.launch.server_registry import one_at_a_time, running_servers
from sonde.debugger.settings import DebuggerOptions, any_options_from_environment
from sonde.logs import say, say_result

_FAILED: list[Exception] = []
"""Why no server could be started; the attempt is not repeated."""


@contextmanager
def debugged(
    host: str | None,
    port: int | None,
    *,
    pause: bool | None,
    step_by: StepBy,
    observe: Collection[Observed] = (),
) -> Iterator[None]:
    """Debug the program while this block runs; inside a debugged program nothing changes.

    If no server can be started, that is reported, and the block runs without the debugger.
    """
    options = None
    if running_debugger() is None:
        options = _reachable(_options(host, port))
    if options is None:
        yield
        return
    options = replace(options, pause=pause)
    with attach(None, starts_at_once=False, step_by=step_by, debugger=options, observe=observe):
        yield


def stop_here(why: str, *, step: int | None = None) -> None:
    """Pause, and show ``why``. A program that is not debugged yet is debugged until it ends;
    ``step``: the number of its running step, if the caller counts steps."""
    debugging = running_debugger()
    if debugging is None:
        if is_running():
            text = (
                "sonde.breakpoint() is passed: this capture has no debugger; run the script "
                "with 'sonde debug'"
            )
            say(ProblemLine(text, slug="breakpoint-passed"))
            return
        options = _reachable(_options(None, None))
        if options is None:
            return
        stack = ExitStack()
        options = replace(options, pause=False)
        stack.enter_context(attach(None, starts_at_once=False, debugger=options))
        atexit.register(stack.close)
        debugging = running_debugger()
        if step:
            begin_counting_at(step)
    if debugging is not None:
        debugging.debugger.breakpoint(why)


def _options(host: str | None, port: int | None) -> DebuggerOptions:
    options = any_options_from_environment(os.environ)
    return replace(
        options,
        host=options.host if host is None else host,
        port=options.port if port is None else port,
    )


def _reachable(options: DebuggerOptions) -> DebuggerOptions | None:
    """The options with the address of a running server of this user, or of a new one, unless an
    address was given; None if no server can be started, which is reported once.

    All ranks of a training come here at the same time: one starts the server, the others find it.
    """
    asked = os.environ.get("SONDE_DEBUGGER_HOST") or os.environ.get("SONDE_DEBUGGER_PORT")
    if asked or options.address != DebuggerOptions().address:
        return options
    with one_at_a_time():
        for known in running_servers():
            if known.rank_port is not None:
                here = replace(
                    options,
                    host=known.reachable_host,
                    port=known.rank_port,
                    token=known.token,
                    trust=known.trust,
                )
                if is_server(here.host, here.port, here.trust):
                    return here
        is_usual = is_own_port(options.port) and is_server(
            options.host, options.port, options.trust
        )
        return options if is_usual else _started(options)


def _started(options: DebuggerOptions) -> DebuggerOptions | None:
    """The options with the address of a new server, which outlives this process."""
    if _FAILED:
        return None
    try:
        server = ServerProcess(lingers=True)
    except (SondeError, OSError) as error:
        _FAILED.append(error)
        before = "the program goes on without the debugger: "
        if isinstance(error, SondeError):
            say(ProblemLine.about(error, before))
        else:
            say(f"{before}{error}")
        return None
    atexit.register(server.leave)
    say_result(f"the page is at {server.page}")
    return replace(options, port=server.rank_port, token=server.token)
