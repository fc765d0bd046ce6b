"""The loss of one step as callbacks see it."""

from __future__ import annotations

from typing import Any

import torch

from sonde.train.private import plain_results


class StepLoss(torch.Tensor):
    """A detached scalar tensor that prints as its number: ``2.298344373703003``.

    It stays on its device and is not copied until the value is read. Operations on it return plain
    tensors.
    """

    __torch_function__ = plain_results

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return repr(self.item())

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return format(self.item(), format_spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> StepLoss:
        return self.clone().as_subclass(StepLoss)


def as_step_output(output: Any) -> Any:
    """``output`` without its autograd history; scalars become ``StepLoss``, tuples item by item."""
    if isinstance(output, torch.Tensor):
        detached = output.detach()
        return detached.as_subclass(StepLoss) if detached.dim() == 0 else detached
    if isinstance(output, tuple | list):
        return tuple(as_step_output(item) for item in output)
    return output


def loss_number(output: Any) -> float | None:
    """The loss in a step's output as a float, or None.

    The loss of a tuple is its first item, that of a tensor with several elements its mean in
    float64 (one NaN makes it NaN). An empty tensor has no loss.
    """
    if isinstance(output, tuple | list) and output:
        return loss_number(output[0])
    if isinstance(output, torch.Tensor):
        if output.numel() == 0:
            return None
        return float(output.double().mean() if output.dim() else output)
    if isinstance(output, bool) or not hasattr(output, "__float__"):
        return None
    return float(output)
