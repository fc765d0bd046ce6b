"""Enters and leaves Sonde's dispatch mode beneath the modes of the program.

A mode saves, when it is entered, whether torch was in a mode, and restores that when it is left.
Where Sonde's mode comes or goes beneath others, what they saved is corrected; otherwise torch would
believe to be in a mode, or in none, when the program has left its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils import _python_dispatch

from sonde.core.interruption import is_interruption

# Where a mode keeps what it saved, where torch keeps the state, and whether a mode changes it.
_FLAGS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("old_dispatch_mode_flags", "_is_in_torch_dispatch_mode", lambda mode: True),
    (
        "old_non_infra_dispatch_mode_flags",
        "_is_in_non_infra_torch_dispatch_mode",
        lambda mode: not mode.is_infra_mode(),
    ),
    (
        "old_without_ignore_compile_internals_dispatch_mode_flags",
        "_is_in_any_mode_without_ignore_compile_internals",
        lambda mode: not mode.ignore_compile_internals(),
    ),
)


def mode_stack() -> list[Any]:
    """The modes that are active, the outermost first."""
    return list(_python_dispatch._get_current_dispatch_mode_stack())


def push_mode_below(mode: Any) -> None:
    """Enter ``mode`` beneath the modes that are active now; do nothing if it is active.

    A step may end while modes of the program are entered. If Sonde's were on top, the exit of a
    program's mode would pop Sonde's.
    """
    above = mode_stack()
    if _is_among(mode, above):
        return
    saved = {name: _saved_by_lowest(above, name) for name, _, _ in _FLAGS}

    def attempt() -> None:
        if not _is_among(mode, mode_stack()):
            while mode_stack():
                _python_dispatch._pop_mode()
            mode.__enter__()
        _push_again(above)
        for name, _, changes in _FLAGS:
            flags = getattr(mode, name, [])
            while len(flags) > 1:  # The first attempt saved torch's state before.
                flags.pop()
            if flags and (state := saved[name]) is not None:
                flags[0] = state
                _correct_saved(above, name, state or changes(mode))

    _complete(attempt)


def pop_mode_below(mode: Any) -> None:
    """Leave ``mode``, whatever modes are above it; do nothing if it is not active."""
    before = mode_stack()
    if not _is_among(mode, before):
        return
    others = [each for each in before if each is not mode]
    above = before[[id(each) for each in before].index(id(mode)) + 1 :]
    saved = {name: list(getattr(mode, name, [])) for name, _, _ in _FLAGS}

    def attempt() -> None:
        if _is_among(mode, mode_stack()):
            for name, values in saved.items():
                if hasattr(mode, name):
                    getattr(mode, name).clear()
                    getattr(mode, name).extend(values)
            while mode_stack()[-1] is not mode:
                _python_dispatch._pop_mode()
            mode.__exit__(None, None, None)
        _push_again(others)
        for name, state_name, changes in _FLAGS:
            if above and saved[name]:
                state = saved[name][-1]
                _correct_saved(above, name, state)
                _set_state(state_name, state or any(map(changes, above)))

    _complete(attempt)


def _saved_by_lowest(modes: list[Any], name: str) -> bool | None:
    """What the lowest of ``modes`` saved when it was entered; None if nothing is known."""
    flags = getattr(modes[0], name, []) if modes else []
    times = _times(modes[0], modes) if modes else 0
    return flags[-times] if len(flags) >= times > 0 else None


def _correct_saved(modes: list[Any], name: str, state: bool) -> None:
    """Let the lowest of ``modes`` restore ``state`` when it is left."""
    if _saved_by_lowest(modes, name) is not None:
        getattr(modes[0], name)[-_times(modes[0], modes)] = state


def _set_state(name: str, state: bool) -> None:
    if hasattr(_python_dispatch, name):
        setattr(_python_dispatch, name, state)
    if name == _FLAGS[2][1]:
        tell = getattr(_python_dispatch, "set_is_in_mode_without_ignore_compile_internals", None)
        if tell is not None:
            tell(state)


def _is_among(mode: Any, modes: list[Any]) -> bool:
    return _times(mode, modes) > 0


def _times(mode: Any, modes: list[Any]) -> int:
    """How often ``mode`` is among ``modes``: a program may enter one again inside itself."""
    return sum(each is mode for each in modes)


def _push_again(modes: list[Any]) -> None:
    """Push those of ``modes``, from the outermost inwards, that are not active any more."""
    for number, mode in enumerate(modes):
        if _times(mode, mode_stack()) < _times(mode, modes[: number + 1]):
            _python_dispatch._push_mode(mode)


def _complete(attempt: Callable[[], None]) -> None:
    """Call ``attempt`` until it completes, then raise what a signal handler raised meanwhile.

    Otherwise an interruption could leave modes of the program popped."""
    interruption = None
    while True:
        try:
            attempt()
            break
        except BaseException as error:
            if not is_interruption(error):
                raise
            interruption = error
    if interruption is not None:
        raise interruption
