"""A torch training as the debugger sees it."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import torch

from sonde.adapters.torch.debugging.failing_call import failing_call
from sonde.adapters.torch.debugging.loss import LossWatch
from sonde.adapters.torch.debugging.ranks import watch_buffers, world_size
from sonde.adapters.torch.debugging.trainee import TorchTrainee
from sonde.adapters.torch.debugging.weight_norms import WeightMeter
from sonde.debugger import Terminated
from sonde.debugger.debugger import Debugger
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.traceback_frames import traceback_frames
from sonde.wire.shapes import Metadata

if TYPE_CHECKING:
    from sonde.adapters.torch.adapter import TorchAdapter

_COLLECT_EVERY = 50


class TorchDebugging:
    """Follows a training for a Debugger: steps, optimizers, losses, failures.

    Its methods are called by ``listener.ShieldedListener``, in the training thread, and may block.
    """

    def __init__(
        self,
        options: DebuggerOptions,
        rank: int,
        report: Callable[[str], None],
        *,
        name: str,
        initial_step: int = 0,
    ) -> None:
        metadata = process_metadata(
            rank, options.world_size or world_size(), options.script, options.arguments
        )
        self._adapter: TorchAdapter | None = None
        self._trainee = TorchTrainee()
        self._held = self._trainee.tensors
        self._optimizers = self._held.optimizers
        self.debugger = Debugger(
            options,
            metadata,
            self._trainee,
            name=name,
            report=report,
            initial_step=initial_step,
        )
        self._loss = LossWatch()
        self._norms = WeightMeter(self.debugger)
        self._steps = 0
        self._pid = os.getpid()
        self._world_size = metadata.world_size

    def join(self, adapter: TorchAdapter, undo: ExitStack) -> None:
        """Connect to the server and follow the training of ``adapter`` until ``undo`` is closed."""
        self._adapter = adapter
        self._trainee.follow(adapter)
        self.debugger.start()
        listener = adapter.listener
        self._loss.install(listener.backward_begins, listener.failed, undo)
        if self._world_size > 1:
            watch_buffers(listener.failed, undo)
        listener.set(self)

    def leave(self, _: object, error: BaseException | None, __: object) -> None:
        """Report the end of the program to the server; ``error`` is what ended it, if anything.

        Takes the arguments of a context manager's ``__exit__``.
        """
        if os.getpid() != self._pid:
            return
        ended = error
        if isinstance(error, Exception) and self._adapter is not None:
            try:
                self._adapter.listener.failed(error)
            except Terminated as terminated:
                ended = terminated
        is_terminated = isinstance(ended, Terminated)
        frames = () if is_terminated else traceback_frames(ended)
        failed = None if is_terminated else failing_call(ended)
        self.debugger.close(
            *_ending(ended), is_terminated=is_terminated, frames=frames, failed=failed
        )
        if ended is not error and ended is not None:
            raise ended

    # -------------------------------------------------------- training listener

    def optimizer_begins(self, optimizer: torch.optim.Optimizer, *, has_closure: bool) -> None:
        """``has_closure``: the optimizer computes the gradients itself, by calling a closure."""
        if self._trainee.is_observed():
            self._held.learn_gradients(optimizer)
            self._held.note_versions(optimizer)
        self.debugger.before_update()
        if self._optimizers.begins(optimizer):
            self._held.optimizer_changes_weights()
            if not self._held.knows_all_of(optimizer):
                # The program may have replaced weights that were known.
                self._held.set_stale()
                self.debugger.watching.plan()
        self._loss.optimizer_begins(optimizer)
        if not has_closure:
            self._show_gradients(optimizer)
            self._norms.before_update(optimizer, self._held.by_id)

    def optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        self._norms.after_update(optimizer)
        if self._loss.optimizer_left():
            # It computed the gradients itself, in a closure: they exist only now, and the network
            # may be known only now.
            if self._trainee.is_observed():
                self._held.learn_gradients(optimizer)
                self.debugger.watching.plan()
            self._show_gradients(optimizer)

    def backward_begins(self) -> None:
        self._loss.keep_few()
        self.debugger.between_ops()

    def failed(self, error: Exception) -> None:
        """A backward pass, an exchange of buffers or the program itself raised ``error``.

        A collective fails when another rank was ended a moment before: this rank then ends, too.
        """
        if isinstance(error, RuntimeError) and self._world_size > 1:
            try:
                self.debugger.collective_failed()
            except Terminated as terminated:
                raise terminated from error

    def _show_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        if self.debugger.watching.needs_gradients:
            self.debugger.gradients_ready(self._held.names_of(optimizer))

    def step_ended(self) -> None:
        """A step has ended; observation of the next one has not begun."""
        self._steps += 1
        self._held.forget_versions()
        # Modules become known as they run.
        if self._trainee.is_observed() or self._steps % _COLLECT_EVERY == 0:
            self._held.set_stale()
        optimizer = self._optimizers.name_of_step(self._held.by_id)
        self.debugger.step_ended(self._loss.take(), optimizer)
        self._optimizers.step_ended()


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


def process_metadata(
    rank: int, world_size: int, script: str = "", arguments: tuple[str, ...] = ()
) -> Metadata:
    """The facts about this process; without a ``script`` those of ``sys.argv``."""
    import sonde

    device = "cpu"
    with suppress(RuntimeError):
        if torch.cuda.is_available():
            device = torch.cuda.get_device_name()
    return Metadata(
        host=socket.gethostname(),
        pid=os.getpid(),
        rank=rank,
        world_size=world_size,
        device=device,
        framework="torch",
        framework_version=str(torch.__version__),
        sonde_version=sonde.__version__,
        python_version=platform.python_version(),
        script=script or sys.argv[0],
        arguments=arguments if script else tuple(sys.argv[1:]),
        working_directory=os.getcwd(),
        started=time.time(),
        extra={"threads": str(torch.get_num_threads())},
    )
