"""Finds what a program compiles, and records one call of each graph in the wanted step.

``torch.compile`` is intercepted, and the program's compiled graphs are recorded. In a program that
compiles nothing, the outermost trained modules are compiled here, for one call. The program runs
the graphs eagerly, or with its own backend if it continues after the check.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import fx, nn

from sonde.adapters.torch.compile_check import private
from sonde.adapters.torch.compile_check.records import (
    Ambient,
    GraphCall,
    GraphCompiler,
    eager_function,
    kept,
)
from sonde.core.patching import Patch, wrap


class CompileWatch:
    """Records the calls of compiled graphs while ``is_recording``; used from one thread."""

    def __init__(self, *, runs_compiled: bool) -> None:
        self.is_recording = False
        self.records: list[GraphCall] = []
        self._runs_compiled = runs_compiled
        self._compiles_itself = False
        self._is_inside = False
        self._graph_count = 0
        self._seen: set[int] = set()
        self._modules: set[int] = set()
        self._compile = torch.compile
        self._call = Patch(nn.Module, "__call__", self._make_call(nn.Module.__call__))

    def forget(self) -> None:
        """Drop what was recorded."""
        self.records = []
        self._seen.clear()

    @contextmanager
    def attached(self) -> Iterator[None]:
        with ExitStack() as undo:
            wrap(torch, "compile", self._make_compile, undo)
            undo.callback(self._call.restore)
            self._call.install()
            yield

    # ------------------------------------------------------------ what the program compiles

    def _make_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(
            model: Any = None,
            *,
            backend: Any = "inductor",
            mode: str | None = None,
            options: Any = None,
            **more: Any,
        ) -> Any:
            self._compiles_itself = True
            # The compiler traces ``Module.__call__``: it must find torch's own code there.
            self._call.restore()
            if model is None:
                return lambda function: compile(
                    function, backend=backend, mode=mode, options=options, **more
                )
            backend = "inductor" if backend is None else backend
            function = private.backend_function(backend, mode, options)
            name = _name_of(model)
            return original(model, backend=self._noting(name, backend, function), **more)

        return compile

    def _noting(self, name: str, backend: Any, function: GraphCompiler) -> GraphCompiler:
        """A backend that records calls of its graphs."""

        def note_graph(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            pristine = copy.deepcopy(graph) if self._runs_compiled else graph
            run = function(graph, inputs) if self._runs_compiled else eager_function(graph)
            number = self._graph_count
            self._graph_count += 1

            def call(*values: Any) -> Any:
                if not self.is_recording or number in self._seen or not torch.is_grad_enabled():
                    return run(*values)
                self._seen.add(number)
                record = GraphCall(
                    name=name,
                    backend=private.backend_name(backend),
                    graph=pristine,
                    compile=function,
                    inputs=[kept(value) for value in values],
                    ambient=Ambient.now(_devices(values)),
                    random_state=torch.get_rng_state(),
                )
                outputs = run(*values)
                record.watch(outputs)
                self.records.append(record)
                return outputs

            return call

        return note_graph

    # ------------------------------------------------------------ what it does not

    def _make_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not self._wants(module):
                return original(module, *args, **kwargs)
            self._modules.add(id(module))
            function = private.backend_function("inductor", None, None)
            backend = self._noting(_name_of(module), "inductor", function)
            self._is_inside = True
            self._call.restore()
            try:
                return self._compile(module, backend=backend)(*args, **kwargs)
            finally:
                self._is_inside = False
                self._call.install()

        return call

    def _wants(self, module: nn.Module) -> bool:
        return (
            self.is_recording
            and not self._is_inside
            and not self._compiles_itself
            and id(module) not in self._modules
            and torch.is_grad_enabled()
            and not torch.compiler.is_compiling()
            and any(parameter.requires_grad for parameter in module.parameters())
        )


def _devices(values: Sequence[Any]) -> set[str]:
    return {value.device.type for value in values if isinstance(value, torch.Tensor)}


def _name_of(target: Any) -> str:
    owner = getattr(target, "__self__", None)
    if isinstance(owner, nn.Module):
        return type(owner).__name__
    if isinstance(target, nn.Module):
        return type(target).__name__
    return str(getattr(target, "__qualname__", type(target).__name__))
