"""What is kept of a call of a module while its step runs, so that it can be executed again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.ranks.digests import plain
from sonde.adapters.torch.replay.kept_tensor import KeptTensor, keep, map_tree, tensors_in
from sonde.adapters.torch.replay.random_states import autocast_states
from sonde.adapters.torch.replay.step_record import AutocastState


@dataclass(frozen=True, slots=True)
class ScreenedOrigin:
    """What made NaN or Inf on this rank, its line, and how many tests came before. An empty
    ``what``: it is not finite here first, but nothing on this rank has made it."""

    what: str
    source: str
    order: int
    is_backward: bool = False


@dataclass(slots=True, eq=False)
class FollowedCall:
    """One call of a module. ``args`` and ``kwargs`` are what its ``forward`` gets, after the hooks
    of the module; None: not kept. ``returned`` is what its caller got, also after hooks.

    ``children``: the calls inside it that are not executed again, in their order.
    ``output_gradients`` and ``input_gradients`` arrive in the backward pass, by the position of
    the tensor; ``given_gradients`` are those of what the caller gave, before hooks.
    ``is_saved_elsewhere``: torch does not keep what its ops save (activation checkpoints), so that
    nothing inside it may be kept either. ``ended``: how many tests of the step came before its
    end."""

    module: nn.Module
    text: str
    line: str
    random: torch.Tensor | None = None
    autocast: tuple[AutocastState, ...] = ()
    args: tuple[Any, ...] | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    returned: Any = None
    children: list[FollowedCall] = field(default_factory=list)
    output_gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    input_gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    given_gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    awaited: int = 0
    is_saved_elsewhere: bool = False
    ended: int = -1

    def keep_state(self) -> None:
        """Keep the random state and autocast before the call."""
        self.random = torch.get_rng_state()
        self.autocast = autocast_states()

    def keep_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = map_tree(args, torch.Tensor, keep)
        self.kwargs = map_tree(kwargs, torch.Tensor, keep)

    @property
    def inputs(self) -> list[KeptTensor]:
        return list(tensors_in((self.args, self.kwargs), KeptTensor))

    @property
    def is_open(self) -> bool:
        """Whether the backward pass has begun with the call and has not left it."""
        return bool(self.output_gradients) and not (
            self.awaited and len(self.input_gradients) >= self.awaited
        )


def is_finite(tree: Any) -> bool:
    """Whether all floating-point values in ``tree`` that this rank holds are finite."""
    return all(
        bool(torch.isfinite(values).all())
        for tensor in tensors_in(tree)
        if tensor.is_floating_point() and (values := plain(tensor)) is not None
    )


def has_finite_sum(tensor: torch.Tensor) -> bool:
    """As `is_finite` of one tensor; reads it once if it is."""
    values = plain(tensor) if tensor.is_floating_point() else None
    if values is None or bool(torch.isfinite(values.sum(dtype=torch.float32))):
        return True
    return bool(torch.isfinite(values).all())
