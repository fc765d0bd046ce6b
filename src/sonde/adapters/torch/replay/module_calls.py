"""Records the calls of outermost modules."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.scopes import ScopeRegistry
from sonde.adapters.torch.eager.naming.source_lines import find_user_frame
from sonde.adapters.torch.replay.kept_tensor import KeptTensor, map_tree, tensors_in
from sonde.adapters.torch.replay.module_state import (
    ModuleWatch,
    is_ddp,
    is_distributed,
    is_redirected,
)
from sonde.adapters.torch.replay.outside_ops import KnownTensors
from sonde.adapters.torch.replay.random_states import autocast_states, take_random
from sonde.adapters.torch.replay.step_record import CallOutput, ModuleCall, ReplayProblem
from sonde.adapters.torch.replay.storage.wrappers import COMPILED

GradientArrived = Callable[[ModuleCall, int, torch.Tensor], None]


def ranks_of(module: nn.Module) -> int:
    """How many ranks average the gradients of a module that `is_ddp`."""
    return int(torch.distributed.get_world_size(getattr(module, "process_group", None)))


class CallRecorder:
    """Makes a `ModuleCall` of each call of an outermost module that records gradients.

    Calls without gradients (evaluations, a teacher, transforms of the data) are not kept: what they
    return is a constant of the step. The forward pass of reentrant checkpointing is the exception.
    """

    def __init__(
        self,
        known: KnownTensors,
        scopes: ScopeRegistry,
        add_reason: Callable[[ReplayProblem], None],
    ) -> None:
        self._known = known
        self._scopes = scopes
        self._add_reason = add_reason
        self._watches: dict[int, ModuleWatch] = {}
        self._used: dict[int, ModuleWatch] = {}
        # Modules whose inputs the program overwrites: they are copied.
        self._copied: set[int] = set()
        self._running: tuple[ModuleCall, ModuleWatch] | None = None
        self._count = 0

    def begin_step(self) -> None:
        self._used.clear()
        self._count = 0
        self._scopes.begin_step()

    def carry_over(self, calls: Sequence[ModuleCall]) -> None:
        """Begin the step with ``calls`` of the last one, whose backward pass may come."""
        for number, call in enumerate(calls):
            call.number, call.age, call.micro_batch = number, call.age + 1, 0
            self._used[id(call.module)] = self._watch(call.module)
        self._count = len(calls)

    def is_transparent(self, module: nn.Module) -> bool:
        """Whether the calls that count are those of the modules inside. DDP exchanges buffers
        before, and gradients in the backward pass of what it returns; a module around it, such as
        that of Fabric, executed again, would do so, too. A method that runs in place of ``forward``
        is not there when the step is executed again. The modules inside compiled code have no
        calls of their own: that is not executed again, see ``exchanges_data``."""
        if is_ddp(module) or is_redirected(module):
            return True
        if not is_distributed():
            return False
        return type(module).__name__ != COMPILED and self._watch(module).holds_ddp

    def parameters(self) -> Iterator[torch.Tensor]:
        """The tensors that gradients of this step are accumulated in."""
        seen: set[int] = set()
        found = [each for watch in self._used.values() for each in watch.tree.parameters]
        for each in (*found, *self._known.leaves()):
            if id(each) not in seen:
                seen.add(id(each))
                yield each

    def owners(self, parameters: Iterable[torch.Tensor]) -> dict[str, nn.Module]:
        """The known modules by name that have some of ``parameters`` and were not called in this
        step; the largest, where one is part of another."""
        called = {id(each) for watch in self._used.values() for each in watch.tree.modules}
        wanted = {id(each) for each in parameters}
        found: dict[str, nn.Module] = {}
        watches = sorted(self._watches.values(), key=lambda each: -len(each.tree.modules))
        for watch in watches:
            module = watch.module()
            if module is None or id(module) in called:
                continue
            if wanted.isdisjoint(map(id, watch.tree.parameters)):
                continue
            called |= set(map(id, watch.tree.modules))
            found[self._scopes.name_of(module) or type(module).__name__] = module
        return found

    def begin(
        self, module: nn.Module, args: Any, kwargs: Any, frame: FrameType, micro_batch: int
    ) -> None:
        """``module`` is about to run."""
        self._running = None
        has_gradients = torch.is_grad_enabled() or _is_checkpointed(frame)
        if not has_gradients or torch.is_inference_mode_enabled():
            return
        watch = self._watch(module)
        if not watch.has_trained_weights and not _needs_gradient((args, kwargs)):
            return
        self._used[id(module)] = watch
        name = self._scopes.of_module(module, None, frame).name
        if watch.exchanges_data:
            self._add_reason(ReplayProblem("collective", name))
        keep = self._known.argument
        if id(module) in self._copied:
            keep = self._copied_argument
        call = ModuleCall(
            self._count,
            module,
            name,
            map_tree(args, torch.Tensor, keep),
            map_tree(kwargs, torch.Tensor, keep),
            take_random(with_python=not _is_of_torch(module)),
            autocast_states(),
            has_gradients,
            watch.before(),
            watch.weight_versions,
            micro_batch,
            line=line_of(frame),
        )
        self._count += 1
        self._running = (call, watch)

    def end(
        self,
        module: nn.Module,
        result: Any,
        error: BaseException | None,
        gradient_arrived: GradientArrived,
    ) -> ModuleCall | None:
        """The call, if it was recorded; ``gradient_arrived`` is called in backward passes."""
        if self._running is None:
            return None
        (call, watch), self._running = self._running, None
        call.error = error
        if error is not None:
            self._add_reason(ReplayProblem("call_failed", call.name, type(error).__name__))
            return call
        if not watch.after(call.state):
            self._add_reason(ReplayProblem("buffer_changed", call.name))
        if watch.weight_versions != call.weight_versions:
            self._add_reason(ReplayProblem("weights_changed", call.name))
        self.check_inputs(call)
        for path, tensor in outputs_of(result):
            output = CallOutput(path, self._known.result(tensor))
            if not torch.is_grad_enabled():  # A checkpoint attaches the graph.
                output.tensor.requires_grad = tensor.is_floating_point() or tensor.is_complex()
            call.outputs.append(output)
            if tensor.requires_grad:
                call.is_pending = True
                _notify(tensor, call, len(call.outputs) - 1, gradient_arrived)
        return call

    def drop(self) -> None:
        self._running = None

    def check_inputs(self, call: ModuleCall) -> None:
        """Copy the inputs of a module from the next step on if the program overwrites them."""
        for each in call.inputs:
            if not each.is_known and not each.requires_grad:
                self._copied.add(id(call.module))
                self._add_reason(ReplayProblem("input_changed", call.name))

    def _copied_argument(self, tensor: torch.Tensor) -> KeptTensor:
        kept = self._known.argument(tensor)
        if not kept.requires_grad and kept.copy is None:
            kept.copy = kept.alias.clone()
        return kept

    def _watch(self, module: nn.Module) -> ModuleWatch:
        found = self._watches.get(id(module))
        if found is None or found.module() is not module:
            found = self._watches[id(module)] = ModuleWatch.of(module)
            if len(self._watches) > 1000:  # Modules that a program builds in every step.
                dead = [key for key, each in self._watches.items() if each.module() is None]
                for key in dead:
                    del self._watches[key]
        return found


def line_of(frame: FrameType | None) -> tuple[CodeType, int] | None:
    """The line of the user's code that ``frame`` runs or was called by."""
    if frame is not None:
        _, frame = find_user_frame(frame)
    return None if frame is None else (frame.f_code, frame.f_lineno)


def _needs_gradient(tree: Any) -> bool:
    return any(each.requires_grad for each in tensors_in(tree))


def _is_of_torch(module: nn.Module) -> bool:
    """Whether ``module`` is one of torch's layers, which draw no numbers in Python."""
    return type(module).__module__.startswith("torch.nn.") and not module._modules


def _is_checkpointed(frame: FrameType) -> bool:
    """Whether this is the forward pass of a reentrant checkpoint, which runs without gradients."""
    checkpoint = sys.modules.get("torch.utils.checkpoint")
    if checkpoint is None:
        return False
    code = checkpoint.CheckpointFunction.forward.__code__
    return any(each.f_code is code for each in private.frames_from(frame))


def _notify(tensor: torch.Tensor, call: ModuleCall, number: int, arrived: GradientArrived) -> None:
    """Call ``arrived`` with the gradient of ``tensor``. The hook does not keep the call alive: a
    graph may outlive its step."""
    reference = weakref.ref(call)

    def hook(gradient: torch.Tensor) -> None:
        found = reference()
        if found is not None:
            with private.without_torch_functions():
                arrived(found, number, gradient)

    tensor.register_hook(hook)  # type: ignore[no-untyped-call]


def outputs_of(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The tensors of a result and where they are in it."""
    if isinstance(tree, torch.Tensor):
        yield path, tree
    elif isinstance(tree, dict):
        for key, each in tree.items():
            yield from outputs_of(each, (*path, key))
    elif isinstance(tree, (tuple, list)):
        for number, each in enumerate(tree):
            yield from outputs_of(each, (*path, number))
    elif is_dataclass(tree) and not isinstance(tree, type):
        for field in fields(tree):
            yield from outputs_of(getattr(tree, field.name, None), (*path, field.name))
