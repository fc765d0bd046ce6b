"""Screens calls of modules where a step cannot be executed again (FSDP2, TP, SyncBatchNorm).

The weights of such a model are gathered from all ranks, so that one rank alone cannot repeat its
step. The outputs of the root and of the modules that have hooks, as sharded ones do, are tested as
they are made, and so are the gradients that reach and leave them. The first call that makes a value
that is not finite is executed again at once, on this rank alone, to name the op.

This is for models on a CPU: elsewhere a test would wait for the device (`output_sums`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import calling_line
from sonde.adapters.torch.ranks.layout import plain_name
from sonde.adapters.torch.ranks.non_finite.followed_call import (
    FollowedCall,
    ScreenedOrigin,
    has_finite_sum,
    is_finite,
)
from sonde.adapters.torch.ranks.non_finite.followed_modules import (
    is_apart,
    line_of_module,
    module_text,
    own_parts,
)
from sonde.adapters.torch.ranks.non_finite.local_call import NotExecutedError
from sonde.adapters.torch.ranks.private import has_saved_tensor_hooks
from sonde.adapters.torch.replay.kept_tensor import keep, map_tree, tensors_in
from sonde.adapters.torch.replay.module_state import is_ddp
from sonde.watch.origins import Origin

_MOST_MODULES: Final = 2000
_MOST_CALLS: Final = 5000
_MOST_ATTEMPTS: Final = 8
"""So many calls are executed again for one gradient that is not finite."""
FindOp = Callable[[FollowedCall, bool], Origin | None]
"""Executes a call again, with its backward pass or without; may raise NotExecutedError."""


@dataclass(slots=True, eq=False)
class CallScreen:
    """The calls of the running step. Hooks are on the modules only while an outermost one runs.
    Used from the training thread; ``shield`` takes failures of Sonde."""

    shield: Any
    find_op: FindOp
    found: ScreenedOrigin | None = None
    _is_busy: bool = False
    _tests: int = 0
    _running: list[FollowedCall] = field(default_factory=list)
    _arrived: list[FollowedCall] = field(default_factory=list)
    _handles: list[Any] = field(default_factory=list)
    _gradient_handles: list[Any] = field(default_factory=list)
    _owned: dict[int, list[nn.Module]] = field(default_factory=dict)
    _followed: object = None

    def follow(self, module: nn.Module, args: Any) -> None:
        """A module begins that needs other ranks: screen its inputs and what is inside it."""
        self.leave()
        if self._is_busy:
            return
        if self.found is None and not is_finite(args):
            self.found = ScreenedOrigin("the input of the model", calling_line(), self._count())
        self._followed = object()
        root: Any = module.module if is_ddp(module) else module
        named = [(name, each) for name, each in root.named_modules() if is_apart(each)]
        apart = {id(each) for _, each in named} | {id(root)}
        for name, each in {"": root, **dict(named[:_MOST_MODULES])}.items():
            self._owned[id(each)] = own_parts(each, apart)
            self._handles += _follow(self, each, plain_name(name))
        if root is module:  # Torch does not call a hook that is added now.
            self.begins(module, "", None)

    def leave(self, *, has_failed: bool = False) -> None:
        """Screen nothing more. ``has_failed``: an exception has ended the outermost module; its
        hooks stay until the next one begins, because torch iterates over them, and do nothing."""
        self._followed = None
        if not has_failed:
            while self._handles:
                self._handles.pop().remove()
        self._running.clear()
        self._owned = {}

    def is_following(self, followed: object) -> bool:
        """Whether a hook belongs to the module that runs; torch may still call older ones."""
        return followed is self._followed

    def backward_ended(self) -> None:
        """Forget what was kept for a backward pass."""
        while self._gradient_handles:
            self._gradient_handles.pop().remove()
        self._arrived.clear()

    def step_ended(self) -> None:
        self.backward_ended()
        self.found = None
        self._tests = 0

    # ---------------------------------------------------------------- forward passes

    def begins(self, module: nn.Module, name: str, given: Any) -> None:
        """A followed module is called with ``given``; its other hooks have not seen it yet."""
        with self.shield, private.unobserved(), torch.no_grad():
            parent = self._running[-1] if self._running else None
            call = FollowedCall(module, module_text(name, module), line_of_module(module))
            call.is_saved_elsewhere = has_saved_tensor_hooks()
            is_inside = parent is not None and parent.is_saved_elsewhere
            if not (is_inside and call.is_saved_elsewhere) and self._tests < _MOST_CALLS:
                call.keep_state()
                self._await(call, call.given_gradients, given)
            if parent is not None:
                parent.children.append(call)
            self._running.append(call)

    def starts(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        """The ``forward`` of a followed module gets these arguments."""
        with self.shield, private.unobserved(), torch.no_grad():
            call = self._running[-1] if self._running else None
            if call is not None and call.module is module and call.random is not None:
                call.keep_arguments(args, kwargs)
                call.awaited = self._await(call, call.input_gradients, (args, kwargs))

    def returns(self, module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        """A followed module has computed ``output``; its other hooks have not seen it yet."""
        with self.shield:
            call = self._ending(module)
            if call is None:
                return
            with private.unobserved():
                if call.args is None and call.random is not None:
                    call.keep_arguments(args, kwargs)
                call.ended = self._count()
                is_wrong = self.found is None and not all(map(has_finite_sum, tensors_in(output)))
                is_made = is_wrong and is_finite([each.values for each in call.inputs])
                if call.random is not None and self.found is None and not is_wrong:
                    self._await(call, call.output_gradients, output)
                    self._await_parameters(call)
            if is_made:  # Otherwise the call around it has made them.
                self._search(call, with_backward=False)
                if self.found is None and not self._running:
                    self.found = ScreenedOrigin("", "", call.ended)

    def returned(self, module: nn.Module, output: Any) -> None:
        """The caller of a followed module gets ``output``, after all hooks."""
        with self.shield, private.unobserved(), torch.no_grad():
            siblings = self._running[-1].children if self._running else []
            if siblings and siblings[-1].module is module:
                siblings[-1].returned = map_tree(output, torch.Tensor, keep)

    def _ending(self, module: nn.Module) -> FollowedCall | None:
        """The running call of ``module``; forgets calls inside it that an exception has left."""
        while self._running:
            call = self._running.pop()
            if call.module is module:
                return call
        return None

    def _search(self, call: FollowedCall, *, with_backward: bool) -> None:
        self._is_busy = True
        try:
            origin = self.find_op(call, with_backward)
        except NotExecutedError:
            if not with_backward:
                self.found = ScreenedOrigin(call.text, call.line, call.ended)
        else:
            if origin is not None:
                source = origin.source
                line = f"{os.path.basename(source.file)}:{source.line}" if source else call.line
                self.found = ScreenedOrigin(origin.op, line, self._tests, with_backward)
        finally:
            self._is_busy = False

    # --------------------------------------------------------------- backward passes

    def _await(self, call: FollowedCall, kept: dict[int, torch.Tensor], tree: Any) -> int:
        """Let the gradients of the tensors in ``tree`` arrive in ``kept``; their number."""
        awaited = [each for each in enumerate(tensors_in(tree)) if each[1].requires_grad]
        for number, tensor in awaited:
            handle = tensor.register_hook(_arriving(self, call, kept, number))
            self._gradient_handles.append(handle)
        return len(awaited)

    def _await_parameters(self, call: FollowedCall) -> None:
        for part in self._owned.get(id(call.module), ()):
            for parameter in part._parameters.values():
                if parameter is not None and parameter.requires_grad:
                    hook: Any = parameter.register_hook
                    self._gradient_handles.append(hook(_arriving(self, call, None, 0)))

    def gradient_arrived(
        self,
        call: FollowedCall,
        kept: dict[int, torch.Tensor] | None,
        number: int,
        gradient: torch.Tensor,
    ) -> None:
        """A gradient of the backward pass: of an output or input of ``call``, which keeps it, or of
        a parameter."""
        if self.found is not None or self._is_busy:
            return
        with self.shield:
            self._count()
            with private.unobserved(), torch.no_grad():
                is_wrong = not has_finite_sum(gradient)
                if not is_wrong and kept is not None:
                    if kept is call.output_gradients and not kept:
                        self._arrived.append(call)
                    kept[number] = gradient.detach()
            if is_wrong:
                self._search_backward()

    def _search_backward(self) -> None:
        """The last call that gradients have reached and not left has made what is not finite, or a
        call around it has; if none has, the loss has, or another rank."""
        order = self._tests
        begun = [each for each in reversed(self._arrived) if each.is_open]
        for call in begun[:_MOST_ATTEMPTS]:
            self._search(call, with_backward=True)
            if self.found is not None:
                return
        self.found = ScreenedOrigin("", "", order, is_backward=True)

    def _count(self) -> int:
        self._tests += 1
        return self._tests - 1


# Functions, not methods: a program may copy a module or a tensor while it has the hook.


def _follow(owner: CallScreen, module: nn.Module, name: str) -> list[Any]:
    """Put hooks on ``module``, on both sides of its own ones before and after its ``forward``."""
    followed = owner._followed

    def first(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        if owner.is_following(followed):
            owner.begins(module, name, (args, kwargs))

    def ahead(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        if owner.is_following(followed):
            owner.starts(module, args, kwargs)

    def after(module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        if owner.is_following(followed):
            owner.returns(module, args, kwargs, output)

    def last(module: nn.Module, args: Any, output: Any) -> None:
        if owner.is_following(followed):
            owner.returned(module, output)

    private.hide_from_compiler(first, ahead, after, last)
    return [
        module.register_forward_pre_hook(first, prepend=True, with_kwargs=True),
        module.register_forward_pre_hook(ahead, with_kwargs=True),
        module.register_forward_hook(after, prepend=True, with_kwargs=True),
        module.register_forward_hook(last),
    ]


def _arriving(
    owner: CallScreen, call: FollowedCall, kept: dict[int, torch.Tensor] | None, number: int
) -> Callable[[torch.Tensor], None]:
    def arrived(gradient: torch.Tensor) -> None:
        owner.gradient_arrived(call, kept, number, gradient)

    private.hide_from_compiler(arrived)
    return arrived
