"""What op types mean for NaN and Inf: which allocate, write an argument, or only show memory."""

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
"""Ops that allocate memory, or make it larger, without filling it."""
WORKSPACES: Final[dict[str, tuple[int, ...]]] = {
    # Logarithms of probabilities for the backward op: the impossible ones are -inf.
    "_ctc_loss": (1,),
}
"""Outputs that only the op's own backward reads, and whose values mean nothing to others."""
FILLING: Final = frozenset(
    (
        *("fill", "fill_", "full", "full_like", "new_full", "scalar_tensor", "fill_diagonal_"),
        *("masked_fill", "masked_fill_", "index_fill", "index_fill_", "scatter", "scatter_"),
        *("where", "constant_pad_nd", "nan_to_num", "nan_to_num_"),
    )
)
"""Ops that write an argument as it is. Others compute with it: NaN that comes of it is a fault."""
VIEWS: Final = frozenset(
    (
        *("_reshape_alias", "alias", "as_strided", "chunk", "detach", "diagonal", "expand"),
        *("lift_fresh", "movedim", "narrow", "permute", "select", "slice", "split"),
        *("split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze"),
        *("view", "view_as_complex", "view_as_real", "_unsafe_view", "_conj", "_neg_view"),
    )
)
"""Ops whose outputs lie in the memory of their first input."""
LOSS_READERS: Final = frozenset(("ones_like", "OnesLike"))
"""Ops that begin a backward pass, by making the gradient of the loss with respect to itself."""
ORDERING: Final = "UpdateState"
"""MindSpore's node that makes ops run in order. It has their outputs as inputs and reads none."""
SCALER_CHECK: Final = "_amp_foreach_non_finite_check_and_unscale_"
"""The op by which a loss scaler looks for NaN and Inf before it lets the optimizer step."""


def is_in_place(op_type: str) -> bool:
    """Whether outputs are the inputs of the same slots, written over."""
    return op_type.endswith("_") and not op_type.endswith("__")


def infinite_argument(attributes: Iterable[tuple[str, str]]) -> str | None:
    """``value=-inf`` when an argument told the op to write or to compute with NaN or Inf."""
    for name, text in attributes:
        try:
            number = float(text)
        except ValueError:
            continue
        if not math.isfinite(number):
            return f"{name}={text}"
    return None
