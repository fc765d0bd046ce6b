"""The parts of a picture that a network's prediction depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sonde.core.arguments import (
    check_non_negative_int,
    check_positive_int,
    check_value_type,
    wrong_type,
    wrong_value,
)
from sonde.train.loop.evaluation import evaluating
from sonde.train.metrics.contract import (
    Metric,
    MetricInputError,
    MetricInputTypeError,
    rearrange_inputs,
)
from sonde.train.metrics.gathered import not_ready
from sonde.train.metrics.inputs import as_tensor, expect


class OcclusionSensitivity(Metric):
    """How much the score of a label falls when a part of the picture is covered.

    Around each position, from ``margin`` before it until ``margin`` after it, the picture is filled
    with ``pad_val``; the value there is the score of the original picture minus that of the covered
    one. ``margin`` is one number or one per dimension. ``b_box`` (``[min1, max1, min2, max2]`` and
    so on, both included, a negative maximum means the end) limits the positions. ``n_batch``
    covered pictures are evaluated at once, in eval mode without gradients; the network's mode is
    restored. The value is that of the last picture of this rank; NaN propagates.
    """

    def __init__(
        self,
        pad_val: float = 0.0,
        margin: int | Sequence[int] = 2,
        n_batch: int = 128,
        b_box: Sequence[int] | None = None,
    ) -> None:
        owner = "OcclusionSensitivity"
        self.pad_val = float(check_value_type("pad_val", pad_val, [float, int], owner))
        margins = [margin] if isinstance(margin, int) else list(margin)
        self.margin = tuple(check_non_negative_int(one, "margin", owner) for one in margins)
        self.n_batch = check_positive_int(n_batch, "n_batch", owner)
        if b_box is not None and not isinstance(b_box, (list, tuple)):
            raise wrong_type("b_box", owner, "must be a list of integers", b_box)
        self.b_box = b_box
        self._map: np.ndarray | None = None

    def clear(self) -> None:
        self._map = None

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Set the network, one picture ``(1, ...)`` and the label whose score is measured."""
        owner = "OcclusionSensitivity"
        expect(owner, inputs, "network", "picture", "label")
        network, picture = inputs[0], as_tensor(owner, inputs[1])
        if not isinstance(network, nn.Module):
            raise MetricInputTypeError(
                f"{owner}: the network must be a torch module, not {type(network).__name__}"
            )
        label = inputs[2]
        if not isinstance(label, Tensor):
            label = torch.as_tensor(np.asarray(label))
        if picture.ndim < 2 or picture.shape[0] != 1 or label.numel() != 1:
            raise MetricInputError(
                f"{owner}: one picture (1, ...) and one label are needed, not "
                f"{tuple(picture.shape)} and {label.numel()} labels"
            )
        low, high = self._box(picture.shape[1:])
        with evaluating(network), torch.no_grad():
            whole = _scores(network(picture), int(label))[0]
            covered = [
                _scores(network(batch), int(label)) for batch in self._covered(picture, low, high)
            ]
        fallen = whole - torch.cat(covered).reshape(tuple(high - low + 1))
        self._map = fallen.squeeze().numpy()

    def eval(self) -> np.ndarray:
        """The values for the last picture, in its shape (or that of ``b_box``) squeezed."""
        if self._map is None:
            raise not_ready("OcclusionSensitivity")
        return self._map

    def _box(self, shape: torch.Size) -> tuple[np.ndarray, np.ndarray]:
        """First and last position of each dimension."""
        size = np.array(shape)
        if len(self.margin) not in (1, len(size)):
            raise wrong_value(
                "margin", "OcclusionSensitivity", f"must have {len(size)} numbers", self.margin
            )
        if self.b_box is None:
            return np.zeros_like(size), size - 1
        if len(self.b_box) != 2 * len(size):
            raise wrong_value(
                "b_box", "OcclusionSensitivity", f"must have {2 * len(size)} numbers", self.b_box
            )
        low = np.maximum(self.b_box[::2], 0)
        high = np.array(self.b_box[1::2])
        high = np.where(high < 0, size - 1, high)
        if (high >= size).any() or (low > high).any():
            raise wrong_value(
                "b_box", "OcclusionSensitivity", f"must fit a picture of {tuple(shape)}", self.b_box
            )
        return low, high

    def _covered(self, picture: Tensor, low: np.ndarray, high: np.ndarray) -> Iterator[Tensor]:
        """Batches of copies of the picture, each covered around one position, in order."""
        margin = np.broadcast_to(self.margin, len(low))
        places = np.stack(np.unravel_index(range(int(np.prod(high - low + 1))), high - low + 1), 1)
        for start in range(0, len(places), self.n_batch):
            chosen = places[start : start + self.n_batch] + low
            batch = picture.expand(len(chosen), *picture.shape[1:]).clone()
            for copy, place in zip(batch, chosen, strict=True):
                box = tuple(
                    slice(max(0, int(at - reach)), int(at + reach))
                    for at, reach in zip(place, margin, strict=True)
                )
                copy[box] = self.pad_val
            yield batch


def _scores(output: Tensor, label: int) -> Tensor:
    return output[:, label].cpu().double()
