"""Observes hooks that are registered on modules whose compiled code has already run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable
from sonde.diagnosis.evidence import EvidenceEvent

_REGISTERING = ("register_forward_hook", "register_forward_pre_hook")


@dataclass(slots=True, eq=False)
class CompiledHooks:
    """Counts the calls of compiled modules, and of hooks registered after the first one."""

    recorder: EvidenceRecorder
    _calls: WeakTable[nn.Module, int] = field(default_factory=WeakTable)
    _late: list[tuple[EvidenceEvent, nn.Module, int]] = field(default_factory=list)

    def install(self, undo: ExitStack) -> None:
        wrap(OptimizedModule, "__call__", self._around_call, undo)
        wrap(nn.Module, "compile", functools.partial(self._around_compile, undo), undo)
        for name in _REGISTERING:
            wrap(nn.Module, name, self._around_register(name), undo)

    def _around_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            self._count(module)
            return original(module, *args, **kwargs)

        return call

    def _around_compile(self, undo: ExitStack, original: Callable[..., Any]) -> Callable[..., Any]:
        """``module.compile()``: the module itself keeps its compiled call."""

        def compile_in_place(module: Any, *args: Any, **kwargs: Any) -> None:
            original(module, *args, **kwargs)
            wrap(module, "_compiled_call_impl", functools.partial(self._counted, module), undo)

        return compile_in_place

    def _counted(self, module: nn.Module, compiled: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._count(module)
            return compiled(*args, **kwargs)

        return call

    def _count(self, module: nn.Module) -> None:
        if not torch.compiler.is_compiling():
            self._calls[module] = (self._calls.get(module) or 0) + 1

    def _around_register(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def register(module: nn.Module, hook: Any, *args: Any, **kwargs: Any) -> Any:
                event = self._registered(name, module)
                if event is not None:
                    hook = _counting(hook, event)
                return original(module, hook, *args, **kwargs)

            return register

        return make

    @shielded
    def _registered(self, name: str, module: nn.Module) -> EvidenceEvent | None:
        for compiled in list(self._calls):
            inner = compiled._orig_mod if isinstance(compiled, OptimizedModule) else compiled
            for path, each in inner.named_modules():
                if each is module:
                    subject = path or type(module).__name__
                    event = self.recorder.event("late-hook", caller(), subject, register=name)
                    if event is not None:
                        event.numbers["ran"] = 0
                        self._late.append((event, compiled, self._calls.get(compiled) or 0))
                    return event
        return None

    def finish(self) -> None:
        for event, compiled, before in self._late:
            event.numbers["calls"] = (self._calls.get(compiled) or 0) - before


def _counting(hook: Any, event: EvidenceEvent) -> Any:
    numbers = event.numbers

    @functools.wraps(hook)
    def count(*args: Any, **kwargs: Any) -> Any:
        numbers["ran"] = 1
        return hook(*args, **kwargs)

    return count
