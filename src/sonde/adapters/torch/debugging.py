"""A torch training as the debugger sees it."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.debugging_loss import LossWatch
from sonde.adapters.torch.debugging_optimizers import OptimizerBook
from sonde.adapters.torch.debugging_ranks import outlive_launcher, watch_buffers, world_size
from sonde.adapters.torch.leaves import storage_key
from sonde.adapters.torch.odd_layouts import elements
from sonde.adapters.torch.scopes import ROOT
from sonde.adapters.torch.views import TorchView, name_of
from sonde.adapters.torch.visits import seconds_of_visit
from sonde.capture.session import Subscription
from sonde.conditions import Memory
from sonde.core.graph import OpNode
from sonde.core.sink import TensorView
from sonde.debugger.debugger import Debugger
from sonde.debugger.learning import LEARNED_STEPS
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.sinks import subscription_of
from sonde.debugger.terminated import Terminated
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


class TorchHeld:
    """See ``debugger.trainee.Held``; holds the tensor weakly."""

    __slots__ = ("_tensor", "gradient_maker", "name", "scope")

    def __init__(self, name: str, scope: str, tensor: torch.Tensor) -> None:
        self.name = name
        self.scope = scope
        self._tensor = weakref.ref(tensor)
        self.gradient_maker: tuple[str, int] | None = None

    @property
    def tensor(self) -> torch.Tensor | None:
        tensor = self._tensor()
        if tensor is not None:
            private.fix_weak(tensor)
        return tensor

    @property
    def is_weight(self) -> bool:
        tensor = self._tensor()
        return tensor is not None and tensor.requires_grad

    def value(self) -> TensorView:
        tensor = self.tensor
        return TorchView(_GONE if tensor is None else tensor, "output", 0, None, None)

    def gradient(self) -> TensorView | None:
        tensor = self.tensor
        gradient = tensor.grad if tensor is not None and tensor.is_leaf else None
        return None if gradient is None else TorchView(gradient, "output", 0, None, None)


_GONE = torch.empty(0)


class TorchSnapshot:
    """See ``debugger.trainee.Snapshot``."""

    __slots__ = ("_copy",)

    def __init__(self, tensor: torch.Tensor) -> None:
        # What is made in inference mode cannot be written to outside of it.
        with torch.inference_mode(False):
            self._copy = tensor.detach().clone()

    @property
    def nbytes(self) -> int:
        return self._copy.numel() * self._copy.element_size()

    @property
    def view(self) -> TensorView:
        return TorchView(self._copy, "output", 0, None, None)

    def renew(self, view: TensorView) -> bool:
        assert isinstance(view, TorchView)
        tensor = view.tensor.detach()
        same = tensor.shape == self._copy.shape and tensor.dtype == self._copy.dtype
        if same:
            self._copy.copy_(tensor)
        return same


class TorchDebugging:
    """Goes along with a training (``companion.Companion``) and shows it to a Debugger
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
        self._visit_seconds: float | None = None
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
        # What no optimizer has changed yet; None: to be found out.
        self._unchanged: tuple[TorchHeld, ...] | None = None
        self._held: list[TorchHeld] = []
        self._by_id: dict[int, TorchHeld] = {}
        self._steps = 0
        self._passes = 0
        self._is_stale = True
        self._pid = os.getpid()
        self._world_size = metadata.world_size

    def subscriptions(self) -> list[Subscription]:
        return [subscription_of(self.debugger)]

    def join(self, adapter: TorchAdapter, undo: ExitStack) -> None:
        """Begin: connect to the server and go along with the training of ``adapter``."""
        self._adapter = adapter
        adapter.observer.tables.counts_time = 1
        self.debugger.start()
        company = adapter.company
        self._loss.install(company.backward_begins, company.failed, undo)
        if self._world_size > 1:
            watch_buffers(company.failed, undo)
        company.companion = self

    def leave(self, error: BaseException | None) -> None:
        """The program ends, with ``error`` if one ended it."""
        if os.getpid() != self._pid:
            return
        ended = error
        if isinstance(error, Exception) and self._adapter is not None:
            try:
                self._adapter.company.failed(error)
            except Terminated as terminated:
                ended = terminated
        self.debugger.close(*_ending(ended))
        if ended is not error and ended is not None:
            raise ended

    # -------------------------------------------------------------- companion

    def optimizer_begins(self, optimizer: torch.optim.Optimizer, *, has_closure: bool) -> None:
        if self.is_observed():
            self._learn_gradients(optimizer)
        self.debugger.before_update()
        if self._optimizers.begins(optimizer):
            self._unchanged = None
            if not self._knows_all_of(optimizer):
                # The program may have put other weights in the place of those that were known.
                self._is_stale = True
                self.debugger.watching.plan()
        self._loss.optimizer_begins()
        if not has_closure:
            self._show_gradients(optimizer)

    def _knows_all_of(self, optimizer: torch.optim.Optimizer) -> bool:
        parameters = (each for group in optimizer.param_groups for each in group["params"])
        held = ((self._by_id.get(id(parameter)), parameter) for parameter in parameters)
        return all(known is not None and known.tensor is parameter for known, parameter in held)

    def optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        if self._loss.optimizer_left():
            # It made the gradients itself, with a closure: only now they are there, and maybe the
            # network is known only now.
            if self.is_observed():
                self._learn_gradients(optimizer)
                self.debugger.watching.plan()
            self._show_gradients(optimizer)

    def backward_begins(self) -> None:
        self._passes += 1
        if self._passes == MANY_PASSES and not self._steps:
            text = _NO_STEP.format(self._passes)
            self._report(f"sonde: {text} [no-step-yet]")
            self.debugger.talk.notice("no-step-yet", text)
        self._loss.keep_few()
        self.debugger.passes_by()

    def failed(self, error: Exception) -> None:
        """A collective fails where another rank was ended a moment before: this one ends alike."""
        if isinstance(error, RuntimeError) and self._world_size > 1:
            try:
                self.debugger.others_failed()
            except Terminated as terminated:
                raise terminated from error

    def _show_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        if self.debugger.watching.needs_gradients:
            parameters = [each for group in optimizer.param_groups for each in group["params"]]
            held = (self._by_id.get(id(parameter)) for parameter in parameters)
            self.debugger.gradients_ready([each.name for each in held if each is not None])

    def step_ended(self) -> None:
        self._steps += 1
        # Modules become known as they run.
        if self.is_observed() or self._steps % _COLLECT_EVERY == 0:
            self._is_stale = True
        self._measure_visits()
        optimizer = self._optimizers.name_of_step(self._by_id)
        self.debugger.step_passed(self._loss.take(), optimizer)
        self._optimizers.step_ended()

    def _measure_visits(self) -> None:
        """Once, when steps are observed for more than to learn them."""
        if self._visit_seconds is not None or private.is_profiling():
            return  # A profiler would record it, too; it does not run for ever.
        if self.is_observed() and self._steps > LEARNED_STEPS:
            assert self._adapter is not None
            self._visit_seconds = seconds_of_visit()
            self._adapter.observer.tables.visits = 0  # They count from here on.

    def _learn_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        """Which op of this step made the gradient of which parameter, and what parameters that no
        module holds are called."""
        assert self._adapter is not None
        tables = self._adapter.observer.tables
        self._collect()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                held = self._by_id.get(id(parameter))
                if held is None:
                    entry = tables.entry(storage_key(parameter))
                    leaf = None if not entry else entry[0].leaf
                    if leaf is None:
                        continue
                    held = TorchHeld(leaf.node.name, leaf.node.scope, parameter)
                    self._held.append(held)
                    self._by_id[id(parameter)] = held
                if parameter.grad is not None:
                    entry = tables.entry(storage_key(parameter.grad))
                    if entry and entry[0].leaf is None:
                        held.gradient_maker = (entry[0].producer.name, entry[0].slot)

    # ---------------------------------------------------------------- trainee

    def refresh(self) -> None:
        if self._adapter is not None:
            self._adapter.refresh()

    def held(self) -> Sequence[TorchHeld]:
        if self._is_stale:
            self._collect()
        return [each for each in self._held if each.tensor is not None]

    def unchanged_yet(self) -> Sequence[TorchHeld]:
        if self._unchanged is None or self._is_stale:
            held = self.held()
            changed = self._optimizers.changed()
            self._unchanged = tuple(each for each in held if id(each.tensor) not in changed)
        return self._unchanged

    def left_alone(self) -> Collection[str]:
        self._optimizers.search(len(self._by_id))
        known = (self._by_id.get(number) for number in self._optimizers.left_alone())
        return {held.name for held in known if held is not None}

    def _collect(self) -> None:
        """What the networks known now hold; others stay as they are known."""
        if self._adapter is None:
            return
        known = {held.name: held for held in self._held}
        fresh: dict[int, TorchHeld] = {}
        for name, scope, tensor, kind in self._adapter.observer.learner.leaves.held():
            held = known.pop(name, None)
            if held is None or held.tensor is not tensor:
                held = TorchHeld(name, scope, tensor)
            if kind == "parameter":
                fresh.setdefault(id(tensor), held)
        for name, tensor in self._adapter.observer.learner.leaves.updated():
            if id(tensor) not in fresh and name not in known:
                fresh[id(tensor)] = TorchHeld(name, ROOT, tensor)
        for held in known.values():
            tensor_left = held.tensor
            if tensor_left is not None:
                fresh.setdefault(id(tensor_left), held)
        if fresh.keys() != self._by_id.keys():
            self._unchanged = None
        self._by_id = fresh
        self._held = list(fresh.values())
        self._is_stale = not self._held

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

    def own_seconds(self) -> float:
        if self._adapter is None:
            return 0.0
        tables = self._adapter.observer.tables
        shown = 0.0 if self._visit_seconds is None else tables.visits * self._visit_seconds
        return float(tables.own_seconds() + shown)

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
    """The exit code a program that ends so has, and a line about it."""
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
