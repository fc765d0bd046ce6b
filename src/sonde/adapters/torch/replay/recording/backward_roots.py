"""Describes a backward pass by what ``torch.autograd.backward`` is called with."""

from __future__ import annotations

from typing import Any

import torch

from sonde.adapters.torch.replay.kept_tensor import KeptTensor, keep, map_tree
from sonde.adapters.torch.replay.outside_ops import KnownTensors
from sonde.adapters.torch.replay.random_states import autocast_states
from sonde.adapters.torch.replay.step_record import BackwardPass


def describe_backward(
    number: int, tensors: Any, options: dict[str, Any], known: KnownTensors
) -> BackwardPass:
    """The backward pass ``number`` of a step, from ``tensors`` on, with the other arguments."""
    given = _as_tuple(tensors)
    roots = [each for each in given if isinstance(each, torch.Tensor)]
    is_connected = len(roots) == len(given) and all(
        each.is_leaf or known.find(each) is not None for each in roots
    )
    kept = tuple(map(known.argument, roots))
    gradients = options.get("grad_tensors")
    if not isinstance(gradients, (tuple, list)):
        gradients = (gradients,) * len(roots)
    return BackwardPass(
        number,
        is_connected and not known.unseen,
        kept,
        tuple(map_tree(tuple(gradients), torch.Tensor, keep)),
        options.get("retain_graph"),
        bool(options.get("create_graph")),
        inputs=_inputs(options.get("inputs"), known),
        autocast=autocast_states(),
    )


def graph_name(tensors: Any) -> str:
    """The function that made the first root, as autograd names it."""
    for each in _as_tuple(tensors):
        if isinstance(each, torch.Tensor) and each.grad_fn is not None:
            return each.grad_fn.name()
    return ""


def _inputs(inputs: Any, known: KnownTensors) -> tuple[KeptTensor, ...] | None:
    if inputs is None:
        return None
    found = tuple(inputs.values()) if isinstance(inputs, dict) else _as_tuple(inputs)
    return tuple(known.argument(each) for each in found if isinstance(each, torch.Tensor))


def _as_tuple(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)
