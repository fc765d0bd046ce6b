"""Traces the forward pass of a network with fake tensors, and names its ops as if they ran.

Only for a copy of the training process that ends afterwards: this changes modules, hooks and tables
of its process.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from sonde.adapters.torch import private
from sonde.adapters.torch.adapter import TorchAdapter
from sonde.adapters.torch.compiled.graph import sources_of
from sonde.adapters.torch.debugging.held_tensors import TorchHeld
from sonde.adapters.torch.eager.naming.scope_stack import outermost_call
from sonde.adapters.torch.eager.naming.scopes import ROOT
from sonde.adapters.torch.eager.naming.source_lines import find_user_frame, joined_sources, stack_of
from sonde.adapters.torch.eager.naming.wrappers import unwrap
from sonde.adapters.torch.eager.op_schema import attributes_of, is_bookkeeping, op_info, tensors_in
from sonde.adapters.torch.eager.op_tree import StepInput
from sonde.adapters.torch.eager.step_inputs import spec_of, storage_key
from sonde.core.graph import LEAF_TYPES, Edge, Kind, OpNode, Source, TensorSpec
from sonde.core.patching import restore_all
from sonde.debugger.trainee import ForwardTrace

_MODULE = re.compile(r"__dict__\['_modules'\]\['(\w+)'\]")
"""How the tracer writes a module that it reached past ``getattr``."""
_ADDED = ("_assert", "lift_fresh", "sym_")
"""How ops begin that the tracer adds, and that do not run in the training."""


@dataclass(slots=True, eq=False)
class NetworkTracer:
    """The network that is to be traced, its arguments, and the names of its tensors.

    ``leaves``: the nodes of parameters and buffers by their paths in the network; ``inputs``: the
    nodes of the tensors among the arguments. ``outer``: the lines that called the network.
    """

    _network: nn.Module
    _arguments: tuple[Any, ...]
    _keywords: dict[str, Any]
    _scopes: Mapping[str, str]
    _leaves: Mapping[str, OpNode]
    _inputs: Sequence[OpNode]
    _outer: tuple[Source, ...]
    _context: AbstractContextManager[Any]

    @classmethod
    def at(
        cls, adapter: TorchAdapter, held: Mapping[int, TorchHeld], frame: FrameType
    ) -> NetworkTracer | None:
        """The tracer of the outermost module that runs in ``frame`` or in one that called it."""
        call = outermost_call(frame)
        if call is None:
            return None
        network = unwrap(call[0])
        with private.unobserved():
            inputs = list(_input_nodes(adapter, (call[1], call[2]), frame))
            leaves = dict(_leaves(network, held))
            context = _autocast(network)
        scopes = {
            path: adapter.scope_name(module) or ROOT for path, module in network.named_modules()
        }
        outer = stack_of(find_user_frame(_caller(frame, call[0]))[1])
        _forget_hooks(network)
        return cls(network, tuple(call[1]), dict(call[2]), scopes, leaves, inputs, outer, context)

    def trace(self) -> ForwardTrace:
        """The ops of the forward pass. Called in a thread without modes."""
        torch.set_num_threads(1)  # Threads of the copied process do not exist here.
        with self._context:
            program = torch.export.export(
                self._network, self._arguments, self._keywords, strict=True
            )
            names = self._placeholders(program)
            recorder = _Recorder(self._scopes[""])
            values: list[Any] = []
            mode: Any = None
            for node in program.graph_module.graph.find_nodes(op="placeholder"):
                value = node.meta.get("val")
                if isinstance(value, torch.Tensor):
                    mode = getattr(value, "fake_mode", mode)
                    recorder.add_leaf(value, names.get(node.name))
                values.append(value)
            with mode if mode is not None else nullcontext(), recorder:
                _Replay(program.graph_module, recorder, self._scopes, self._outer).run(*values)
        return ForwardTrace(self._scopes[""], tuple(recorder.nodes))

    def _placeholders(self, program: Any) -> dict[str, OpNode]:
        """The leaves of the graph by the names that the tracer gave them."""
        signature = program.graph_signature
        paths = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        found = {name: self._leaves[path] for name, path in paths.items() if path in self._leaves}
        users = [name for name in signature.user_inputs if isinstance(name, str)]
        tensors = {
            node.name
            for node in program.graph_module.graph.find_nodes(op="placeholder")
            if isinstance(node.meta.get("val"), torch.Tensor)
        }
        given = [name for name in users if name in tensors]
        if len(given) == len(self._inputs):
            found.update(zip(given, self._inputs, strict=True))
        return found


class _Replay(fx.Interpreter):
    """Runs a traced graph on fake tensors, and tells ``recorder`` where each op was traced."""

    def __init__(
        self,
        module: Any,
        recorder: _Recorder,
        scopes: Mapping[str, str],
        outer: tuple[Source, ...],
    ) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._recorder = recorder
        self._scopes = scopes
        self._outer = outer

    def run_node(self, n: fx.Node) -> Any:
        if n.op == "call_module":  # Checks of the arguments.
            return None
        stack = list((n.meta.get("nn_module_stack") or {}).values())
        path = _MODULE.sub(r"\1", str(stack[-1][0]).partition("@")[0]) if stack else ""
        scope = self._scopes.get(path, self._scopes[""])
        self._recorder.enter(scope, joined_sources(sources_of(n), self._outer))
        return super().run_node(n)


class _Recorder(private.TorchDispatchMode):  # type: ignore[misc]
    """Names the ops that run, and their edges."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.nodes: list[OpNode] = []
        self._scope = scope
        self._sources: tuple[Source, ...] = ()
        self._counts: Counter[tuple[str, str]] = Counter()
        # By the id of a tensor, which is kept so that no other gets its id.
        self._leaves: dict[int, tuple[torch.Tensor, OpNode]] = {}
        self._made: dict[int, tuple[torch.Tensor, str, int]] = {}

    def enter(self, scope: str, sources: tuple[Source, ...]) -> None:
        """The ops that run next were traced in ``scope``."""
        self._scope, self._sources = scope, sources

    def add_leaf(self, tensor: torch.Tensor, node: OpNode | None) -> None:
        """``tensor`` enters the step from outside."""
        if node is None:
            number = self._counts[("", "constant")]
            self._counts[("", "constant")] += 1
            node = leaf_node(f"constant-{number}", "constant", ROOT, spec_of(tensor))
        self._leaves[id(tensor)] = (tensor, node)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = op_info(func).type
        if not is_bookkeeping(func) and not name.startswith(_ADDED):
            self._record(func, name, args, kwargs or {}, result)
        return result

    def _record(self, func: Any, name: str, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        inputs = tuple(self._edge(each) for each in tensors_in((*args, *kwargs.values())))
        number = self._counts[(self._scope, name)]
        self._counts[(self._scope, name)] += 1
        results = list(tensors_in(result))
        node = OpNode(
            name=f"{self._scope}/{name}-op{number}",
            type=name,
            scope=self._scope,
            phase="forward",
            inputs=inputs,
            outputs=tuple(map(spec_of, results)),
            attributes=attributes_of(op_info(func), args, kwargs),
            sources=self._sources,
        )
        self.nodes.append(node)
        for slot, tensor in enumerate(results):
            self._made[id(tensor)] = (tensor, node.name, slot)

    def _edge(self, tensor: torch.Tensor) -> Edge:
        made = self._made.get(id(tensor))
        if made is not None:
            return Edge(made[1], made[2], spec_of(tensor))
        leaf = self._leaves.get(id(tensor))
        if leaf is None:
            return Edge(None, 0, spec_of(tensor))
        self.nodes.append(leaf[1])
        self._made[id(tensor)] = (tensor, leaf[1].name, 0)
        return Edge(leaf[1].name, 0, spec_of(tensor))


def leaf_node(name: str, kind: Kind, scope: str, spec: TensorSpec) -> OpNode:
    return OpNode(
        name=name,
        type=LEAF_TYPES[kind],
        scope=scope,
        phase="forward",
        kind=kind,
        outputs=(spec,),
    )


def _leaves(network: nn.Module, held: Mapping[int, TorchHeld]) -> Iterator[tuple[str, OpNode]]:
    """The nodes of parameters and buffers, by their paths in the network."""
    everything = (
        *network.named_parameters(remove_duplicate=False),
        *network.named_buffers(remove_duplicate=False),
    )
    for path, tensor in everything:
        known = held.get(id(tensor))
        if known is not None:
            yield path, leaf_node(known.name, "parameter", known.scope, spec_of(tensor))


def _input_nodes(adapter: TorchAdapter, arguments: Any, frame: FrameType) -> Iterator[OpNode]:
    """The nodes of the tensors among the arguments, named as if the first op read them."""
    used: set[StepInput] = set()
    leaves = adapter.observer.inputs.leaves
    for value in pytree.tree_leaves(arguments):
        if isinstance(value, torch.Tensor):
            leaf = leaves.leaf_for(value, storage_key(value), frame, used.__contains__)
            used.add(leaf)
            yield replace(leaf.node, outputs=(spec_of(value),))


def _caller(frame: FrameType, network: nn.Module) -> FrameType:
    """The frame that called ``network``."""
    found = frame
    for each in private.frames_from(frame):
        if each.f_locals.get("self") is network and each.f_code.co_name == "_call_impl":
            found = each
    return found


def _autocast(network: nn.Module) -> AbstractContextManager[Any]:
    """The autocast context that the program has entered, if it has; while an op is dispatched torch
    does not say so itself."""
    nesting = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    if nesting <= 1:
        return nullcontext()
    device = next((each.device.type for each in network.parameters()), "cpu")
    return torch.autocast(device, torch.get_autocast_dtype(device))


def _forget_hooks(network: nn.Module) -> None:
    """Leave out what is not the network's own computation: Sonde's hooks and patches, and
    compiled calls."""
    restore_all()
    for hooks in private.module_hooks():
        hooks.clear()
    for module in network.modules():
        module.__dict__["_compiled_call_impl"] = None
