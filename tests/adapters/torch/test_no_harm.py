"""Observing never changes the result: losses and weights are equal bit for bit."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.trainings import TRAININGS
from tests.adapters.torch.watching import Watched, bare_and_watched, same, watch
from torch import nn


def run(train: Callable[[], Any]) -> tuple[Any, Watched]:
    torch.manual_seed(0)
    np.random.seed(0)
    with watch() as watched:
        return train(), watched


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_gives_the_same_bits_when_every_tensor_is_observed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the native matcher and with the Python one, which must observe the same."""
    train = TRAININGS[name]
    torch.manual_seed(0)
    np.random.seed(0)
    bare = train()
    found = []
    for matcher in ("native", "python"):
        monkeypatch.setenv("SONDE_MATCHER", matcher)
        seen, watched = run(train)
        reports = [line for line in watched.reports if "[evaluation-not-observed]" not in line]
        # This training updates its weights itself: torch does not say where its steps end.
        slugs = ["[no-step-yet]"] if name == "functional_transforms" else []
        assert [line.rpartition(" ")[2] for line in reports] == slugs
        assert same(bare, seen)
        assert watched.steps
        found.append(watched)
    native, twin = found
    assert native.steps.keys() == twin.steps.keys()
    for step, (graph, calls) in native.steps.items():
        assert graph.id == twin.graph(step).id
        for one, other in zip(calls, twin.calls(step), strict=True):
            assert (one.node, one.order, one.attributes) == (
                other.node,
                other.order,
                other.attributes,
            )
            assert [token is None for token in one.input_tokens] == [
                token is None for token in other.input_tokens
            ]


@pytest.mark.parametrize("matcher", ["native", "python"])
@pytest.mark.parametrize("name", ["an_mlp", "an_optimizer_step_inside_backward", "two_optimizers"])
@pytest.mark.parametrize("steps", ["1", "0|2", "1-4", "90"])
def test_a_training_gives_the_same_bits_when_steps_are_observed_now_and_then(
    name: str, steps: str, matcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONDE_MATCHER", matcher)
    bare, seen, watched = bare_and_watched(TRAININGS[name], steps=steps)
    assert watched.reports == []
    assert same(bare, seen)


def test_objects_that_a_program_releases_are_freed() -> None:
    """Frames keep the dict of variables that ``locals()`` returned."""
    gone: list[bool] = []

    def program() -> None:
        net = nn.Linear(4, 4)
        batch = torch.ones(2, 4)
        net(batch).sum().backward()
        known, network = weakref.ref(batch), weakref.ref(net)
        del batch, net
        gc.collect()
        gone.extend((known() is None, network() is None))

    program()
    with watch(starts_at_once=False, values=False) as seen:
        program()
    assert "batch" in {node.name for node in seen.graph().nodes}
    assert gone == [True] * 4


def test_variables_from_exec_and_locals_are_kept() -> None:
    def program() -> list[Any]:
        exec("hidden = 3")
        net = nn.Linear(4, 4)
        batch = torch.ones(2, 4)
        more = torch.ones(3, 4)
        later = net(batch)
        found = [eval("hidden"), sorted(locals())]
        own = locals()
        net(more).sum().backward()
        return [*found, own["hidden"], own["later"] is later, own["net"] is net]

    bare = program()
    with watch(starts_at_once=False) as seen:
        assert program() == bare
    assert {"batch", "own.more"} <= {node.name for node in seen.graph().nodes}


def test_a_tracer_that_calculates_leaves_the_program_its_variables() -> None:
    """After a tracer ran, Python writes the variables of a frame back from its dict."""
    lines: list[torch.Tensor] = []

    def tracer(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code is not program.__code__:
            return None
        if event == "line":
            lines.append(own.values.pop() + 1)
        return tracer

    def program() -> float:
        batch = torch.ones(2, 4)
        more = batch * 2
        return float((batch + more).sum())

    # No frame has a variable for it.
    own = SimpleNamespace(values=[torch.ones(2), torch.ones(2), torch.ones(2)])
    before = sys.gettrace()
    with watch() as seen:
        sys.settrace(tracer)
        try:
            assert program() == 24.0
        finally:
            sys.settrace(before)
    assert len(lines) == 3
    assert seen.reports == []
