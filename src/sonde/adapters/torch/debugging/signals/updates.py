"""Measures how much an optimizer changes each parameter, from a sample of the values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from sonde.adapters.torch.debugging.signals.private import foreach_copy
from sonde.adapters.torch.tensors.unusual_layouts import local_part

MOST_VALUES: Final = 256
"""Values of each parameter that the monitor samples in every step, evenly spaced."""
_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ParameterUpdates:
    """One update of several parameters; each array has an entry for each of them.

    ``is_sampled``: whether its values could be sampled. ``weights`` are the norms (L2, in float64)
    before the update, ``changes`` those of what was added; NaN if a sampled value was not finite,
    or there is none. ``lost`` is the share of values with a gradient other than zero that kept
    their value bit for bit, ``zeros`` the share of gradient values that are exactly zero; NaN
    without a gradient, or if gradients were not sampled.
    """

    is_sampled: npt.NDArray[np.bool_]
    weights: _Numbers
    changes: _Numbers
    lost: _Numbers
    zeros: _Numbers

    @property
    def ratio(self) -> float:
        """The norm of the whole update by that of all weights; NaN if it is unknown, 0 if nothing
        has changed."""
        total = float(np.sum(np.square(self.weights[self.is_sampled])))
        change = float(np.sum(np.square(self.changes[self.is_sampled])))
        return math.sqrt(change / total) if total > 0 else math.nan


@dataclass(slots=True, eq=False)
class _Group:
    """The sampled values of the parameters of one device and dtype: where they are, and copies."""

    numbers: list[int]
    places: list[torch.Tensor]
    copies: list[torch.Tensor]
    starts: npt.NDArray[np.intp]
    shares: _Numbers
    gradients: list[torch.Tensor | None]


class SampledUpdates:
    """Measures the updates of one optimizer, in two calls around its step.

    Of each parameter up to ``most_values`` evenly spaced values are copied before the optimizer
    steps and compared after it. Each counts for the values it stands for; parameters with fewer
    values are exact. ``with_gradients`` also copies their gradients. Tensors that do not fill
    their memory, integers and tensors of the meta device are left out. Used by the monitor in every
    step, and by others in the steps that they measure: the copies are kept, so drop the object when
    ``most_values`` is large. Call both methods without gradients and observation
    (``private.unobserved()``, ``torch.no_grad()``).
    """

    def __init__(self, most_values: int = MOST_VALUES, *, with_gradients: bool = False) -> None:
        self._most = most_values
        self._with_gradients = with_gradients
        self._known: list[int] = []
        self._groups: list[_Group] = []

    def before_step(self, parameters: Sequence[torch.Tensor]) -> None:
        """Copy the sample."""
        addresses = [_address(each) for each in parameters]
        if addresses != self._known:  # Other parameters, or their memory is another.
            self._known = addresses
            self._groups = _groups(parameters, self._most)
        for group in self._groups:
            foreach_copy(group.copies, group.places)
            if self._with_gradients:
                group.gradients = [
                    _sampled_gradient(parameters[number], self._most) for number in group.numbers
                ]

    def after_step(self) -> ParameterUpdates:
        """What the update did to the parameters given to `before_step`, in their order."""
        count = len(self._known)
        found = ParameterUpdates(np.zeros(count, bool), *np.full((4, count), math.nan))
        for group in self._groups:
            found.is_sampled[group.numbers] = True
            after = torch.cat(group.places).double().cpu().numpy()
            before = torch.cat(group.copies).double().cpu().numpy()
            with np.errstate(invalid="ignore", over="ignore"):
                change = np.add.reduceat(np.square(after - before), group.starts)
                weight = np.add.reduceat(np.square(before), group.starts)
                found.changes[group.numbers] = np.sqrt(change * group.shares)
                found.weights[group.numbers] = np.sqrt(weight * group.shares)
            if self._with_gradients:
                _compare_gradients(group, found)
        return found


def _compare_gradients(group: _Group, found: ParameterUpdates) -> None:
    for number, place, copy, gradient in zip(
        group.numbers, group.places, group.copies, group.gradients, strict=True
    ):
        if gradient is None:
            continue
        has = gradient.ne(0)
        count = int(has.sum())
        found.zeros[number] = 1 - count / len(gradient)
        found.lost[number] = float((has & place.eq(copy)).sum()) / count if count else 0.0


def _address(parameter: torch.Tensor) -> int:
    plain = local_part(parameter)
    return plain.data_ptr() if plain.layout is torch.strided else 0


def _flat(tensor: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """The values in the order of the dimensions ``order``: a view if that is the memory's."""
    return tensor.permute(tuple(order)).reshape(-1)


def _memory_order(tensor: torch.Tensor) -> list[int]:
    """The dimensions, the one with the largest stride first: channels_last is not contiguous."""
    strides = tensor.stride()
    return sorted(range(tensor.dim()), key=lambda each: -strides[each])


def _sampled(flat: torch.Tensor, most: int) -> torch.Tensor:
    return flat[:: max(len(flat) // most, 1)][:most]


def _sampled_gradient(parameter: torch.Tensor, most: int) -> torch.Tensor | None:
    """The gradients of the values that are sampled; None where there is none to compare."""
    gradient = parameter.grad
    if gradient is None or gradient.layout is not torch.strided:
        return None
    plain, weights = local_part(gradient).detach(), local_part(parameter)
    if plain.shape != weights.shape:
        return None
    return _sampled(_flat(plain, _memory_order(weights)), most).clone()


def _groups(parameters: Sequence[torch.Tensor], most: int) -> list[_Group]:
    members: dict[tuple[torch.device, torch.dtype], list[tuple[int, torch.Tensor, float]]] = {}
    for number, parameter in enumerate(parameters):
        plain = local_part(parameter).detach()
        is_readable = plain.layout is torch.strided and plain.device.type != "meta"
        if not (is_readable and plain.is_floating_point() and plain.numel()):
            continue
        order = _memory_order(plain)
        if not plain.permute(order).is_contiguous():
            continue
        place = _sampled(_flat(plain, order), most)
        group = members.setdefault((place.device, place.dtype), [])
        group.append((number, place, plain.numel() / len(place)))
    found = []
    for each in members.values():
        places = [place for _, place, _ in each]
        starts = np.cumsum([0, *(len(place) for place in places[:-1])], dtype=np.intp)
        copies = [torch.empty_like(place) for place in places]
        shares = np.array([share for _, _, share in each])
        numbers = [number for number, _, _ in each]
        found.append(_Group(numbers, places, copies, starts, shares, [None] * len(places)))
    return found
