"""Splits and joins the flat weights of recurrent layers of MindSpore before 1.6.

The order is cuDNN's, as MindSpore wrote it on GPU: the matrices layer by layer and direction by
direction (input, then hidden), then the biases in the same order; gates as in PyTorch. The file
does not contain the sizes of the parts; another checkpoint of the same network supplies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.compare.weights.checkpoint import Checkpoint, Weight
from sonde.compare.weights.pair import FlatParameter, pair_parameters
from sonde.core.errors import UsageError
from sonde.core.files.mindspore_ckpt import CheckpointError


def flat_weights(source: Checkpoint) -> list[str]:
    """The names of weights that look flat: ``weight`` with the shape (count, 1, 1)."""
    return [
        name
        for name, weight in source.weights.items()
        if source.format == "mindspore"
        and name.rpartition(".")[2] == "weight"
        and len(weight.shape) == 3
        and weight.shape[1:] == (1, 1)
    ]


def refuse_flat(source: Checkpoint) -> None:
    """UsageError if there is a flat weight, which other frameworks cannot use."""
    found = flat_weights(source)
    if found:
        raise UsageError(
            f"{source.path}: {found[0]!r} is the flat weight of a recurrent layer (MindSpore "
            "before 1.6), and the file does not say how large its parts are; give a checkpoint of "
            "the same net with --like, or --names keep to leave it as it is",
            slug="flat-weight",
        )


def as_in(source: Checkpoint, like: Checkpoint) -> Checkpoint:
    """``source`` with its recurrent layers in parts, or flat, as ``like`` has them, under the
    names of ``like``; UsageError if ``like`` has no parts for a flat weight."""
    found = pair_parameters(source.shapes, like.shapes)
    weights = dict(source.weights)
    for flat in found.flat:
        made = _split(flat, weights, like) if flat.flat_is_a else _join(flat, weights, like)
        weights = _replaced(weights, [flat.flat] if flat.flat_is_a else flat.parts, made)
    left = [name for name in flat_weights(source) if name in weights and name not in like.weights]
    if left:
        raise UsageError(
            f"{source.path}: {left[0]!r} has {source.weights[left[0]].count} elements, and no "
            f"recurrent layer of {like.path} has as many",
            slug="flat-weight",
        )
    return replace(source, weights=weights)


def _split(flat: FlatParameter, weights: dict[str, Weight], like: Checkpoint) -> list[Weight]:
    whole = weights[flat.flat]
    made: list[Weight] = []
    start = 0
    for name in flat.parts:
        shape = like.weights[name].shape
        load = partial(_part, whole, start, shape)
        made.append(replace(whole, name=name, shape=shape, load=load, summary=None))
        start += prod(shape)
    return made


def _part(whole: Weight, start: int, shape: tuple[int, ...]) -> NDArray[Any]:
    return whole.bits().reshape(-1)[start : start + prod(shape)].reshape(shape)


def _join(flat: FlatParameter, weights: dict[str, Weight], like: Checkpoint) -> list[Weight]:
    parts = [weights[name] for name in flat.parts]
    if len({part.storage for part in parts}) > 1:
        raise CheckpointError(
            f"{flat.parts[0]!r} and the other parts of its layer have several types and cannot "
            "be one flat weight",
            slug="checkpoint-format",
        )

    def load() -> NDArray[Any]:
        return np.concatenate([part.bits().reshape(-1) for part in parts])

    shape = like.weights[flat.flat].shape
    return [replace(parts[0], name=flat.flat, shape=shape, load=load, summary=None)]


def _replaced(
    weights: dict[str, Weight], old: Sequence[str], new: Sequence[Weight]
) -> dict[str, Weight]:
    """The weights with ``new`` at the position of the first of ``old``."""
    found: dict[str, Weight] = {}
    for name, weight in weights.items():
        if name == old[0]:
            found |= {each.name: each for each in new}
        if name not in old:
            found[name] = weight
    return found
