"""Reads an op's schema: its type name, its arguments, and which of them it writes; and turns the
arguments of a call that are not tensors into text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.watch.op_types import ALLOCATING, OVERWRITING, WORKSPACES

_MUTATED_UNDECLARED: dict[str, tuple[str, ...]] = {
    # The kernels write these although the schema does not declare it.
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::cudnn_batch_norm": ("running_mean", "running_var"),
    "aten::miopen_batch_norm": ("running_mean", "running_var"),
    "aten::batch_norm_with_update": ("running_mean", "running_var"),
    "aten::_batch_norm_with_update": ("running_mean", "running_var"),
    "aten::mkldnn_rnn_layer_backward": ("workspace",),
    "fsdp::all_gather_copy_in": ("all_gather_output",),
}
_REARRANGING = frozenset(
    f"aten::{name}"
    for name in (
        "_reshape_alias",
        "_unsafe_view",
        "alias",
        "detach",
        "expand",
        "permute",
        "squeeze",
        "t",
        "transpose",
        "unsqueeze",
        "view",
    )
)
_FUNCTIONAL_COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd")
_COLLECTIVES = ("c10d", *_FUNCTIONAL_COLLECTIVES)
_WAIT = "wait_tensor"


@dataclass(frozen=True, slots=True)
class OpInfo:
    """One operator overload. ``writes`` are names of arguments the op changes in place,
    ``overwrites`` those of them that it does not read.

    ``rearranges``: if the one output has as many elements as the first input, they are the same
    elements in another order or shape. ``fills`` is False for ops that only allocate memory, which
    other ops, or code that is not an op (a collective that has begun), will fill. ``workspaces``
    are the slots of outputs that only the op's own backward reads; their values mean nothing
    elsewhere. ``is_pending``: the op begins a collective, and its outputs must not be read before
    ``wait_tensor``.
    """

    type: str
    arguments: tuple[str, ...]
    writes: frozenset[str]
    is_collective: bool
    rearranges: bool = False
    fills: bool = True
    workspaces: tuple[int, ...] = ()
    is_pending: bool = False
    overwrites: frozenset[str] = frozenset()


_BOOKKEEPING = ("profiler", "prim", "sonde")


def is_bookkeeping(func: Any) -> bool:
    """Whether ``func`` computes nothing: profiler marks, a tensor's device, Sonde's prints."""
    return getattr(func, "namespace", "") in _BOOKKEEPING


_ADDRESS = " at 0x"


@cache
def op_info(func: Any) -> OpInfo:
    schema = getattr(func, "_schema", None)
    if not isinstance(func, private.OpOverload) or schema is None:
        name = str(getattr(func, "__name__", func))
        return OpInfo(_type_name("higher_order", name), (), frozenset(), False)
    namespace, _, name = schema.name.partition("::")
    writes = {
        argument.name
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    }
    overwrites = {argument.name for argument in schema.arguments if argument.is_out}
    writes.update(_MUTATED_UNDECLARED.get(schema.name, ()))
    if namespace == "c10d" and name.endswith("_"):
        # The schemas of the collectives do not declare what they write.
        names = {argument.name for argument in schema.arguments}
        overwrites |= {each for each in names if each.startswith("output")}
        writes |= overwrites | names & {"tensors"}
    is_pending = False
    if namespace in _FUNCTIONAL_COLLECTIVES:
        is_pending = name != _WAIT
        if name == _WAIT:  # The collective writes it, until the wait is over.
            overwrites.add(schema.arguments[0].name)
            writes |= overwrites
    op_type = _type_name(namespace, name)
    if op_type.removeprefix("_foreach_") in OVERWRITING and schema.arguments:
        overwrites.add(schema.arguments[0].name)
    return OpInfo(
        type=op_type,
        arguments=tuple(argument.name for argument in schema.arguments),
        writes=frozenset(writes),
        is_collective=namespace in _COLLECTIVES,
        fills=op_type not in ALLOCATING and not is_pending,
        rearranges=schema.name in _REARRANGING and schema.overload_name != "dtype",
        workspaces=WORKSPACES.get(op_type, ()),
        is_pending=is_pending,
        overwrites=frozenset(overwrites),
    )


def _type_name(namespace: str, name: str) -> str:
    """``addmm`` for ATen, ``c10d_allreduce_`` for others: a dot would end it in a file name."""
    text = name if namespace == "aten" else f"{namespace}_{name}"
    return text.replace(".", "_").replace("/", "_").replace(":", "_")


def named_arguments(
    info: OpInfo, args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> list[tuple[str, Any]]:
    """The arguments of a call, by their schema name."""
    names = info.arguments
    found = [
        (names[position] if position < len(names) else f"arg{position}", value)
        for position, value in enumerate(args)
    ]
    found.extend((kwargs or {}).items())
    return found


def attributes_of(
    info: OpInfo, args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> tuple[tuple[str, str], ...]:
    """The arguments without tensors, by their schema name, as text."""
    return tuple(
        (name, attribute_text(value))
        for name, value in named_arguments(info, args, kwargs)
        if next(tensors_in(value), None) is None
    )


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested lists and tuples, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def attribute_text(value: Any) -> str:
    """An argument as text, the same in every step and run."""
    if isinstance(value, (torch.UntypedStorage, torch.TypedStorage)):
        # Its repr runs an op for each of its bytes.
        return type(value).__name__
    text = repr(value)
    if _ADDRESS in text:
        text = type(value).__name__
    return text if len(text) <= 256 else text[:253] + "..."
