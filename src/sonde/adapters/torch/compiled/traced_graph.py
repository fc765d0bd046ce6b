"""Runs graphs of dynamo that a backend leaves unchanged: eager ops, without the user's frames.

The dispatch mode sees their ops, but not the module and the line that each op was traced from;
these are passed to it before the op runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from sonde.adapters.torch import private
from sonde.adapters.torch.compiled.graph import Modules, modules_of, sources_of
from sonde.adapters.torch.compiled.learning import TracedPlace

Tell = Callable[[TracedPlace | None], bool]
"""Takes where the next ops were traced, None at the end; returns False if no capture needs it."""


class TracedGraph:
    """Runs ``original``, the forward of ``module``; passes on where each op was traced."""

    def __init__(
        self, module: fx.GraphModule, original: Callable[..., Any], modules: Modules, tell: Tell
    ) -> None:
        self._original = original
        self._tell = tell
        self._places: list[TracedPlace] = []
        self._told = self._with_marks(module, modules)

    def __call__(self, *args: Any) -> Any:
        if not self._tell(None):
            return self._original(*args)
        try:
            return self._told(*args)
        finally:
            self._tell(None)

    def _mark(self, number: int) -> None:
        self._tell(self._places[number])

    def _with_marks(self, module: fx.GraphModule, modules: Modules) -> Callable[..., Any]:
        """``module`` with a mark before each op; parameters and constants are shared."""
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        graph.output(graph.graph_copy(module.graph, copies))
        for node, copy in copies.items():
            if node.op in ("call_function", "call_method", "call_module"):
                self._places.append(TracedPlace(modules_of(node, modules), sources_of(node)))
                with graph.inserting_before(copy):
                    graph.call_function(self._mark, (len(self._places) - 1,))
        forward: Callable[..., Any] = fx.GraphModule(module, graph).forward
        return forward


private.hide_from_compiler(TracedGraph.__call__)
