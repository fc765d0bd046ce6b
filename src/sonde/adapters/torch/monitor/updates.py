"""Estimates how much an optimizer changes the weights, from a sample of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from sonde.adapters.torch.monitor.private import foreach_copy
from sonde.adapters.torch.tensors.unusual_layouts import local_part

_SAMPLED = 256
"""Values of each parameter that are sampled, evenly spaced."""


class SampledWeights:
    """The ratio of the norm of an update to that of the weights, of one optimizer.

    Of each parameter up to 256 evenly spaced values are copied before the optimizer steps and
    compared after it. Each counts for the values it stands for; parameters of up to 256 values are
    exact. Parameters whose memory is not contiguous are left out.
    """

    def __init__(self) -> None:
        self._known: list[int] = []
        # By device and dtype: where the values are, copies of them, and what each stands for.
        self._groups: list[tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]] = []

    def before_step(self, parameters: Sequence[torch.Tensor]) -> None:
        """Copy the sample."""
        addresses = [_address(each) for each in parameters]
        if addresses != self._known:  # Other parameters, or their memory is another.
            self._known = addresses
            self._groups = _sample(parameters)
        for places, copies, _ in self._groups:
            foreach_copy(copies, places)

    def after_step(self) -> float:
        """The ratio; NaN if it is unknown, 0 if nothing has changed."""
        change = total = 0.0
        for places, copies, weights in self._groups:
            after, before = torch.cat(places).double(), torch.cat(copies).double()
            change += float(torch.dot((after - before).square_(), weights))
            total += float(torch.dot(before.square(), weights))
        return math.sqrt(change / total) if total > 0 else math.nan


def _address(parameter: torch.Tensor) -> int:
    plain = local_part(parameter)
    return plain.data_ptr() if plain.layout is torch.strided else 0


def _sample(
    parameters: Sequence[torch.Tensor],
) -> list[tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]]:
    groups: dict[tuple[torch.device, torch.dtype], list[tuple[torch.Tensor, float]]] = {}
    for parameter in parameters:
        plain = local_part(parameter).detach()
        count = plain.numel()
        is_readable = plain.layout is torch.strided and plain.is_contiguous()
        if not (is_readable and plain.is_floating_point() and count):
            continue
        if plain.device.type == "meta":
            continue
        place = plain.view(-1)[:: max(count // _SAMPLED, 1)][:_SAMPLED]
        group = groups.setdefault((place.device, place.dtype), [])
        group.append((place, count / len(place)))
    found = []
    for (device, _), members in groups.items():
        places = [place for place, _ in members]
        parts = [torch.full((len(place),), each, device=device) for place, each in members]
        copies = [torch.empty_like(place) for place in places]
        found.append((places, copies, torch.cat(parts).double()))
    return found
