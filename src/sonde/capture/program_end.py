"""The end of an observed program: closes its capture, and shows its exceptions as they are."""

from __future__ import annotations

import traceback
from contextlib import AbstractContextManager
from types import TracebackType

from sonde.core.errors import SondeError
from sonde.logs import say_errors

# Modules whose frames are removed from tracebacks: those that observe the ops of a program, the one
# with their patches, and the one through which they call torch.
_CAPTURING = ("sonde.adapters.", "sonde.capture.", "sonde.core.patching", "sonde.debugger.")
_CALLING_OPS = ("torch._ops",)


def leave(
    context: AbstractContextManager[object], outcome: BaseException | None
) -> BaseException | None:
    """Leave the context. Its failure is printed, and does not change how the program ended.

    ``outcome`` is the exception that ended the program. Returns it, or a KeyboardInterrupt that
    came meanwhile.
    """
    clean = None if outcome is None else outcome.__traceback__
    try:
        context.__exit__(None if outcome is None else type(outcome), outcome, clean)
    except KeyboardInterrupt as interrupt:
        outcome = outcome or interrupt
        clean = outcome.__traceback__
    except SondeError as error:
        say_errors(str(error))
    except Exception:
        trace = traceback.format_exc()
        say_errors(f"{trace}the failure above is Sonde's, not your program's")
    if outcome is not None:
        outcome.__traceback__ = clean
    return outcome


def forget_capture(error: BaseException | None, seen: set[int] | None = None) -> None:
    """Unlink the frames through which the capture called an op, also in chained exceptions."""
    seen = set() if seen is None else seen
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    kept = error.__traceback__
    while kept is not None:
        following = kept.tb_next
        while following is not None and belongs_to(following, _CAPTURING):
            following = following.tb_next
            if following is not None and belongs_to(following, _CALLING_OPS):
                following = following.tb_next
        kept.tb_next = following
        kept = following
    forget_capture(error.__cause__, seen)
    forget_capture(error.__context__, seen)


def belongs_to(trace: TracebackType, modules: tuple[str, ...]) -> bool:
    """Whether the frame is one of these modules; each ends with a dot or is a whole name."""
    name = trace.tb_frame.f_globals.get("__name__")
    return isinstance(name, str) and name.startswith(modules)
