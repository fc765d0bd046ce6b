"""Switches shuffling and dropout off on request."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import data

from sonde.adapters.torch.determinism.randomness import Randomness, place_of_caller
from sonde.core.patching import call_before, replace, wrap

_DROPOUTS = (
    *("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d"),
    "feature_alpha_dropout",
)
_RECURRENT = (nn.LSTM, nn.GRU, nn.RNN)


def stop_shuffling(found: Randomness, undo: ExitStack) -> None:
    """Make samplers yield indices in order; shuffling by the program itself is only reported."""

    def stop_distributed(sampler: Any) -> None:
        if sampler.shuffle:
            found.note_removed_here("shuffling by DistributedSampler")
            sampler.shuffle = False

    for kind, indices in (
        (data.RandomSampler, _all_in_order),
        (data.SubsetRandomSampler, lambda sampler: iter(sampler.indices)),
    ):
        replace(kind, "__iter__", _in_order(found, kind.__name__, indices), undo)
    call_before(data.DistributedSampler, "__iter__", stop_distributed, undo)
    for owner, name, what in (
        (data.WeightedRandomSampler, "__iter__", "WeightedRandomSampler draws"),
        (random, "shuffle", "random.shuffle"),
        (np.random, "shuffle", "numpy.random.shuffle"),
        (np.random, "permutation", "numpy.random.permutation"),
        (torch, "randperm", "torch.randperm"),
    ):
        call_before(owner, name, partial(_note_order, found, what), undo)


def _in_order(
    found: Randomness, name: str, indices: Callable[[Any], Iterator[int]]
) -> Callable[[Any], Iterator[int]]:
    def iterate(sampler: Any) -> Iterator[int]:
        found.note_removed_here(f"shuffling by {name}")
        return indices(sampler)

    return iterate


def _note_order(found: Randomness, what: str, *_: Any, **__: Any) -> None:
    where = place_of_caller()
    if where is not None:
        found.note_left(
            f"{what} at {where}: repeats with the seed, but the order is not the data's"
        )


def stop_dropout(found: Randomness, undo: ExitStack) -> None:
    """Set the probability of every dropout to 0: modules, functions, attention, recurrent nets."""
    functional: Any = nn.functional
    for name in _DROPOUTS:
        wrap(functional, name, partial(_without, found, name, "p", 1), undo)
    wrap(torch, "dropout", partial(_without, found, "torch.dropout", "p", 1), undo)
    attention = partial(_without, found, "attention's dropout", "dropout_p", 4)
    wrap(functional, "scaled_dot_product_attention", attention, undo)
    for module in _RECURRENT:
        wrap(module, "forward", partial(_recurrent, found), undo)


def _all_in_order(sampler: Any) -> Iterator[int]:
    size = len(sampler.data_source)
    return iter([index % size for index in range(sampler.num_samples)] if size else [])


def _without(
    found: Randomness, what: str, name: str, position: int, original: Callable[..., Any]
) -> Callable[..., Any]:
    """A function like ``original`` that gets 0 as its argument ``name``, at ``position``."""

    def call(*args: Any, **named: Any) -> Any:
        given = named.get(name, args[position] if len(args) > position else None)
        default = 0.0 if name == "dropout_p" else 0.5
        # Code that the compiler traces must not inspect frames.
        if (default if given is None else given) != 0 and not torch.compiler.is_compiling():
            found.note_removed_here(what)
        if len(args) > position:
            args = (*args[:position], 0.0, *args[position + 1 :])
        else:
            named[name] = 0.0
        return original(*args, **named)

    return call


def _recurrent(found: Randomness, original: Callable[..., Any]) -> Callable[..., Any]:
    def forward(module: Any, *args: Any, **named: Any) -> Any:
        probability = module.dropout
        if not probability:
            return original(module, *args, **named)
        if not torch.compiler.is_compiling():
            found.note_removed_here(f"dropout of {type(module).__name__}")
        module.dropout = 0.0
        try:
            return original(module, *args, **named)
        finally:
            module.dropout = probability

    return forward
