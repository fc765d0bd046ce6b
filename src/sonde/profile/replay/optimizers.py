"""Runs an optimizer's step over parameters of the same shapes: one by one, grouped and fused."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from sonde.profile.record.object_tracking import SeenOptimizer
from sonde.profile.record.stopwatch import AS_IT_IS, compare

_WAYS: dict[str, dict[str, bool | None]] = {
    "fused=True": {"fused": True, "foreach": None},
    "foreach=True": {"fused": None, "foreach": True},
}
_COPIES = 4  # parameter, gradient, two states
_MOST_BYTES = 1 << 30


def replay_optimizer(seen: SeenOptimizer, *, budget_seconds: float = 1.0) -> dict[str, float]:
    """Seconds of a step as it is, and in each way that this optimizer has and does not use.

    Empty if there is nothing to compare: the optimizer is not torch's own, is fused, or has no
    other way; the parameters are not on the host, or too large for a copy.
    """
    accepted = inspect.signature(seen.kind.__init__).parameters
    options = {name: value for name, value in seen.options.items() if name in accepted}
    if (
        not seen.kind.__module__.startswith("torch.optim")
        or any(device.type != "cpu" for _, _, device in seen.parameters)
        or not 0 < seen.nbytes * _COPIES * (len(_WAYS) + 1) <= _MOST_BYTES
        or options.get("fused")
    ):
        return {}
    ways = {AS_IT_IS: _made(seen, options)}
    for name, change in _WAYS.items():
        key = name.partition("=")[0]
        if key in accepted and not options.get(key):
            try:
                ways[name] = _made(seen, {**options, **change})
                ways[name].step()
            except (RuntimeError, ValueError, TypeError):
                ways.pop(name, None)  # not supported for this device or these dtypes
    if len(ways) == 1:
        return {}
    return compare(
        {name: optimizer.step for name, optimizer in ways.items()}, budget_seconds=budget_seconds
    )


def _made(seen: SeenOptimizer, options: dict[str, Any]) -> torch.optim.Optimizer:
    parameters = []
    for shape, dtype, _ in seen.parameters:
        parameter = torch.nn.Parameter(torch.zeros(shape, dtype=dtype))
        parameter.grad = torch.full(shape, 1e-3, dtype=dtype)
        parameters.append(parameter)
    kind: Any = seen.kind
    made: torch.optim.Optimizer = kind(parameters, **options)
    return made
