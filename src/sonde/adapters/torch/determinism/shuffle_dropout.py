"""Switches shuffling and dropout off on request."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import data

from sonde.adapters.torch.determinism.random_sources import FindPlace, Note
from sonde.core.patching import wrap

_DROPOUTS = (
    *("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d"),
    "feature_alpha_dropout",
)
_RECURRENT = (nn.LSTM, nn.GRU, nn.RNN)


def stop_shuffling(note_removed: Note, note_left: Note, place: FindPlace, undo: ExitStack) -> None:
    """Make samplers yield indices in order; shuffling by the program itself is only reported."""

    def in_order(indices: Callable[[Any], Iterator[int]], name: str) -> Any:
        def make(_: Callable[..., Any]) -> Callable[..., Any]:
            def iterate(sampler: Any) -> Iterator[int]:
                where = place()
                note_removed(f"shuffling by {name}{f' at {where}' if where else ''}")
                return indices(sampler)

            return iterate

        return make

    wrap(data.RandomSampler, "__iter__", in_order(_in_order, "RandomSampler"), undo)
    subset = in_order(lambda sampler: iter(sampler.indices), "SubsetRandomSampler")
    wrap(data.SubsetRandomSampler, "__iter__", subset, undo)
    wrap(data.DistributedSampler, "__iter__", _unshuffled(note_removed, place), undo)
    for owner, name, told in (
        (data.WeightedRandomSampler, "__iter__", "WeightedRandomSampler draws"),
        (random, "shuffle", "random.shuffle"),
        (np.random, "shuffle", "numpy.random.shuffle"),
        (np.random, "permutation", "numpy.random.permutation"),
        (torch, "randperm", "torch.randperm"),
    ):
        wrap(owner, name, _noted(told, note_left, place), undo)


def stop_dropout(note_removed: Note, place: FindPlace, undo: ExitStack) -> None:
    """Set the probability of every dropout to 0: modules, functions, attention, recurrent nets."""
    functional: Any = nn.functional
    for name in _DROPOUTS:
        wrap(functional, name, _without("p", 1, f"{name}", note_removed, place), undo)
    wrap(torch, "dropout", _without("p", 1, "torch.dropout", note_removed, place), undo)
    attention = _without("dropout_p", 4, "attention's dropout", note_removed, place)
    wrap(functional, "scaled_dot_product_attention", attention, undo)
    for module in _RECURRENT:
        wrap(module, "forward", functools.partial(_recurrent, note_removed, place), undo)


def _in_order(sampler: Any) -> Iterator[int]:
    size = len(sampler.data_source)
    return iter([index % size for index in range(sampler.num_samples)] if size else [])


def _unshuffled(note_removed: Note, place: FindPlace) -> Any:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(sampler: Any) -> Any:
            if sampler.shuffle:
                where = place()
                note_removed(f"shuffling by DistributedSampler{f' at {where}' if where else ''}")
                sampler.shuffle = False
            return original(sampler)

        return iterate

    return make


def _noted(told: str, note_left: Note, place: FindPlace) -> Any:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            where = place()
            if where is not None:
                note_left(
                    f"{told} at {where}: repeats with the seed, but the order is not the data's"
                )
            return original(*args, **named)

        return call

    return make


def _without(name: str, position: int, told: str, note_removed: Note, place: FindPlace) -> Any:
    """A wrapper that passes 0 as the argument ``name``, at ``position``."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            given = named.get(name, args[position] if len(args) > position else None)
            default = 0.0 if name == "dropout_p" else 0.5
            # Code that the compiler traces must not inspect frames.
            if (default if given is None else given) != 0 and not torch.compiler.is_compiling():
                where = place()
                note_removed(f"{told}{f' at {where}' if where else ''}")
            if len(args) > position:
                args = (*args[:position], 0.0, *args[position + 1 :])
            else:
                named[name] = 0.0
            return original(*args, **named)

        return call

    return make


def _recurrent(
    note_removed: Note, place: FindPlace, original: Callable[..., Any]
) -> Callable[..., Any]:
    def forward(module: Any, *args: Any, **named: Any) -> Any:
        probability = module.dropout
        if not probability:
            return original(module, *args, **named)
        if not torch.compiler.is_compiling():
            where = place()
            note_removed(f"dropout of {type(module).__name__}{f' at {where}' if where else ''}")
        module.dropout = 0.0
        try:
            return original(module, *args, **named)
        finally:
            module.dropout = probability

    return forward
