"""Captures and restores the states of all random number generators that a step may use."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch


def capture_randomness(generators: Iterable[torch.Generator] = ()) -> dict[str, Any]:
    """The states of Python's, numpy's and torch's global generators and of ``generators``.

    The generators are not advanced. Other generators of the user (a ``numpy.random.Generator``
    inside a dataset) are not included; a dataset can save them in its ``state_dict``.
    """
    version, internal, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": (version, torch.tensor(internal, dtype=torch.int64), gauss),
        "numpy": (
            str(kind),
            torch.from_numpy(np.asarray(keys, dtype=np.int64)),
            int(position),
            int(has_gauss),
            float(cached),
        ),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "generators": [generator.get_state() for generator in generators],
    }


def restore_randomness(state: dict[str, Any], generators: Iterable[torch.Generator] = ()) -> None:
    """Restore the states of ``capture_randomness``; generators are matched by their order."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal.tolist()), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    for generator, saved in zip(generators, state["generators"], strict=False):
        generator.set_state(saved)


def generators_of(dataset: object) -> list[torch.Generator]:
    """The generators of a ``DataLoader`` and its samplers, each once."""
    batch_sampler = getattr(dataset, "batch_sampler", None)
    owners = (
        dataset,
        getattr(dataset, "sampler", None),
        batch_sampler,
        getattr(batch_sampler, "sampler", None),
    )
    found: list[torch.Generator] = []
    for owner in owners:
        generator = getattr(owner, "generator", None)
        if isinstance(generator, torch.Generator) and all(generator is not g for g in found):
            found.append(generator)
    return found
