"""Epochs of a fixed number of batches: ``sink_size`` of ``Model.train``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from sonde.core.arguments import check_positive_int
from sonde.core.errors import UsageError
from sonde.train.checkpoint.resume import set_epoch

_END = object()


class SinkEpochs:
    """A dataset in epochs of ``size`` batches.

    Each epoch continues where the previous one ended; at its end the dataset begins again. Other
    attributes are those of the dataset.
    """

    def __init__(self, dataset: Iterable[Any], size: int) -> None:
        self._dataset = dataset
        self._size = size
        self._passes = 0
        self._batches: Iterator[Any] = iter(())

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self._size):
            element = next(self._batches, _END)
            if element is _END:
                element = next(self._begin_again(), _END)
            if element is _END:
                return  # the dataset cannot be iterated again
            yield element

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def _begin_again(self) -> Iterator[Any]:
        self._passes += 1
        set_epoch(self._dataset, self._passes)
        self._batches = iter(self._dataset)
        return self._batches


def in_sink_epochs(
    dataset: Iterable[Any],
    sink_size: int,
    *,
    dataset_sink_mode: bool,
    resume: str | os.PathLike[str] | None,
) -> Iterable[Any]:
    """The dataset as ``Model`` iterates it.

    As in MindSpore, ``sink_size`` counts only in sink mode, and -1 means all batches.
    """
    if sink_size != -1:
        check_positive_int(sink_size, "sink_size", "Model")
    if not dataset_sink_mode or sink_size == -1:
        return dataset
    if resume is not None:
        raise UsageError(
            "a run whose epochs are shorter than the dataset cannot be resumed: leave out resume, "
            "or sink_size",
            slug="sink-size",
        )
    return SinkEpochs(dataset, sink_size)
