"""A network as a TensorBoard graph, without running it.

``torch.export`` traces a copy of the modules that shares their tensors, with fake tensors: nothing
is computed, no weight, buffer, attribute, hook or random state of the network is touched. A network
it cannot trace is drawn as the tree of its modules.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sonde.summary.private import map_tensors
from sonde.summary.tensorboard_format import (
    AttrValue,
    GraphDef,
    NodeDef,
    TensorShapeProto,
    VersionDef,
)

_log = logging.getLogger("sonde.summary")

LABEL_NAMES = ("label", "labels", "target", "targets")
HOOK_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def network_graph(network: nn.Module, element: Any) -> tuple[Any, str]:
    """The graph, and the kind of its nodes: ``operators`` or ``modules``.

    ``element`` is a batch; the network is called with everything but the label.
    """
    network = _unwrapped(network)
    for arguments, keywords in _calls(element):
        try:
            return _operators(network, arguments, keywords), "operators"
        except Exception as error:  # tracing runs the user's code, which may fail in any way
            _log.info("the network could not be traced for its graph: %s", error)
    return _modules(network), "modules"


def _calls(element: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Possible arguments of the network for this batch, the likeliest first."""
    if isinstance(element, Mapping):
        yield (), {name: value for name, value in element.items() if name not in LABEL_NAMES}
        yield (), dict(element)
    elif isinstance(element, (tuple, list)) and element:
        if len(element) > 1:
            yield tuple(element[:-1]), {}
        yield tuple(element), {}
    elif isinstance(element, Tensor):
        yield (element,), {}


def _operators(network: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    device = next((one.device for one in network.parameters()), torch.device("cpu"))
    placed = map_tensors(Tensor, lambda one: one.detach().to(device), (arguments, keywords))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(_structure(network), placed[0], placed[1], strict=False)
    weights = {
        **program.graph_signature.inputs_to_parameters,
        **program.graph_signature.inputs_to_buffers,
    }
    names: dict[Any, str] = {}
    nodes = []
    for node in program.graph.nodes:
        weight = weights.get(node.name)
        names[node] = (
            weight.replace(".", "/") if weight is not None else "/".join([*_scope(node), node.name])
        )
        kind = "weight" if weight is not None else node.op
        nodes.append(
            NodeDef(
                name=names[node],
                op=str(node.target) if node.op == "call_function" else kind,
                input=[names[one] for one in node.all_input_nodes],
                attr=_shape(node.meta.get("val")),
            )
        )
    return GraphDef(node=nodes, versions=VersionDef(producer=22))


def _modules(network: nn.Module) -> Any:
    """The modules by name, those of a ``Sequential`` one after the other."""
    nodes = [
        NodeDef(
            name=path.replace(".", "/") or type(module).__name__,
            op=type(module).__name__,
            input=_before(network, path),
        )
        for path, module in network.named_modules()
        if next(module.children(), None) is None
    ]
    return GraphDef(node=nodes, versions=VersionDef(producer=22))


def _before(network: nn.Module, path: str) -> list[str]:
    """The leaf that a module of a ``Sequential`` follows."""
    parent_path, _, own = path.rpartition(".")
    parent = network.get_submodule(parent_path) if path else None
    if not isinstance(parent, nn.Sequential) or not own.isdigit() or own == "0":
        return []
    previous = ".".join(filter(None, [parent_path, str(int(own) - 1)]))
    module = network.get_submodule(previous)
    if next(module.children(), None) is not None:
        return []
    return [previous.replace(".", "/")]


def _structure(network: nn.Module) -> nn.Module:
    """A copy of the modules with the network's own tensors and without its hooks."""
    tensors = (*network.parameters(), *network.buffers())
    instead: dict[int, Any] = {id(tensor): tensor for tensor in tensors}
    for module in network.modules():
        for table in HOOK_TABLES:
            instead[id(getattr(module, table, None))] = OrderedDict()
    return copy.deepcopy(network, instead)


def _unwrapped(network: nn.Module) -> nn.Module:
    """The network without wrappers that distribute or compile it."""
    if isinstance(network, nn.parallel.DistributedDataParallel):
        return _unwrapped(network.module)
    inner = getattr(network, "_orig_mod", None)
    return _unwrapped(inner) if isinstance(inner, nn.Module) else network


def _scope(node: Any) -> list[str]:
    """The modules around an operator, from the outside in."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    return stack[-1][0].split(".") if stack and stack[-1][0] else []


def _shape(value: Any) -> dict[str, Any]:
    if not isinstance(value, Tensor):
        return {}
    dimensions = [TensorShapeProto.Dim(size=int(size)) for size in value.shape]
    shapes = AttrValue.ListValue(shape=[TensorShapeProto(dim=dimensions)])
    return {"_output_shapes": AttrValue(list=shapes)}
