"""Calls ops from inside a dispatch mode so that they compute what they compute without one.

Torch calls a mode after autocast and autograd have done their part of an op, and keeps both off
while the mode runs the op. That makes no difference to most ops. But a kernel that calls other ops
relies on autocast to cast for those, and, if the op has no gradient of its own, on autograd to
record them: inside a mode it would compute in another precision, and lose the gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.op_schema import tensors_in

_CALLING_OTHERS = frozenset(
    (
        "aten::_native_multi_head_attention",
        "aten::_transformer_encoder_layer_fwd",
        "aten::_trilinear",
        "aten::linalg_pinv",
    )
)
"""The ops of torch whose kernels call ops that autocast casts for. Only the program calls them, no
op for which autocast is off already."""
_TORCHS_OWN = frozenset(("aten", "prim", "prims", "profiler", "sonde"))


@cache
def function_of(op: Any) -> Callable[..., Any]:
    """The function that runs ``op``, an overload, as torch does outside of modes. It has a frame of
    Python only for ops of the program's libraries and the few of torch that need one."""
    function: Callable[..., Any] = op._op
    is_torchs = op.namespace in _TORCHS_OWN
    if is_torchs and op._schema.name not in _CALLING_OTHERS:
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        devices = {each.device.type for each in tensors_in((args, tuple(kwargs.values())))}
        records = not is_torchs and not private.has_autograd_kernel(op, devices)
        with private.as_without_mode(devices, records=records):
            return function(*args, **kwargs)

    return call
