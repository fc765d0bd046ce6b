"""Where the collectives of ``torch.distributed`` have their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.distributed as dist

Place = tuple[str, int]
"""The name and the position of an argument; position -1: it has none."""


@dataclass(frozen=True, slots=True)
class Signature:
    """``given`` and ``got``: the tensors, or lists of them, that a rank gives and gets.
    ``described``: the one whose dtype and size all ranks must agree on, if it is not ``given``.
    ``sizes``: how ``given`` and ``got`` are divided among the ranks."""

    kind: str
    group: Place
    is_async: Place
    given: Place = ("", -1)
    got: Place | None = None
    described: Place | None = None
    root: Place | None = None
    reduce: Place | None = None
    sizes: tuple[Place, Place] | None = None


_ALL_GATHER_SINGLE: Final = Signature(
    "all_gather_into_tensor",
    ("group", 2),
    ("async_op", 3),
    ("input_tensor", 1),
    ("output_tensor", 0),
)
_REDUCE_SCATTER_SINGLE: Final = Signature(
    "reduce_scatter_tensor",
    ("group", 3),
    ("async_op", 4),
    ("input", 1),
    ("output", 0),
    reduce=("op", 2),
)
SIGNATURES: Final = {
    "all_reduce": Signature(
        "all_reduce",
        ("group", 2),
        ("async_op", 3),
        ("tensor", 0),
        ("tensor", 0),
        reduce=("op", 1),
    ),
    "broadcast": Signature(
        "broadcast",
        ("group", 2),
        ("async_op", 3),
        ("tensor", 0),
        ("tensor", 0),
        root=("src", 1),
    ),
    "all_gather": Signature(
        "all_gather", ("group", 2), ("async_op", 3), ("tensor", 1), ("tensor_list", 0)
    ),
    "all_gather_into_tensor": _ALL_GATHER_SINGLE,
    "all_gather_single": _ALL_GATHER_SINGLE,
    "reduce": Signature(
        "reduce",
        ("group", 3),
        ("async_op", 4),
        ("tensor", 0),
        ("tensor", 0),
        root=("dst", 1),
        reduce=("op", 2),
    ),
    "reduce_scatter": Signature(
        "reduce_scatter",
        ("group", 3),
        ("async_op", 4),
        ("input_list", 1),
        ("output", 0),
        reduce=("op", 2),
    ),
    "reduce_scatter_tensor": _REDUCE_SCATTER_SINGLE,
    "reduce_scatter_single": _REDUCE_SCATTER_SINGLE,
    "gather": Signature(
        "gather",
        ("group", 3),
        ("async_op", 4),
        ("tensor", 0),
        ("gather_list", 1),
        root=("dst", 2),
    ),
    "scatter": Signature(
        "scatter",
        ("group", 3),
        ("async_op", 4),
        ("scatter_list", 1),
        ("tensor", 0),
        described=("tensor", 0),
        root=("src", 2),
    ),
    "all_to_all": Signature(
        "all_to_all",
        ("group", 2),
        ("async_op", 3),
        ("input_tensor_list", 1),
        ("output_tensor_list", 0),
    ),
    "all_to_all_single": Signature(
        "all_to_all",
        ("group", 4),
        ("async_op", 5),
        ("input", 1),
        ("output", 0),
        sizes=(("input_split_sizes", 3), ("output_split_sizes", 2)),
    ),
    "barrier": Signature("barrier", ("group", 0), ("async_op", 1)),
}
"""By the name of the function. Two names of one collective, an old and a new one, have one kind."""


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one call."""

    signature: Signature
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def argument(self, place: Place | None) -> Any:
        """The value at ``place``; None if the caller has given none."""
        if place is None:
            return None
        name, position = place
        if name in self.kwargs:
            return self.kwargs[name]
        return self.args[position] if 0 <= position < len(self.args) else None

    @property
    def group(self) -> Any:
        return self.argument(self.signature.group)

    @property
    def given(self) -> Any:
        return self.argument(self.signature.given)

    @property
    def got(self) -> Any:
        return self.argument(self.signature.got)

    @property
    def is_async(self) -> bool:
        return bool(self.argument(self.signature.is_async))

    @property
    def reduce_op(self) -> str:
        """``SUM``, ``AVG``, ...; empty for a collective that does not reduce."""
        if self.signature.reduce is None:
            return ""
        op = self.argument(self.signature.reduce)
        op = dist.ReduceOp.SUM if op is None else op
        # An op with a factor has no name of its own: its text is the address of an object.
        names = dist.ReduceOp.RedOpType.__members__
        return next((name for name, value in names.items() if op == value), "")

    @property
    def root(self) -> int:
        """The rank among all ranks; -1: it has none."""
        if self.signature.root is None:
            return -1
        found = self.argument(self.signature.root)
        if isinstance(found, int):
            return found
        # Those of gather and scatter may be left out: then it is the first rank of the group.
        in_group = self.kwargs.get(f"group_{self.signature.root[0]}", 0)
        return dist.get_process_group_ranks(self.group or dist.group.WORLD)[in_group or 0]

    def described(self) -> tuple[str, int]:
        """The dtype and the number of elements that all ranks must agree on."""
        value = self.argument(self.signature.described or self.signature.given)
        tensors = value if isinstance(value, (list, tuple)) else (value,)
        known = [each for each in tensors if isinstance(each, torch.Tensor)]
        if not known:
            return "", 0
        dtype = str(known[0].dtype).removeprefix("torch.")
        return dtype, sum(each.numel() for each in known)
