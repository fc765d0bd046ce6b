"""The private parts of torch that printing needs, checked when this module is imported."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from sonde.core import version_probe

version_probe.require(
    "printing",
    (
        "torch._C:_DisableFuncTorch",
        "torch._C:_functorch.get_unwrapped",
        "torch._C:_functorch.is_functorch_wrapped_tensor",
        "torch._higher_order_ops.effects:_register_effectful_op",
        "torch._library.effects:EffectType.ORDERED",
    ),
)

without_functorch: Callable[[], AbstractContextManager[None]] = torch._C._DisableFuncTorch
"""In this block the transformations of ``torch.func`` do not apply."""


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The plain tensor inside those of ``torch.func``."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def keep_in_order(op: str) -> None:
    """Register ``op`` as one with effects: compilers keep its calls, and their order."""
    from torch._higher_order_ops.effects import _register_effectful_op
    from torch._library.effects import EffectType

    _register_effectful_op(op, EffectType.ORDERED)


def traced_position(own_folder: str) -> tuple[str, int, int | None]:
    """File, line and column, where known, that dynamo is tracing, outside of ``own_folder``.

    Only called while dynamo traces, so that the compiler is imported already.
    """
    version_probe.require(
        "printing in compiled code",
        ("torch._dynamo.symbolic_convert:InstructionTranslator.current_tx",),
    )
    from torch._dynamo.symbolic_convert import InstructionTranslator

    reader: Any = InstructionTranslator.current_tx()
    while reader.parent is not None and reader.f_code.co_filename.startswith(own_folder):
        reader = reader.parent
    place = getattr(reader.current_instruction, "positions", None)
    line, column = (reader.lineno, None) if place is None else (place.lineno, place.col_offset)
    return reader.f_code.co_filename, line, column
