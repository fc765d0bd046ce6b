"""The debugger settings of a training process, and how they are read from the environment."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, TypeVar

from sonde.capture.options import parse_size
from sonde.core.errors import UsageError
from sonde.core.observation_variables import DEBUGGER_ADDRESS, ENABLE_DEBUGGER, NO
from sonde.core.text.problem_line import ProblemLine

if TYPE_CHECKING:
    from sonde.wire.shapes import WatchpointSpec
    from sonde.wire.tls import Trust

Value = TypeVar("Value")
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 50051
DEFAULT_BUDGET: Final = 256 * 1024 * 1024
SMALL_BUDGET: Final = 64 * 1024 * 1024
"""The budget with ``MS_DEBUGGER_PARTIAL_MEM=1``, for machines with little memory."""
DEFAULT_WAIT: Final = 5.0
DEFAULT_LOST: Final = 60.0
_YES: Final = ("1", "true")
_PARTIAL_MEMORY: Final = "MS_DEBUGGER_PARTIAL_MEM"


@dataclass(frozen=True, slots=True)
class DebuggerOptions:
    """The debugger settings of one rank; can be pickled and passed to child processes.

    - ``token``: of the server; empty: that of this user's server at this address, if there is one;
    - ``trust``: the certificate of the server; None: the connection is not encrypted;
    - ``pause``: pause before the first step; None: as the server says;
    - ``wait_seconds``: how long to wait for the server when the program starts;
    - ``lost_seconds``: how long a paused training stays paused after the server is lost;
    - ``budget_bytes``: memory for values that are kept;
    - ``run``: the id of the run, the same for all ranks of one training;
    - ``script``, ``arguments``: of the program, where ``sys.argv`` does not have them yet;
    - ``world_size``: the number of ranks; 0: as the framework or the launcher says;
    - ``watchpoints``: the watchpoints that a run starts with;
    - ``trace``: while the training is paused before its first step, find out which ops will run.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str = ""
    trust: Trust | None = None
    pause: bool | None = None
    wait_seconds: float = DEFAULT_WAIT
    lost_seconds: float = DEFAULT_LOST
    budget_bytes: int = DEFAULT_BUDGET
    run: str = ""
    script: str = ""
    arguments: tuple[str, ...] = ()
    world_size: int = 0
    watchpoints: tuple[WatchpointSpec, ...] = ()
    trace: bool = True

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def options_from_environment(environ: Mapping[str, str]) -> DebuggerOptions | None:
    """Read ``SONDE_DEBUGGER_*`` (or ``MS_DEBUGGER_*`` with ``ENABLE_MS_DEBUGGER=1``).

    None if they do not enable the debugger. UsageError names a variable that cannot be parsed.
    """
    is_asked = any(environ.get(name) for name in DEBUGGER_ADDRESS)
    if not is_asked and environ.get(ENABLE_DEBUGGER, "").strip().lower() not in _YES:
        return None
    return any_options_from_environment(environ)


def unused_variables(environ: Mapping[str, str]) -> list[str]:
    """A line about each variable for the debugger that is set and cannot have an effect."""
    text = environ.get(ENABLE_DEBUGGER, "").strip()
    if any(environ.get(name) for name in DEBUGGER_ADDRESS) or text.lower() in (*_YES, *NO):
        return []
    if text:
        rule = f"must be 1 or 0 (got {text!r}); the program runs without the debugger"
        return [ProblemLine(f"{ENABLE_DEBUGGER} {rule}", slug="variable-unused")]
    why = f"has no effect without {ENABLE_DEBUGGER}=1"
    return [
        ProblemLine(f"{name} {why}", slug="variable-unused")
        for name in ("MS_DEBUGGER_HOST", "MS_DEBUGGER_PORT", _PARTIAL_MEMORY)
        if environ.get(name)
    ]


def any_options_from_environment(environ: Mapping[str, str]) -> DebuggerOptions:
    """Read the same variables, with defaults for those that are not set."""
    # Imported here because they import numpy and ssl, which a run without the debugger does not
    # need.
    from sonde.debugger.initial_watchpoints import starting_set
    from sonde.wire.tls import trust_from_environment

    def read(name: str, parse: Callable[[str, str], Value], default: Value) -> Value:
        text = environ.get(name)
        return parse(name, text) if text else default

    host = environ.get("SONDE_DEBUGGER_HOST") or environ.get("MS_DEBUGGER_HOST") or DEFAULT_HOST
    port = "SONDE_DEBUGGER_PORT" if environ.get("SONDE_DEBUGGER_PORT") else "MS_DEBUGGER_PORT"
    budget = SMALL_BUDGET if read(_PARTIAL_MEMORY, _flag, False) else DEFAULT_BUDGET
    files = filter(None, environ.get("SONDE_DEBUGGER_WATCH", "").split(os.pathsep))
    return DebuggerOptions(
        host=host,
        port=read(port, _port, DEFAULT_PORT),
        token=environ.get("SONDE_DEBUGGER_TOKEN", ""),
        trust=trust_from_environment(environ),
        pause=read("SONDE_DEBUGGER_PAUSE", _flag, None),
        wait_seconds=read("SONDE_DEBUGGER_WAIT", _seconds, DEFAULT_WAIT),
        lost_seconds=read("SONDE_DEBUGGER_LOST", _seconds, DEFAULT_LOST),
        budget_bytes=read("SONDE_DEBUGGER_BUDGET", _size, budget),
        run=run_id(environ),
        watchpoints=starting_set(
            tuple(files),
            recommended=read("SONDE_DEBUGGER_RECOMMENDED", _flag, False),
            presets=tuple(filter(None, environ.get("SONDE_DEBUGGER_WATCH_FOR", "").split(","))),
        ),
        trace=read("SONDE_DEBUGGER_TRACE", _flag, True),
    )


def run_id(environ: Mapping[str, str]) -> str:
    """The id of the run: the same in all ranks that a launcher started, else a new one."""
    given = environ.get("SONDE_RUN_ID") or environ.get("TORCHELASTIC_RUN_ID")
    if given == "none" and environ.get("MASTER_PORT"):  # torchrun's default is not unique
        given = f"{environ.get('MASTER_ADDR', 'localhost')}-{environ['MASTER_PORT']}"
    elif not given or given == "none":
        given = f"{socket.gethostname()}-{os.getpid()}-{int(time.time())}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", given).lstrip("._-")[:100] or "run"


def _port(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise UsageError(
            f"{name} must be a port from 1 to 65535 (got {text!r})", slug="debugger-port"
        )
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("0", "1", "false", "true"):
        raise UsageError(f"{name} must be 0 or 1 (got {text!r})", slug="debugger-setting")
    return text.lower() in ("1", "true")


def _size(name: str, text: str) -> int:
    try:
        return parse_size(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error.message}", slug=error.slug) from None


def _seconds(name: str, text: str) -> float:
    try:
        seconds = inf if text == "forever" else float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise UsageError(
            f"{name} must be a number of seconds or 'forever' (got {text!r})",
            slug="debugger-setting",
        )
    return seconds
