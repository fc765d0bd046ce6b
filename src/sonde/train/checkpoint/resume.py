"""Saves and restores the state of a run, so that it continues as if never interrupted.

The order of a ``DataLoader``'s batches depends on the random states at the start of the epoch.
Resuming sets those states, opens the dataset, skips the batches that were already used, and then
sets the random states of the checkpoint: the next batch, the next dropout mask and the next shuffle
are those of the uninterrupted run. A dataset with ``state_dict`` and ``load_state_dict``
(torchdata's ``StatefulDataLoader``) restores its own position instead; nothing is skipped.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from sonde.core.callback import Callback
from sonde.core.errors import UsageError
from sonde.core.files.mindspore_ckpt import CheckpointError
from sonde.train.checkpoint.checkpoint import (
    load_for_resume,
    load_param_into_net,
    newest_checkpoint,
)
from sonde.train.checkpoint.state_json import is_plain
from sonde.train.ranks import newest_of_all_ranks, rank_count

_VERSION = 1
_log = logging.getLogger("sonde.train")


@dataclass(slots=True)
class Position:
    """How far a run is.

    ``epoch`` is the number of the latest epoch (1-based, 0 before the first), ``step_in_epoch``
    the steps done in it, ``inside`` whether it has not ended, ``step`` all steps done.
    """

    epoch: int = 0
    step: int = 0
    step_in_epoch: int = 0
    inside: bool = False

    @property
    def next_epoch(self) -> int:
        """The epoch of the next step."""
        return self.epoch if self.inside else self.epoch + 1


@dataclass(slots=True)
class Trained:
    """The objects whose state is part of a run; each is optional."""

    network: nn.Module | None = None
    optimizer: Any = None
    scheduler: Any = None
    loss_scale_manager: Any = None

    def stateful(self) -> Iterator[tuple[str, Any]]:
        for name in ("optimizer", "scheduler", "loss_scale_manager"):
            owner = getattr(self, name)
            if hasattr(owner, "state_dict") and hasattr(owner, "load_state_dict"):
                yield name, owner


class DatasetCursor:
    """Opens a dataset for each epoch, and restores a position inside an epoch."""

    def __init__(self) -> None:
        self._dataset: Any = None
        self._epoch_start: dict[str, Any] | None = None
        self._return_to: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "epoch_start": self._epoch_start,
            "now": capture_randomness(generators_of(self._dataset)),
        }
        if self._epoch_start is not None and _is_stateful(self._dataset):
            state["dataset"] = self._dataset.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # Now, and again in open(): a loop that opens no dataset here uses random numbers too.
        restore_randomness(state["now"])
        self._return_to = state

    def open(self, dataset: Any, epoch: int, seen: int) -> Iterator[Any]:
        """Iterate over the batches of ``epoch`` (1-based) after the first ``seen`` ones."""
        self._dataset = dataset
        set_epoch(dataset, epoch)
        generators = generators_of(dataset)
        back, self._return_to = self._return_to, None
        if back is not None and back["epoch_start"] is not None:
            return self._reopen(dataset, generators, back, seen)
        if back is not None:
            restore_randomness(back["now"], generators)
        self._epoch_start = capture_randomness(generators)
        return iter(dataset)

    def close(self) -> None:
        """End the epoch: a checkpoint saved from now on continues with the next epoch."""
        self._epoch_start = None

    def _reopen(
        self,
        dataset: Any,
        generators: Sequence[torch.Generator],
        back: dict[str, Any],
        seen: int,
    ) -> Iterator[Any]:
        self._epoch_start = back["epoch_start"]
        restore_randomness(back["epoch_start"], generators)
        if "dataset" in back and _is_stateful(dataset):
            dataset.load_state_dict(back["dataset"])
            seen = 0
        batches: Iterator[Any] = iter(dataset)
        _skip(batches, seen)
        restore_randomness(back["now"], generators)
        return batches


def training_state(
    trained: Trained, position: Position, cursor: DatasetCursor, callbacks: Sequence[Callback]
) -> dict[str, Any]:
    """The state of a run between two steps, for ``restore``; tensors are not copied."""
    return {
        "version": _VERSION,
        "position": asdict(position),
        "cursor": cursor.state_dict(),
        **{name: _state_of(owner) for name, owner in trained.stateful()},
        "callbacks": [[type(callback).__name__, callback.state_dict()] for callback in callbacks],
    }


def find_checkpoint(source: str | os.PathLike[str]) -> Path | None:
    """The file to resume from: ``source`` itself, or the newest undamaged one in that directory.

    With several ranks each rank has its own files, and all ranks use the newest step of which every
    rank has an undamaged file.
    """
    path = Path(source)
    if path.is_file():
        return path
    if path.suffix and not path.is_dir():
        raise CheckpointError(
            f"{path} does not exist: there is nothing to resume from", slug="checkpoint-missing"
        )
    found = newest_checkpoint(path) if rank_count() == 1 else newest_of_all_ranks(path)
    _log.info("resuming from %s", found or f"the beginning: {path} has no checkpoint")
    return found


def restore(path: Path, trained: Trained, cursor: DatasetCursor) -> tuple[Position, dict[str, Any]]:
    """Load weights and states of ``path`` into the objects; returns the position and the state."""
    weights, state = load_for_resume(path)
    if state.get("version") != _VERSION:
        raise CheckpointError(
            f"{path} was written by another version of Sonde (state {state.get('version')})",
            slug="checkpoint-version",
        )
    if trained.network is not None:
        own = trained.network.state_dict()
        load_param_into_net(
            trained.network, {name: weights[name] for name in weights if name in own}, True
        )
    for name, owner in trained.stateful():
        if name not in state:
            raise CheckpointError(
                f"{path} has no state of the {name.replace('_', ' ')}: it was saved without one",
                slug="checkpoint-without-state",
            )
        owner.load_state_dict(state[name])
    cursor.load_state_dict(state["cursor"])
    return Position(**state["position"]), state


def restore_callbacks(state: dict[str, Any], callbacks: Sequence[Callback]) -> None:
    """Restore the state of each callback; the n-th of a class gets the state of the n-th."""
    saved: list[list[Any]] = list(state["callbacks"])
    for callback in callbacks:
        for index, (name, own) in enumerate(saved):
            if name == type(callback).__name__:
                del saved[index]
                callback.load_state_dict(own)
                break


def _state_of(owner: Any) -> dict[str, Any]:
    state = dict(owner.state_dict())
    if "lr_lambdas" in state:
        # LambdaLR saves all attributes of a schedule object, also functions, which are not state.
        state["lr_lambdas"] = [
            own and {name: value for name, value in own.items() if is_plain(value)}
            for own in state["lr_lambdas"]
        ]
    return state


def _is_stateful(dataset: Any) -> bool:
    return callable(getattr(dataset, "state_dict", None)) and callable(
        getattr(dataset, "load_state_dict", None)
    )


def set_epoch(dataset: Any, epoch: int) -> None:
    """Set the epoch (0-based) by which distributed samplers and streamed datasets shuffle."""
    for owner in (dataset, getattr(dataset, "sampler", None), getattr(dataset, "dataset", None)):
        set_epoch = getattr(owner, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(epoch - 1)


def _skip(batches: Iterator[Any], count: int) -> None:
    for number in range(count):
        try:
            next(batches)
        except StopIteration:
            raise UsageError(
                f"the dataset has {number} batches; the checkpoint was made after batch {count} "
                "of an epoch: resume with the dataset and batch size of the first run",
                slug="resume-dataset",
            ) from None


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
