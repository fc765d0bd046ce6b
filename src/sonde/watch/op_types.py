"""Op types that matter for NaN and Inf: those that allocate, fill, or view memory, and others."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

ALLOCATING: Final = frozenset(
    (
        *("empty", "empty_like", "empty_permuted", "empty_strided"),
        *("new_empty", "new_empty_strided", "resize_", "resize_as_"),
    )
)
"""Ops that allocate or enlarge memory without filling it."""
WORKSPACES: Final[dict[str, tuple[int, ...]]] = {
    # Logarithms of probabilities for the backward op: the impossible ones are -inf.
    "_ctc_loss": (1,),
}
"""Outputs that are meant only for the backward op of the same op."""
FILLING: Final = frozenset(
    (
        *("fill", "fill_", "full", "full_like", "new_full", "scalar_tensor", "fill_diagonal_"),
        *("masked_fill", "masked_fill_", "index_fill", "index_fill_", "scatter", "scatter_"),
        *("where", "constant_pad_nd", "nan_to_num", "nan_to_num_"),
    )
)
"""Ops that write an argument unchanged. If another op computes NaN from it, that is a fault."""
OVERWRITING: Final = frozenset(
    (
        *("copy_", "fill_", "zero_", "bernoulli_", "cauchy_", "exponential_"),
        *("geometric_", "log_normal_", "normal_", "random_", "uniform_"),
    )
)
"""Ops that write all elements of their first input and read none of them."""
OVERWRITES: Final = "overwrites"
"""The attribute with the slots of inputs that an op writes and does not read: ``out=``."""
UNFILLED: Final = "unfilled"
"""The attribute with the slots of outputs that are memory which no op has filled yet."""
VIEWS: Final = frozenset(
    (
        *("_reshape_alias", "alias", "as_strided", "chunk", "detach", "diagonal", "expand"),
        *("lift_fresh", "movedim", "narrow", "permute", "select", "slice", "split"),
        *("split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze"),
        *("view", "view_as_complex", "view_as_real", "_unsafe_view", "_conj", "_neg_view"),
    )
)
"""Ops whose outputs share the memory of their first input."""
LOSS_READERS: Final = frozenset(("ones_like", "OnesLike"))
"""Ops that begin a backward pass: they create the gradient of the loss with respect to itself."""
ORDERING: Final = "UpdateState"
"""MindSpore's node that makes ops run in order. It has their outputs as inputs and reads none."""
SCALER_CHECK: Final = "_amp_foreach_non_finite_check_and_unscale_"
"""The op by which a loss scaler finds NaN and Inf before the optimizer steps."""


_FIRST: Final = frozenset((0,))


def slots_text(slots: Iterable[int]) -> str:
    """The value of an attribute that lists slots."""
    return ", ".join(map(str, slots))


def slots_in(attributes: Iterable[tuple[str, str]], name: str) -> frozenset[int]:
    """The slots that the attribute ``name`` lists; empty without this attribute."""
    text = next((text for each, text in attributes if each == name), "")
    return frozenset(int(slot) for slot in text.split(", ") if slot.isdecimal())


def overwritten_inputs(op_type: str, attributes: Iterable[tuple[str, str]]) -> frozenset[int]:
    """The slots of inputs whose values an op replaces without reading them."""
    return _FIRST if op_type in OVERWRITING else slots_in(attributes, OVERWRITES)


def is_in_place(op_type: str) -> bool:
    """Whether the op overwrites the inputs of the same slots as its outputs."""
    return op_type.endswith("_") and not op_type.endswith("__")


def infinite_argument(attributes: Iterable[tuple[str, str]]) -> str | None:
    """Such as ``value=-inf``, if an argument of the op is NaN or Inf; else None."""
    for name, text in attributes:
        try:
            number = float(text)
        except ValueError:
            continue
        if not math.isfinite(number):
            return f"{name}={text}"
    return None
