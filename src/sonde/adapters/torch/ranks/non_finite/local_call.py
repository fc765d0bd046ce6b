"""Executes a call of a module again on this rank alone, and finds the op that makes NaN or Inf.

The call is executed while the step is where it was: the weights of FSDP2 are gathered. Modules
inside it that have hooks, as sharded ones do, are not called: they return what they have returned.
No collective runs: an op that needs one ends the attempt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.scopes import ScopeRegistry
from sonde.adapters.torch.ranks.non_finite.followed_call import FollowedCall, is_finite
from sonde.adapters.torch.replay.kept_tensor import KeptTensor, map_tree, tensors_in
from sonde.adapters.torch.replay.origin_search import OriginSearch
from sonde.adapters.torch.replay.random_states import AutocastRegion, kept_random
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.run_again import observed
from sonde.adapters.torch.replay.saved_state import SavedState
from sonde.core.patching import replace
from sonde.core.threads.worker_thread import WorkerThread
from sonde.watch.origins import Origin

_COLLECTIVES: Final = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional")
_HOOKS: Final = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
_PLAIN: Final = (int, float, complex, str, bytes, torch.dtype, torch.device, type(None), KeptTensor)


class NotExecutedError(Exception):
    """The call cannot be executed again on this rank alone."""


class _EndedError(Exception):
    """A module that is not called has got NaN or Inf: what has made them was executed."""


class _NoCollectives(private.TorchDispatchMode):  # type: ignore[misc]
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.namespace in _COLLECTIVES:
            raise NotExecutedError(str(func))
        # A DTensor then computes with its local parts, which this mode sees.
        if any(not issubclass(each, nn.Parameter) and each is not torch.Tensor for each in types):
            return NotImplemented
        return func(*args, **(kwargs or {}))


@dataclass(slots=True, eq=False)
class _LocalRun:
    """One execution. ``roots``: tensors that got a gradient of a module that was not called, and
    that gradient; ``results``: what such modules have returned."""

    call: FollowedCall
    results: list[torch.Tensor] = field(default_factory=list)
    roots: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    _next: int = 0

    def run(self, *, with_backward: bool) -> None:
        # Not `unobserved`: a DTensor is copied by its own code.
        with private.without_current_modes():
            args = map_tree(self.call.args, KeptTensor, _argument)
            kwargs = map_tree(self.call.kwargs, KeptTensor, _argument)
        with self._calls_replaced(), torch.enable_grad():
            result = self.call.module(*args, **kwargs)
            if self._next != len(self.call.children):
                raise NotExecutedError("another branch")
        if not with_backward:
            return
        found = list(tensors_in(result))
        for number, gradient in self.call.output_gradients.items():
            self.roots.append((found[number], gradient))
        leaves = [*self.call.module.parameters(), *tensors_in((args, kwargs)), *self.results]
        wanted = [each for each in leaves if each.requires_grad]
        roots = [(root, given) for root, given in self.roots if root.requires_grad]
        torch.autograd.grad(
            [root for root, _ in roots], wanted, [given for _, given in roots], allow_unused=True
        )

    @contextmanager
    def _calls_replaced(self) -> Iterator[None]:
        original: Any = nn.Module.__call__

        def called(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            children = self.call.children
            if not any(each.module is module for each in children):
                return original(module, *args, **kwargs)
            if self._next >= len(children) or children[self._next].module is not module:
                raise NotExecutedError("another branch")
            child = children[self._next]
            self._next += 1
            with private.unobserved(), torch.no_grad():
                if not is_finite((args, kwargs)):
                    raise _EndedError
            given = list(tensors_in((args, kwargs)))
            for number, gradient in child.given_gradients.items():
                if number < len(given):
                    self.roots.append((given[number], gradient))
            with private.without_current_modes():
                result = map_tree(child.returned, KeptTensor, _argument)
            self.results += tensors_in(result)
            return result

        with ExitStack() as undo:
            replace(nn.Module, "__call__", called, undo)
            yield


def find_op(call: FollowedCall, recorder: StepRecorder, *, with_backward: bool) -> Origin | None:
    """The op inside ``call`` that NaN or Inf come from; None if it makes none on this rank.
    NotExecutedError if that cannot be known. Everything is afterwards as it was."""
    if call.args is None or call.random is None or not _is_plain((call.args, call.kwargs)):
        raise NotExecutedError("arguments")
    if not all(each.is_known for each in call.inputs):
        raise NotExecutedError("an argument was overwritten")
    with recorder.replaying(), kept_random(), private.kept_autograd():
        with private.unobserved():
            saved = SavedState.of([call.module], [])
        try:
            # In a thread of its own, which has neither the modes of the program (in a backward pass
            # autograd's engine restores them) nor its hooks for saved tensors: a checkpoint counts
            # what they get.
            thread = WorkerThread("sonde-local-call")
            try:
                observe = partial(_observe, call, recorder.scopes, with_backward)
                return thread.submit(observe).result()
            finally:
                thread.close()
        except NotExecutedError:
            raise
        except Exception as error:
            raise NotExecutedError(str(error)) from error
        finally:
            with private.unobserved():
                saved.restore()


def _observe(call: FollowedCall, scopes: ScopeRegistry, with_backward: bool) -> Origin | None:
    search = OriginSearch(lambda: None, lambda: None)
    region = AutocastRegion()
    with (
        private.with_torch_functions(),
        _without_hooks(call.module),
        _NoCollectives(),
        observed(search, 0, scopes),
    ):
        region.set(call.autocast)
        if call.random is not None:
            torch.set_rng_state(call.random)
        try:
            _LocalRun(call).run(with_backward=with_backward)
        except _EndedError:
            pass
        finally:
            region.close()
    return None if search.found is None else search.found.origin


@contextmanager
def _without_hooks(module: nn.Module) -> Iterator[None]:
    """Call ``module`` without its own hooks in this block: the arguments are those after them."""
    kept: dict[str, Any] = {each: vars(module)[each] for each in _HOOKS if each in vars(module)}
    for name in kept:
        vars(module)[name] = OrderedDict()
    try:
        yield
    finally:
        vars(module).update(kept)


def _argument(kept: KeptTensor) -> torch.Tensor:
    """A copy of the tensor, which the program may write to."""
    if not kept.is_known:
        raise NotExecutedError("a result was overwritten")
    made = kept.values.detach().clone()
    return made.requires_grad_() if kept.requires_grad else made


def _is_plain(tree: Any) -> bool:
    """Whether executing the call again with a copy of ``tree`` leaves the program's as it is."""
    if isinstance(tree, (tuple, list)):
        return all(map(_is_plain, tree))
    if isinstance(tree, dict):
        return all(map(_is_plain, tree.values()))
    return isinstance(tree, _PLAIN)
