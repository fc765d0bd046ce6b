"""Random trainings in which no step is like another: both matchers see the same, and nothing is
kept of the steps that have ended."""

from __future__ import annotations

import csv
import gc
import os
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch import varying_trainings
from torch import nn

from sonde.adapters.torch.attach import attach
from sonde.adapters.torch.eager import matcher
from sonde.capture.options import config_from_options
from sonde.core.graph import Graph
from sonde.core.sink import StepEnd
from sonde.dump.sinks.overflow import OverflowDump

pytestmark = pytest.mark.skipif(matcher.load() is None, reason="the native matcher is not built")

SEEDS = [int(each) for each in os.environ.get("SONDE_VARYING_SEEDS", "1 5 11").split()]
STEPS = 12
MATCHERS = ("native", "python")
OVERWRITING = ("bernoulli_", "copy_", "zero_", "fill_")


@pytest.fixture(autouse=True)
def warnings_of_torch() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def observe(
    path: Path, monkeypatch: pytest.MonkeyPatch, matcher_name: str, seed: int, *, stats: bool
) -> tuple[list[Any], dict[int, Graph], int]:
    """What the training returns, the graphs of some steps, and the number of drafts."""
    graphs: dict[int, Graph] = {}
    asked = {step for step in range(STEPS) if random.Random(seed + step).random() < 0.4}
    original = OverflowDump.end_step

    def end_step(self: OverflowDump, end: StepEnd) -> None:
        if end.step in asked:
            graphs[end.step] = end.graph
        original(self, end)

    config = config_from_options(path, {}, stats=stats, overflow=not stats)
    with monkeypatch.context() as patch:
        patch.setenv("SONDE_MATCHER", matcher_name)
        patch.setattr(OverflowDump, "end_step", end_step)
        with attach(config, starts_at_once=False) as capture:
            result = varying_trainings.train(seed, STEPS)
            return result, graphs, getattr(capture.adapter.observer.tables, "draft_count", 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_matchers_see_the_same_ops(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = varying_trainings.train(seed, STEPS)
    native, python = (
        observe(tmp_path / name, monkeypatch, name, seed, stats=False) for name in MATCHERS
    )
    assert native[0] == python[0] == bare
    assert native[2] > 0
    assert native[1].keys() == python[1].keys()
    for step, graph in python[1].items():
        assert [node.name for node in native[1][step]] == [node.name for node in graph]
        assert native[1][step].nodes == graph.nodes


def statistics_of(path: Path) -> dict[str, list[list[str]]]:
    """The rows of each step, without their timestamps. Memory that was not filled has no values."""
    found = {}
    for file in path.rglob("statistic.csv"):
        header, *rows = csv.reader(file.read_text().splitlines())
        stamp, io, first = map(header.index, ("Timestamp", "IO", "Max Value"))
        for row in rows:
            overwrites = row[0] in OVERWRITING and row[io : io + 2] == ["input", "0"]
            if "empty" in row[0] or overwrites:
                del row[first:]
            del row[stamp]
        found[file.parent.name] = rows
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_both_matchers_save_the_same_statistics(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = varying_trainings.train(seed, STEPS)
    native, python = (
        observe(tmp_path / name, monkeypatch, name, seed, stats=True) for name in MATCHERS
    )
    assert native[0] == python[0] == bare
    assert native[2] > 0
    saved = statistics_of(tmp_path / "native")
    assert saved.keys() == statistics_of(tmp_path / "python").keys()
    for step, rows in statistics_of(tmp_path / "python").items():
        assert saved[step] == rows


class Held:
    """An argument of an op, whose references are counted."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(1)
        self.shape = [2, 1000 + len(str(id(self)))]
        self.weight = torch.ones(3, requires_grad=True)

    def counts(self) -> list[int]:
        everything = (
            self.generator,
            self.shape,
            self.weight,
            torch.float64,
            None,
            True,
            False,
            ...,
        )
        return [sys.getrefcount(each) for each in everything]


@pytest.mark.parametrize("stats", [False, True], ids=["overflow", "stats"])
def test_references_and_memory_stay_flat_over_many_steps(tmp_path: Path, stats: bool) -> None:
    held = Held()
    optimizer = torch.optim.SGD([held.weight], lr=1e-6)
    rng = random.Random(3)
    measured: list[tuple[list[int], int, int, tuple[int, ...]]] = []
    native: Any = matcher.load()

    def step() -> None:
        total = held.weight.sum()
        for _ in range(rng.randint(2, 9)):
            drawn = torch.rand(3, generator=held.generator, dtype=torch.float64).float()
            seen = total.expand(held.shape).t()
            total = total + (held.weight * drawn).sum() + seen[:2].mean()
            if rng.random() < 0.5:
                total = nn.functional.relu(total)
        total.backward()
        optimizer.step()
        optimizer.zero_grad()

    config = config_from_options(tmp_path, {}, stats=stats, overflow=not stats)
    with attach(config, starts_at_once=True) as capture:
        for number in range(2400):
            step()
            if number % 400 == 399:
                gc.collect()
                measured.append(
                    (
                        held.counts(),
                        sys.getallocatedblocks(),
                        len(gc.get_objects()),
                        native.living(),
                    )
                )
        assert capture.adapter.observer.tables.draft_count > 2400
    counts, blocks, objects, living = zip(*measured[2:], strict=True)
    for each in zip(*counts, strict=True):
        assert max(each) - min(each) < 800, counts  # less than one in two steps
    assert max(living) == min(living)
    assert max(objects) - min(objects) < 500, objects
    assert max(blocks) - min(blocks) < 5000, blocks
