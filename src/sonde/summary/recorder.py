"""Writes one run's numbers, histograms, pictures, texts and graph, and keeps the index of them."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sonde.summary.events import EventFiles
from sonde.summary.index import SummaryIndex
from sonde.summary.tensorboard_format import protos

_log = logging.getLogger("sonde.summary")

SMALLEST_EDGE = 1e-12
BIN_GROWTH = 1.1


class Recorder:
    """Everything written to one summary directory. Not for use from several threads."""

    def __init__(self, directory: Path, files: EventFiles, index: SummaryIndex) -> None:
        self.directory = directory
        self.index = index
        self._files = files
        self._too_large: set[str] = set()

    def scalar(self, tag: str, value: float, step: int) -> None:
        """A number, in float32 as TensorBoard keeps it; NaN and Inf are written as they are."""
        if self._write(tag, step, summary=protos.scalar(tag, value)):
            self.index.note_scalar(tag, step, value)

    def histogram(self, tag: str, values: Tensor, step: int) -> None:
        """The distribution of the finite values; how many are not finite, when any, is a number.

        Nothing is written of a tensor without a finite value.
        """
        flat = values.detach().reshape(-1)
        if flat.is_complex():
            flat = flat.abs()
        array: np.ndarray = flat.double().cpu().numpy()
        finite = np.isfinite(array)
        if not finite.all():
            self.scalar(f"non_finite/{tag}", float((~finite).sum()), step)
        chosen = array[finite]
        if not chosen.size:
            return
        with np.errstate(over="ignore"):  # the sum of squares may be infinite
            proto = protos.histogram(tag, chosen, _bins(chosen))
        if self._write(tag, step, summary=proto):
            self.index.note("histograms", tag, step)

    def image(self, tag: str, picture: Tensor, step: int) -> None:
        """A picture ``(C, H, W)`` of bytes."""
        proto = protos.image(tag, picture, rescale=1, dataformats="CHW")
        if self._write(tag, step, summary=proto):
            self.index.note("images", tag, step)

    def facts(self, tag: str, facts: Mapping[str, Any], step: int) -> None:
        """Names and values as a text with a table; values inside values as JSON."""
        rows = "\n".join(f"| {name} | {_shown(value)} |" for name, value in facts.items())
        proto = protos.text(tag, f"| name | value |\n| --- | --- |\n{rows}")
        if self._write(tag, step, keep_as=tag, summary=proto):
            self.index.note("texts", tag, step)

    def hyper_parameters(self, facts: Mapping[str, Any], metrics: list[str]) -> None:
        """The settings of the run for TensorBoard's table of hyper-parameters."""
        plain = {
            name: value
            for name, value in facts.items()
            if isinstance(value, (bool, int, float, str))
        }
        experiment, start, _ = protos.hparams(plain, dict.fromkeys(metrics, 0.0))
        self._write("hyper-parameters", 0, keep_as="experiment", summary=experiment)
        self._write("hyper-parameters", 0, keep_as="start", summary=start)

    def graph(self, graph: Any, kind: str) -> None:
        """The network; ``kind`` says what its nodes are."""
        if self._write("graph", 0, keep_as="graph", graph_def=graph.SerializeToString()):
            self.index.graph = kind

    def save(self, status: str | None = None) -> None:
        """Hand the events to the operating system and replace the index."""
        self._files.flush()
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self.index.started = self.index.started or now
        self.index.updated = now
        self.index.status = status or self.index.status
        self.index.write(self.directory)

    def close(self) -> None:
        self._files.close()

    def _write(self, tag: str, step: int, *, keep_as: str | None = None, **what: Any) -> bool:
        if self._files.write(step=step, keep_as=keep_as, **what):
            return True
        if tag not in self._too_large:
            self._too_large.add(tag)
            _log.warning("summary: %r is larger than a whole event file may be; left out", tag)
        return False


def _bins(values: np.ndarray) -> np.ndarray:
    """Bins that grow by a tenth away from 0, as TensorFlow's do, over the sizes that occur."""
    sizes = np.abs(values[values != 0])
    if not sizes.size:
        return np.array([-SMALLEST_EDGE, 0.0, SMALLEST_EDGE])
    first = max(float(sizes.min()), SMALLEST_EDGE)
    ratio = max(0.0, math.log(float(sizes.max())) - math.log(first))
    count = 2 + math.ceil(ratio / math.log(BIN_GROWTH))
    edges = np.minimum(first * BIN_GROWTH ** np.arange(count), np.finfo(np.float64).max)
    return np.unique(np.concatenate([-edges, [0.0], edges]))


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, (dict, list, tuple)):
        value = json.dumps(value, default=str)
    return str(value).replace("|", "\\|").replace("\n", " ")
