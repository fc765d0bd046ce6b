"""A torch training as the debugger sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from torch.nn.parameter import is_lazy

from sonde.adapters.torch import private
from sonde.adapters.torch.debugging.forward_trace import start_trace
from sonde.adapters.torch.debugging.held_tensors import HeldTensors, TorchHeld, TorchSnapshot
from sonde.adapters.torch.debugging.ranks import outlive_launcher
from sonde.adapters.torch.tensors.unusual_layouts import elements
from sonde.adapters.torch.tensors.view import TorchView, name_of
from sonde.core.graph import OpNode
from sonde.core.sink import TensorView
from sonde.debugger.trainee import ForwardTrace, ModuleScope
from sonde.watch.conditions import Memory

if TYPE_CHECKING:
    from sonde.adapters.torch.adapter import TorchAdapter


class TorchTrainee:
    """See ``debugger.trainee.Trainee``. Only ``refresh`` may be called from other threads."""

    def __init__(self) -> None:
        self._adapter: TorchAdapter | None = None
        self.tensors = HeldTensors()

    def follow(self, adapter: TorchAdapter) -> None:
        """Show what ``adapter`` observes."""
        self._adapter = adapter
        self.tensors.follow(adapter)

    def refresh(self) -> None:
        if self._adapter is not None:
            self._adapter.refresh()

    def held(self) -> Sequence[TorchHeld]:
        return self.tensors.all()

    def modules(self) -> Sequence[ModuleScope]:
        if self._adapter is None:
            return ()
        known = self._adapter.innermost_modules()
        return [ModuleScope(scope, type(module).__name__) for scope, module in known]

    def trace_forward(self, deliver: Callable[[ForwardTrace], None]) -> Callable[[], None]:
        if self._adapter is None:
            return lambda: None
        return start_trace(self._adapter, self.tensors.by_id, deliver)

    def is_updated(self, name: str) -> bool:
        return self.tensors.is_updated(name)

    def unchanged_yet(self) -> Sequence[TorchHeld]:
        return self.tensors.unchanged_yet()

    def left_alone(self) -> Collection[str]:
        return self.tensors.left_alone()

    def excused(self, nodes: Sequence[OpNode]) -> Collection[str]:
        return self.tensors.excused(nodes)

    def nodes_so_far(self) -> tuple[OpNode, ...]:
        if self._adapter is None or not self._adapter.is_observing:
            return ()
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
        if is_lazy(view.tensor):
            return view.problem or ""
        on_host = view.on_host()
        if on_host is None:
            known = None if view.problem is None else elements(view.tensor)
            if known is None:
                return view.problem or f"{view.dtype} values have no order"
            plain, zeros = known
            found = self.memory(TorchView(plain, view.io, view.slot))
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
