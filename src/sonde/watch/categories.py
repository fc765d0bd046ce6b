"""The categories of nodes that conditions apply to: weight, gradient, activation, tensor."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from sonde.core.graph import OpNode
from sonde.watch.conditions import Target as Category

TENSOR: Final[tuple[Category, ...]] = ("tensor",)
WEIGHT: Final[tuple[Category, ...]] = ("weight", "tensor")
GRADIENT: Final[tuple[Category, ...]] = ("gradient", "tensor")
ACTIVATION: Final[tuple[Category, ...]] = ("activation", "tensor")

_ACTIVATIONS: Final = frozenset(
    (
        *("celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh"),
        *("leakyrelu", "logsigmoid", "logsigmoidforward", "logsoftmax", "mish", "prelu"),
        *("prelukernel", "relu", "relu6", "rrelu", "rreluwithnoise", "selu", "sigmoid", "silu"),
        *("softmax", "softplus", "softshrink", "softsign", "swish", "tanh", "tanhshrink"),
        *("threshold", "softmin", "softmax2d"),
    )
)
"""Names of ops and modules in lower case, without underscores."""
_VIEWS: Final = frozenset(("alias", "clone", "contiguous", "detach", "reshape", "t", "view"))


def plain_function(name: str) -> str:
    """``_log_softmax`` and ``LogSoftmax`` are both ``logsoftmax``; ``relu_`` is ``relu``."""
    return name.replace("_", "").lower()


def is_activation(node: OpNode) -> bool:
    """Whether the op, or the module that it runs in, is an activation function; the ops of such a
    module may be fused, or several."""
    if node.kind != "op" or node.phase != "forward":
        return False
    if plain_function(node.type) in _ACTIVATIONS:
        return True
    _, dash, kind = node.scope.rpartition("/")[2].rpartition("-")
    is_own = plain_function(node.type) not in _VIEWS
    return bool(dash) and is_own and plain_function(kind) in _ACTIVATIONS


def categories_of(
    node: OpNode, weights: Container[str], gradients: Container[str]
) -> tuple[Category, ...]:
    """``weights`` and ``gradients`` are names of leaves."""
    if node.kind == "op":
        return ACTIVATION if is_activation(node) else TENSOR
    if node.name in weights:
        return WEIGHT
    return GRADIENT if node.name in gradients else TENSOR
