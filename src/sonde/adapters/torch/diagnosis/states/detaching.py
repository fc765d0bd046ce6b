"""Observes where the program takes a tensor out of its graph, and which parameters it depends on.

``detach()``, ``.data`` and ``torch.tensor()`` are observed in the first steps only; ``numpy()``
needs one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.losses.loss_graph import short_name
from sonde.adapters.torch.diagnosis.parameters import ParameterSignals
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.graph import Source
from sonde.core.patching import Patch, wrap

STEPS = range(1, 10)
"""The steps observed: after the first one all parameters have names."""
MOST_NODES = 4000
MOST_LINES = 64


@dataclass(slots=True, eq=False)
class Detachments:
    """Notes each line that takes a tensor out of its graph, as an event ``detach``."""

    recorder: EvidenceRecorder
    parameters: ParameterSignals
    _data: Patch | None = None
    _known: set[tuple[Source | None, str]] = field(default_factory=set)

    def install(self, undo: ExitStack) -> None:
        wrap(torch.Tensor, "detach", self._around_detach, undo)
        wrap(torch, "tensor", self._around_tensor, undo)
        original: Any = torch.Tensor.data
        self._data = Patch(torch.Tensor, "data", self._observed_data(original))
        undo.callback(self._data.restore)

    @shielded
    def step_ended(self) -> None:
        """``.data`` is replaced only in the steps observed, and not for a compiler."""
        if self._data is not None:
            if self.recorder.step in STEPS and not self.recorder.uses_compiler:
                self._data.install()
            else:
                self._data.restore()

    def _around_detach(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def detach(tensor: torch.Tensor) -> Any:
            if self.recorder.step in STEPS:
                self._taken(tensor, "detach")
            return original(tensor)

        return detach

    def _around_tensor(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def tensor(data: Any, *args: Any, **kwargs: Any) -> Any:
            if self.recorder.step in STEPS:
                given = data[:8] if isinstance(data, (list, tuple)) else [data]
                for each in given:
                    if isinstance(each, torch.Tensor):
                        self._taken(each, "tensor")
            return original(data, *args, **kwargs)

        return tensor

    def _observed_data(self, original: Any) -> property:
        def read(tensor: torch.Tensor) -> Any:
            if self.recorder.step in STEPS:
                self._taken(tensor, "data")
            return original.__get__(tensor)

        def write(tensor: torch.Tensor, value: Any) -> None:
            original.__set__(tensor, value)

        return property(read, write)

    @shielded
    def _taken(self, tensor: torch.Tensor, how: str) -> None:
        if tensor.grad_fn is None:
            return
        source = caller()
        if (source, how) in self._known or len(self._known) >= MOST_LINES:
            return
        self._known.add((source, how))
        names = " ".join(self._names_below(tensor.grad_fn))
        self.recorder.event("detach", source, how, parameters=names)

    def _names_below(self, start: Any) -> list[str]:
        """The parameters that a node of the graph was computed from."""
        waiting, seen = [start], {start}
        names: list[str] = []
        while waiting and len(seen) < MOST_NODES:
            node = waiting.pop()
            if short_name(node) == "AccumulateGrad":
                known = self.parameters.known.get(id(node.variable))
                names += [] if known is None else [known.name]
            for below, _ in node.next_functions:
                if below is not None and below not in seen:
                    seen.add(below)
                    waiting.append(below)
        return names
