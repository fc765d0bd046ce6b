"""Graphs of dynamo that a backend runs as they are: ops of eager mode, without the user's frames.

The dispatch mode sees their ops; what it cannot see, the module and the line each op was traced
from, is told to it before the op runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from sonde.adapters.torch import private
from sonde.adapters.torch.aot_graph import Modules, modules_of, sources_of
from sonde.adapters.torch.graph_learning import Place

Tell = Callable[[Place | None], bool]
"""Where the ops come from that run next, None at the end; False: nobody wants to know."""


class TracedGraph:
    """Runs ``original``, the forward of ``module``; tells of each op where it comes from."""

    def __init__(
        self, module: fx.GraphModule, original: Callable[..., Any], modules: Modules, tell: Tell
    ) -> None:
        self._original = original
        self._tell = tell
        self._places: list[Place] = []
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
                self._places.append(Place(modules_of(node, modules), sources_of(node)))
                with graph.inserting_before(copy):
                    graph.call_function(self._mark, (len(self._places) - 1,))
        forward: Callable[..., Any] = fx.GraphModule(module, graph).forward
        return forward


private.hide_from_compiler(TracedGraph.__call__)
