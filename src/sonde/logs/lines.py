"""Lines for the user: every line that Sonde prints on standard error goes through here.

The screen shows them as ``sonde: the line``, the log file in the form of the log. A `ProblemLine`
is a warning; any other line is a notice, which is shown wherever warnings are. The program's own
logging changes neither: lines are not shown a second time by a handler of the program that writes
to the screen, and go to the screen also if the program has disabled or replaced the loggers of
others.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from sonde.core.interruption import pass_on
from sonde.core.text.problem_line import ProblemLine
from sonde.logs.handlers import IS_LINE, ScreenHandler, handlers_of, is_screen
from sonde.logs.settings import SUBMODULES

START = "sonde: "
NOTICE = "NOTICE"
_PASSING_ON = ("sonde.logs", "sonde.adapters.torch.rank_lines")
"""Modules that only pass a line on; the log names the one before them."""
_collected: list[list[str]] = []


def hand_out(
    text: str, handlers: Iterable[logging.Handler], *, level: int, is_always_shown: bool
) -> None:
    """Give a line to Sonde's ``handlers`` and to those of the program.

    ``is_always_shown``: the screen shows it whatever the level is, because a command ends with it.
    """
    message = text.removeprefix(START)
    frame = _speaker(sys._getframe(1))
    logger = logging.getLogger(_logger_name(frame))
    is_wanted = level >= logger.getEffectiveLevel()
    if not is_wanted and not is_always_shown:
        return
    record = logger.makeRecord(
        logger.name, level, frame.f_code.co_filename, frame.f_lineno, "%s", (message,), None
    )
    setattr(record, IS_LINE, True)
    if level == logging.WARNING and not isinstance(text, ProblemLine):
        record.levelname = NOTICE
    ours = list(handlers)
    for handler in ours:
        is_shown = is_wanted and level >= handler.level
        if isinstance(handler, ScreenHandler):
            if is_shown or is_always_shown:
                _show(handler, record, text)
        elif is_shown:
            _give(handler, record)
    for handler in handlers_of(logger) if is_wanted else ():
        if handler not in ours and not is_screen(handler) and level >= handler.level:
            _give(handler, record)


@contextmanager
def collected_lines() -> Iterator[list[str]]:
    """Collect the lines of this block instead of showing them on the screen; the log has them."""
    lines: list[str] = []
    _collected.append(lines)
    try:
        yield lines
    finally:
        _collected.remove(lines)


def _show(handler: ScreenHandler, record: logging.LogRecord, text: str) -> None:
    if _collected:
        _collected[-1].append(text)
    else:
        _give(handler, record)


def _give(handler: logging.Handler, record: logging.LogRecord) -> None:
    try:
        handler.handle(record)
    except Exception as error:  # A handler of the program may raise: the training goes on.
        pass_on(error)


def _speaker(frame: FrameType) -> FrameType:
    """The frame of the function whose line it is."""
    while frame.f_back is not None and _module(frame).startswith(_PASSING_ON):
        frame = frame.f_back
    return frame


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _logger_name(frame: FrameType) -> str:
    """The logger of the sub module that the frame belongs to."""
    words = _module(frame).split(".")
    is_known = words[0] == "sonde" and len(words) > 1 and words[1].upper() in SUBMODULES
    return f"sonde.{words[1]}" if is_known else "sonde"
