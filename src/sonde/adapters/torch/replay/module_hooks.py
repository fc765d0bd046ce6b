"""A hook that is called when outermost modules begin and end, and is absent while they run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.source_lines import is_user_file


class OutermostHook:
    """Calls ``begins`` with a module, its arguments and the frame that runs it. If that returns
    True, the hook is taken away until the module has ended, and ``ended`` is called then with its
    result or its exception.

    The end is noticed by a hook of the module itself, which is added for the call. It stays where
    an exception ended the call, until the next call: torch iterates over the hooks then.
    """

    def __init__(
        self,
        begins: Callable[[nn.Module, Any, FrameType], bool],
        ended: Callable[[nn.Module, Any, BaseException | None], None],
    ) -> None:
        self.module: nn.Module | None = None
        # The frame that runs the module, which may call itself.
        self._frame: FrameType | None = None
        self._begins = begins
        self._ended = ended
        self._number = -1
        self._is_installed = False
        self._hidden = 0
        self._left: list[nn.Module] = []
        # Functions, not methods: a program may copy the module while it has the hook.
        self._before, self._after = _functions(self)

    def install(self, undo: ExitStack) -> None:
        handle = register_module_forward_pre_hook(self._before)
        self._number = handle.id
        self._is_installed = True
        undo.callback(self.remove)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Take the hook away in this block, if it is there."""
        was_there = self._number in private.module_hooks()[0]
        self._hidden += 1
        self._hide()
        try:
            yield
        finally:
            self._hidden -= 1
            if was_there:
                self._show()

    def clear(self) -> None:
        """Forget the module that runs."""
        if self.module is not None:
            self._remove_from(self.module)
            self.module = self._frame = None
        self._remove_left()
        self._show()

    def hide_until_shown(self) -> None:
        """Take the hook away until `show` is called."""
        if self.module is None:
            self._hide()

    def show(self) -> None:
        """Put the hook back, unless a module runs."""
        self._show()

    def remove(self) -> None:
        """Take the hook away for good."""
        self._is_installed = False
        self.clear()
        self._hide()

    def _hide(self) -> None:
        private.module_hooks()[0].pop(self._number, None)

    def _show(self) -> None:
        if self._is_installed and not self._hidden and self.module is None:
            private.module_hooks()[0][self._number] = self._before

    def _remove_from(self, module: nn.Module) -> None:
        module._forward_hooks.pop(self._number, None)
        module._forward_hooks_always_called.pop(self._number, None)

    def _remove_left(self) -> None:
        while self._left:
            self._remove_from(self._left.pop())

    def begin(self, module: nn.Module, args: Any, frame: FrameType) -> None:
        if self.module is not None or not self._begins(module, args, frame):
            return
        self._remove_left()
        self.module, self._frame = module, frame
        self._hide()
        module._forward_hooks[self._number] = self._after
        module._forward_hooks_always_called[self._number] = True

    def end(self, module: nn.Module, result: Any, frame: FrameType) -> None:
        mine = self._frame
        # Torch calls the hook from the calling function after an exception.
        has_failed = mine is not None and frame is mine.f_back
        if self.module is not module or not (has_failed or frame is mine):
            return
        self.module = self._frame = None
        if has_failed:
            self._left.append(module)
        else:
            self._remove_from(module)
        self._show()
        self._ended(module, result, sys.exc_info()[1] if has_failed else None)


def _functions(hook: OutermostHook) -> tuple[Callable[..., None], Callable[..., None]]:
    def before(module: nn.Module, args: Any) -> None:
        hook.begin(module, args, sys._getframe(1))

    def after(module: nn.Module, _: Any, result: Any) -> None:
        hook.end(module, result, sys._getframe(1))

    private.hide_from_compiler(before, after)
    return before, after


def is_compiled_container(frame: FrameType | None) -> bool:
    """Whether ``frame`` is called by a container of torch on which ``compile()`` was called.

    Torch compiles the forward pass of such a container only where there are hooks: the recorder's
    must not be there.
    """
    for each in private.frames_from(frame):
        if each.f_code is _COMPILED_CALL:
            return type(each.f_locals.get("self")).__module__.startswith("torch.nn.")
        if is_user_file(each.f_code.co_filename):
            return False
    return False


_COMPILED_CALL = nn.Module._wrapped_call_impl.__code__
