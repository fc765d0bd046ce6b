"""Writes one run's numbers, histograms, pictures, texts and graph, and keeps the index of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sonde.summary.distribution import as_numbers, distribution
from sonde.summary.events import EventFiles
from sonde.summary.index import SummaryIndex
from sonde.summary.tensorboard_format import protos

_log = logging.getLogger("sonde.summary")


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
        flat = as_numbers(values)
        finite = flat[torch.isfinite(flat)]
        if finite.numel() != flat.numel():
            self.scalar(f"non_finite/{tag}", float(flat.numel() - finite.numel()), step)
        if finite.numel() == 0:
            return
        if self._write(tag, step, summary=protos.histogram_raw(tag, **distribution(finite))):
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


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, (dict, list, tuple)):
        value = json.dumps(value, default=str)
    return str(value).replace("|", "\\|").replace("\n", " ")
