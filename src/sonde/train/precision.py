"""Mixed precision: MindSpore's levels O0 to O3 on top of ``torch.amp``."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sonde.core.errors import UsageError
from sonde.train.nested import map_nested

_LEVELS = ("O0", "O1", "O2", "O3", "auto")
_LOW = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class ComputePrecision:
    """The element types of a run.

    ``autocast`` is the low type of the ops that autocast considers safe, ``whole`` the type that
    weights and inputs are cast to.
    """

    device: torch.device
    autocast: torch.dtype | None = None
    whole: torch.dtype | None = None
    dynamic_loss_scale: bool = False

    def context(self) -> AbstractContextManager[Any]:
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.autocast)

    def prepare(self, network: nn.Module) -> None:
        """Cast the weights if ``whole`` is set."""
        if self.whole is not None:
            network.to(dtype=self.whole)

    def inputs(self, value: Any) -> Any:
        return value if self.whole is None else cast_floats(value, self.whole)

    def outputs(self, value: Any) -> Any:
        """Cast to float32 for the loss, where half precision overflows first."""
        return value if self.whole is None else cast_floats(value, torch.float32)


def precision_of(
    level: str, dtype: str | torch.dtype | None, device: torch.device
) -> ComputePrecision:
    """The precision for a level and an optional type.

    O0 computes as the network is (a ``dtype`` alone means O1). O1 and auto use autocast. O2 is O1
    with a dynamic loss scale for float16. O3 casts the whole network. The default low type is
    float16 on accelerators and bfloat16 on the CPU.
    """
    if level not in _LEVELS:
        raise UsageError(
            f"amp_level is one of {', '.join(_LEVELS)}, not {level!r}", slug="amp-level"
        )
    low = _low_type(dtype, device)
    if (level == "O0" and dtype is None) or low == torch.float32:
        return ComputePrecision(device)
    if level == "O3":
        return ComputePrecision(device, whole=low)
    scaled = level == "O2" and low == torch.float16
    return ComputePrecision(device, autocast=low, dynamic_loss_scale=scaled)


def _low_type(dtype: str | torch.dtype | None, device: torch.device) -> torch.dtype:
    if dtype is None:
        return torch.bfloat16 if device.type == "cpu" else torch.float16
    if isinstance(dtype, str):
        dtype = _LOW.get(dtype, torch.float32 if dtype == "float32" else None)
    if dtype not in (*_LOW.values(), torch.float32):
        raise UsageError("dtype is float16, bfloat16 or float32", slug="amp-level")
    return dtype


def cast_floats(value: Any, dtype: torch.dtype) -> Any:
    """``value`` with every floating-point tensor in it converted."""

    def cast(item: Any) -> Any:
        is_float = isinstance(item, torch.Tensor) and item.is_floating_point()
        return item.to(dtype) if is_float else item

    return map_nested(value, cast)
