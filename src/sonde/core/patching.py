"""Temporary patches of attributes of foreign modules and classes: all patching goes through here.

A patch is undone by closing an ``ExitStack`` or `Removals`, or by `Patch.restore`. An attribute
that other code has replaced in the meantime is not restored: that would remove the other patch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

_ABSENT = object()
_wrapped: dict[Patch, list[Callable[..., Any]]] = {}
"""The functions that `wrap` has replaced, and what their replacements call."""
_installed: dict[Patch, None] = {}
"""The patches that are installed, in this order."""


class Undo(Protocol):
    """An ``ExitStack``, or `Removals`."""

    def callback(self, action: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call ``action`` with these arguments when this is closed."""


class Removals:
    """What has been installed while steps are observed, and must be removed: the last one first.

    A signal handler of the program may raise at any point of `close`. An action that was
    interrupted is called again by the next `close`; an ``ExitStack`` would forget it. Each action
    must do nothing where there is nothing to remove.
    """

    __slots__ = ("_actions",)

    def __init__(self) -> None:
        self._actions: list[Callable[[], Any]] = []

    def callback(self, action: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        self._actions.append(functools.partial(action, *args, **kwargs))

    def close(self) -> None:
        while self._actions:
            self._actions[-1]()
            self._actions.pop()


class Patch:
    """One attribute of ``owner`` (a module, a class or an object) and its ``replacement``.

    ``original`` is the value that ``owner.name`` had, inherited or not, when the patch was made.
    `install` and `restore` may be called any number of times.
    """

    __slots__ = ("_own", "name", "original", "owner", "replacement")

    def __init__(self, owner: Any, name: str, replacement: Any) -> None:
        self.owner = owner
        self.name = name
        self.original: Any = getattr(owner, name)
        self.replacement = replacement
        # If a class inherits the attribute, restoring means deleting the replacement.
        self._own: Any = vars(owner).get(name, _ABSENT)

    @property
    def is_installed(self) -> bool:
        return vars(self.owner).get(self.name, _ABSENT) is self.replacement

    def install(self) -> None:
        _installed[self] = None
        setattr(self.owner, self.name, self.replacement)

    def restore(self) -> None:
        """Restore the original, unless the replacement is not installed any more."""
        _installed.pop(self, None)
        if not self.is_installed:
            return
        if self._own is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self._own)


def replace(owner: Any, name: str, replacement: Any, undo: Undo) -> Patch:
    """Install ``replacement`` as ``owner.name`` until ``undo`` is closed."""
    patch = Patch(owner, name, replacement)
    undo.callback(patch.restore)
    patch.install()
    return patch


def wrap(
    owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]], undo: Undo
) -> Patch:
    """Install ``make(original)`` as the function ``owner.name`` until ``undo`` is closed.

    The replacement gets the original's name, module and docstring, by which pickle finds it. Other
    code may keep it for longer: a ``from owner import name``, a table of the compiler. After that
    it calls the original, and keeps nothing alive that the made function refers to.
    """
    original = getattr(owner, name)
    current = [make(original)]

    def call(*args: Any, **kwargs: Any) -> Any:
        return current[0](*args, **kwargs)

    # What the compiler is told about a function holds for its code: this one has its own.
    call.__code__ = call.__code__.replace(co_name=name)
    patch = replace(owner, name, functools.wraps(original)(call), undo)
    undo.callback(current.__setitem__, 0, original)
    _wrapped[patch] = current
    undo.callback(_wrapped.pop, patch, None)
    return patch


def restore_all() -> None:
    """Restore everything that is patched, the last first. For a copy of the process that computes
    without being observed and then ends: nothing installs the replacements again."""
    for patch, current in reversed(_wrapped.items()):
        current[0] = patch.original
    for patch in reversed(list(_installed)):
        patch.restore()


def call_before(owner: Any, name: str, action: Callable[..., object], undo: Undo) -> Patch:
    """Before each call of ``owner.name``, call ``action`` with its arguments, until ``undo``."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            action(*args, **kwargs)
            return original(*args, **kwargs)

        return call

    return wrap(owner, name, make, undo)
