"""A torch training as the debugger sees it."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.debugging.held_tensors import (
    HeldTensors,
    TorchHeld,
    TorchSnapshot,
)
from sonde.adapters.torch.debugging.loss import LossWatch
from sonde.adapters.torch.debugging.optimizers import OptimizerBook
from sonde.adapters.torch.debugging.ranks import outlive_launcher, watch_buffers, world_size
from sonde.adapters.torch.tensors.unusual_layouts import elements
from sonde.adapters.torch.tensors.view import TorchView, name_of
from sonde.capture.session import Subscription
from sonde.core.graph import OpNode
from sonde.core.sink import TensorView
from sonde.debugger import Terminated
from sonde.debugger.debugger import Debugger
from sonde.debugger.settings import DebuggerOptions
from sonde.watch.conditions import Memory
from sonde.wire.shapes import Metadata

if TYPE_CHECKING:
    from sonde.adapters.torch.adapter import TorchAdapter

_COLLECT_EVERY = 50
MANY_PASSES = 1000
"""Backward passes after which it is said that no step has ended."""
_NO_STEP = (
    "backward() was called {} times and no step has ended: the ops of all that are one step, which "
    "grows and grows. A step ends with an optimizer's step(); a loop without one calls "
    "sonde.step(), and is run with --step-by manual"
)


class TorchDebugging:
    """Follows a training (``listener.TrainingListener``) and shows it to a Debugger
    (``debugger.trainee.Trainee``). Used from the training thread, but for ``refresh``."""

    def __init__(
        self,
        options: DebuggerOptions,
        rank: int,
        report: Callable[[str], None],
        *,
        name: str,
        initial_step: int = 0,
    ) -> None:
        metadata = _metadata(options, rank)
        self._report = report
        self._adapter: TorchAdapter | None = None
        self.debugger = Debugger(
            options,
            metadata,
            self,
            name=name,
            report=report,
            initial_step=initial_step,
        )
        self._loss = LossWatch()
        self._optimizers = OptimizerBook()
        self._held = HeldTensors(self._optimizers)
        self._steps = 0
        self._passes = 0
        self._pid = os.getpid()
        self._world_size = metadata.world_size

    def subscriptions(self) -> list[Subscription]:
        return [self.debugger.subscription()]

    def join(self, adapter: TorchAdapter, undo: ExitStack) -> None:
        """Connect to the server and follow the training of ``adapter`` until ``undo`` is closed."""
        self._adapter = adapter
        self._held.follow(adapter)
        self.debugger.start()
        listener = adapter.listener
        self._loss.install(listener.backward_begins, listener.failed, undo)
        if self._world_size > 1:
            watch_buffers(listener.failed, undo)
        listener.set(self)

    def leave(self, error: BaseException | None) -> None:
        """Report the end of the program to the server; ``error`` is what ended it, if anything."""
        if os.getpid() != self._pid:
            return
        ended = error
        if isinstance(error, Exception) and self._adapter is not None:
            try:
                self._adapter.listener.failed(error)
            except Terminated as terminated:
                ended = terminated
        self.debugger.close(*_ending(ended), is_terminated=isinstance(ended, Terminated))
        if ended is not error and ended is not None:
            raise ended

    # -------------------------------------------------------- training listener

    def optimizer_begins(self, optimizer: torch.optim.Optimizer, *, has_closure: bool) -> None:
        if self.is_observed():
            self._held.learn_gradients(optimizer)
        self.debugger.before_update()
        if self._optimizers.begins(optimizer):
            self._held.optimizer_changes_weights()
            if not self._held.knows_all_of(optimizer):
                # The program may have replaced weights that were known.
                self._held.set_stale()
                self.debugger.watching.plan()
        self._loss.optimizer_begins()
        if not has_closure:
            self._show_gradients(optimizer)

    def optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        if self._loss.optimizer_left():
            # It computed the gradients itself, in a closure: they exist only now, and the network
            # may be known only now.
            if self.is_observed():
                self._held.learn_gradients(optimizer)
                self.debugger.watching.plan()
            self._show_gradients(optimizer)

    def backward_begins(self) -> None:
        self._passes += 1
        if self._passes == MANY_PASSES and not self._steps:
            text = _NO_STEP.format(self._passes)
            self._report(f"sonde: {text} [no-step-yet]")
            self.debugger.session.notice("no-step-yet", text)
        self._loss.keep_few()
        self.debugger.between_ops()

    def failed(self, error: Exception) -> None:
        """End like the others: a collective fails when another rank was ended a moment before."""
        if isinstance(error, RuntimeError) and self._world_size > 1:
            try:
                self.debugger.collective_failed()
            except Terminated as terminated:
                raise terminated from error

    def _show_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        if self.debugger.watching.needs_gradients:
            self.debugger.gradients_ready(self._held.names_of(optimizer))

    def step_ended(self) -> None:
        self._steps += 1
        # Modules become known as they run.
        if self.is_observed() or self._steps % _COLLECT_EVERY == 0:
            self._held.set_stale()
        optimizer = self._optimizers.name_of_step(self._held.by_id)
        self.debugger.step_ended(self._loss.take(), optimizer)
        self._optimizers.step_ended()

    # ---------------------------------------------------------------- trainee

    def refresh(self) -> None:
        if self._adapter is not None:
            self._adapter.refresh()

    def held(self) -> Sequence[TorchHeld]:
        return self._held.all()

    def unchanged_yet(self) -> Sequence[TorchHeld]:
        return self._held.unchanged_yet()

    def left_alone(self) -> Collection[str]:
        return self._held.left_alone()

    def nodes_so_far(self) -> tuple[OpNode, ...]:
        if not self.is_observed():
            return ()
        assert self._adapter is not None
        nodes: dict[str, OpNode] = {}
        for record in self._adapter.observer.last.path():
            for _, leaf, _ in record.leaves:
                nodes.setdefault(leaf.node.name, leaf.node)
            nodes.setdefault(record.node.name, record.node)
        return tuple(nodes.values())

    def place(self) -> int | None:
        if self._adapter is None or not self._adapter.is_observing:
            return None
        return max(self._adapter.observer.last.order, 0)

    def is_observed(self) -> bool:
        return self._adapter is not None and self._adapter.is_observing

    def unobserved(self) -> AbstractContextManager[None]:
        return private.unobserved()

    def memory(self, view: TensorView) -> Memory | str:
        assert isinstance(view, TorchView)
        on_host = view.on_host()
        if on_host is None:
            known = None if view.problem is None else elements(view.tensor)
            if known is None:
                return view.problem or f"{view.dtype} values have no order"
            plain, zeros = known
            found = self.memory(TorchView(plain, view.io, view.slot, None, None))
            return found if isinstance(found, str) else replace(found, zeros=zeros)
        tensor, _ = on_host
        strides = None if tensor.is_contiguous() else tuple(tensor.stride())
        shape = tuple(tensor.shape)
        return Memory(tensor.data_ptr(), name_of(tensor.dtype), shape, strides, tensor)

    def non_finite(self, view: TensorView) -> int | None:
        assert isinstance(view, TorchView)
        return view.non_finite() if view.has_countable_values else None

    def snapshot(self, view: TensorView) -> TorchSnapshot:
        assert isinstance(view, TorchView)
        return TorchSnapshot(view.tensor)

    def end(self) -> None:
        outlive_launcher()


def _ending(error: BaseException | None) -> tuple[int, str]:
    """The exit code of a program that ends with ``error``, and a line about it."""
    if error is None:
        return 0, ""
    if isinstance(error, SystemExit):
        code = error.code
        if code is None or isinstance(code, int):
            return code or 0, ""
        return 1, str(code)
    if isinstance(error, Terminated):
        return 130, "ended from the debugger"
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return 130 if isinstance(error, KeyboardInterrupt) else 1, text.splitlines()[0]


def _metadata(options: DebuggerOptions, rank: int) -> Metadata:
    import sonde

    device = "cpu"
    with suppress(RuntimeError):
        if torch.cuda.is_available():
            device = torch.cuda.get_device_name()
    return Metadata(
        host=socket.gethostname(),
        pid=os.getpid(),
        rank=rank,
        world_size=options.world_size or world_size(),
        device=device,
        framework="torch",
        framework_version=str(torch.__version__),
        sonde_version=sonde.__version__,
        python_version=platform.python_version(),
        script=options.script or sys.argv[0],
        arguments=options.arguments if options.script else tuple(sys.argv[1:]),
        working_directory=os.getcwd(),
        started=time.time(),
        extra={"threads": str(torch.get_num_threads())},
    )
