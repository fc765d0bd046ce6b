"""Observing never changes the result: losses and weights are equal bit for bit."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from tests.adapters.trainings import TRAININGS
from tests.adapters.watching import bare_and_watched, same

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=["native", "python"])
def matcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "native":
        pytest.importorskip("sonde.adapters.torch._match")
    monkeypatch.setenv("SONDE_MATCHER", request.param)
    return str(request.param)


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_gives_the_same_bits_when_every_tensor_is_looked_at(
    name: str, matcher: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bare, seen, watched = bare_and_watched(TRAININGS[name])
    assert watched.reports == []
    assert same(bare, seen)
    assert watched.steps


@pytest.mark.parametrize("name", TRAININGS)
def test_native_matcher_and_its_twin_see_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sonde.adapters.torch._match")
    found: list[Any] = []
    for choice in ("native", "python"):
        monkeypatch.setenv("SONDE_MATCHER", choice)
        _, _, watched = bare_and_watched(TRAININGS[name])
        found.append(
            {
                step: (graph.id, [(seen.node, seen.order, seen.attributes) for seen in calls])
                for step, (graph, calls) in watched.steps.items()
            }
        )
    native, twin = found
    assert native.keys() == twin.keys()
    for step in native:
        assert native[step][0] == twin[step][0]
        for one, other in zip(native[step][1], twin[step][1], strict=True):
            assert one == other


@pytest.mark.parametrize("name", ["an_mlp", "an_optimizer_step_inside_backward", "two_optimizers"])
@pytest.mark.parametrize("steps", ["1", "0|2", "1-4", "90"])
def test_a_training_gives_the_same_bits_when_steps_are_observed_now_and_then(
    name: str, steps: str, matcher: str
) -> None:
    bare, seen, watched = bare_and_watched(TRAININGS[name], steps=steps)
    assert watched.reports == []
    assert same(bare, seen)
