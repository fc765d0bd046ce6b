"""Observes a program that was started with ``python`` as its environment variables say.

The capture is the one of ``sonde run``; it begins when the program begins to train
(``first_training``, or a training with ``sonde.train``) and ends with the process.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from sonde import logs
from sonde.adapters.torch.attach import is_running
from sonde.adapters.torch.step_dump.dumping import start_capture
from sonde.capture import environment as dump
from sonde.capture.config import CaptureConfig
from sonde.capture.program_end import forget_capture, leave
from sonde.capture.program_ranks import observed_ranks
from sonde.core.errors import SondeError
from sonde.core.interruption import pass_on
from sonde.core.observation_variables import (
    DUMP_CONFIG,
    GUARD,
    SAVE_GRAPHS_PATH,
    asking,
    capturing,
    is_first_rank,
    is_part_of_capture,
)
from sonde.core.text.problem_line import ProblemLine
from sonde.debugger import Terminated
from sonde.debugger import settings as debugger
from sonde.debugger.settings import DebuggerOptions
from sonde.monitor import environment as monitor
from sonde.monitor.options import GuardOptions

BAD_SETTING = 2
TERMINATED = 130
"""The exit codes of a program with a bad setting, and of one that was ended from the debugger."""

_log = logging.getLogger("sonde.capture")
_begun: list[int] = []


def has_begun() -> bool:
    """Whether the variables were read in this process."""
    return os.getpid() in _begun


def begin(directory: str = "") -> None:
    """Observe this process to its end, unless it is observed already.

    ``directory`` is the current directory when the process started, if it is known. A bad setting
    ends the program with one line for each problem and exit code 2; a failure of Sonde does not.
    """
    names = asking(os.environ)
    is_observed_otherwise = "sonde.cli.main" in sys.modules or is_part_of_capture(os.environ)
    if has_begun() or is_observed_otherwise or not names:
        return
    _begun.append(os.getpid())
    logs.configure()
    if is_running() or _is_guarded():
        what = f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no effect"
        why = f"the program runs a {'capture' if is_running() else 'guard'} of its own"
        logs.say(ProblemLine(f"{what}: {why}", slug="variable-unused"))
        return
    try:
        context = _capture(_with_paths(os.environ, directory))
        if context is None:
            return
        context = _with_other_ranks(context)
        context.__enter__()
    except SondeError as error:
        logs.say_errors(str(error))
        raise SystemExit(BAD_SETTING) from None
    except Exception as error:
        pass_on(error)
        text = f"the program is not observed, it goes on: {type(error).__name__}: {error}"
        logs.say(ProblemLine(text, slug="not-observed"))
        return
    ending = _Ending(context)
    sys.excepthook = ending.show
    atexit.register(ending.close)


def _capture(environ: Mapping[str, str]) -> AbstractContextManager[object] | None:
    """The capture that the variables ask for; None if none can be."""
    found = dump.config_from_environment(environ)
    options: DebuggerOptions | None = debugger.options_from_environment(environ)
    is_observed = found is not None or options is not None
    guarded = None if is_observed else monitor.guard_from_environment(environ)
    if is_first_rank(environ):  # one rank prints them
        for line in (
            *dump.unused_files(environ),
            *monitor.unused_guard(environ, because=monitor.OBSERVED if is_observed else ""),
            *debugger.unused_variables(environ),
            *(note for _, note in filter(None, (found, guarded))),
        ):
            logs.say(line)
    if not is_observed and guarded is None:
        return None
    _log.info("the program is observed from here on, because of %s", ", ".join(asking(environ)))
    if guarded is not None:
        return _guard(guarded[0])
    config: CaptureConfig | None = None if found is None else found[0]
    return start_capture(config, starts_at_once=False, debugger=options)


@contextmanager
def _with_other_ranks(context: AbstractContextManager[object]) -> Iterator[None]:
    """``context``, and the ranks that the program starts by running itself again."""
    with observed_ranks(None), context:
        yield


@contextmanager
def _guard(options: GuardOptions) -> Iterator[None]:
    """The guard of ``sonde run --guard``; programs that this one starts have none, since they would
    write to the same directory."""
    from sonde.adapters.torch.monitor.guarding import guard  # slow to import, and rarely wanted

    with capturing(), guard(options):
        yield


def _is_guarded() -> bool:
    """Whether the program itself runs a guard."""
    guarding = sys.modules.get("sonde.adapters.torch.monitor.guarding")
    return guarding is not None and guarding.is_running()


def _with_paths(environ: Mapping[str, str], directory: str) -> Mapping[str, str]:
    """The variables, with files relative to the directory in which the process was started, in case
    the program has changed it."""
    if not directory or directory == os.getcwd():
        return environ
    files = {
        name: os.path.join(directory, environ[name])
        for name in (*DUMP_CONFIG, SAVE_GRAPHS_PATH)
        if environ.get(name)
    }
    guard = monitor.guard_directory(environ)
    if guard is not None:
        files[GUARD] = os.path.join(directory, guard)
    return {**environ, **files}


class _Ending:
    """Closes the capture when the process ends, and shows the program's exceptions as they are."""

    def __init__(self, context: AbstractContextManager[object]) -> None:
        self._context = context
        self._hook = sys.excepthook
        self._process = os.getpid()
        self._error: BaseException | None = None

    def show(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """As ``sys.excepthook``: leave out the frames of the capture."""
        if os.getpid() == self._process:
            self._error = error
            if isinstance(error, Terminated):
                logs.say("the training was ended from the debugger")
                raise SystemExit(TERMINATED)
            forget_capture(error)
        self._hook(kind, error, trace)

    def close(self) -> None:
        if os.getpid() == self._process:
            leave(self._context, self._error)
