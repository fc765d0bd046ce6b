"""A step is executed again bit for bit, and the training goes on as if it had not been."""

from __future__ import annotations

import os
import subprocess
import sys
from json import loads
from pathlib import Path
from socket import socket
from typing import Any

import pytest
import torch
from tests.adapters.torch.fitting import Training
from tests.adapters.torch.loop_trainings import TRAININGS as LOOPS
from tests.adapters.torch.network_trainings import TRAININGS as NETWORKS
from tests.adapters.torch.odd_trainings import TRAININGS as ODD
from tests.adapters.torch.replay.model_trainings import TRAININGS as MODELS
from tests.adapters.torch.replay.recording import bare_and_recorded
from tests.adapters.torch.replay.replay_trainings import TRAININGS as HARD
from tests.adapters.torch.tensor_trainings import TRAININGS as TENSORS
from tests.adapters.torch.watching import same

ALL: dict[str, Training] = {**NETWORKS, **LOOPS, **TENSORS, **ODD, **HARD}

# What is not executed again, and why.
NOT_RUN = {
    "an_optimizer_step_inside_backward": "optimizer_inside",
    "an_optimizer_step_inside_forward": "optimizer_inside",
}
# Only the steps from the second on: the first shows what has to be kept.
LEARNED = {
    "complex_numbers": "outside_unseen",
    "odd_tensors": "outside_unseen",
    "in_place_and_views": "outside_unseen",
    "inputs_that_are_overwritten": "input_changed",
}
# Hooks and functions of the program run in a replay, too, and count their calls.
COUNTS_CALLS = {"hooks_of_the_program", "functions_with_effects"}
# Updates its weights itself, without an optimizer.
WITHOUT_STEPS = {"functional_transforms"}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")
def test_every_step_is_repeated_exactly_and_the_training_is_not_changed(name: str) -> None:
    bare, seen, found = bare_and_recorded(ALL[name])
    assert found.errors == []
    assert same(bare[1:], seen[1:]) if name in COUNTS_CALLS else same(bare, seen)
    if name in WITHOUT_STEPS:
        assert found.executions == []
    elif name in NOT_RUN:
        assert not any(each.was_run for each in found.executions)
        assert NOT_RUN[name] in found.reasons
    else:
        first = 1 if name in LEARNED else 0
        assert len(found.executions) > first
        assert [each.differences for each in found.executions[first:] if not each.is_exact] == []
        assert all(each.is_exact for each in found.executions[first:])
        assert name not in LEARNED or LEARNED[name] in found.reasons


@pytest.mark.parametrize("name", MODELS)
def test_models_of_a_library_are_repeated_exactly(name: str) -> None:
    pytest.importorskip("transformers")
    bare, seen, found = bare_and_recorded(MODELS[name])
    assert found.errors == []
    assert same(bare, seen)
    assert found.reasons == set()
    assert [each.is_exact for each in found.executions] == [True, True]


def ddp_rank(how: str, tmp_path: Path) -> dict[str, Any]:
    """What the second of two ranks of DDP found when it executed its steps again."""
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    path = tmp_path / "found.json"
    module = "tests.adapters.torch.replay.ddp_ranks"
    command = [sys.executable, "-W", "ignore", "-m", module, port, str(path), how]
    subprocess.run(command, check=True, timeout=800, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found: dict[str, Any] = loads(path.read_text())
    assert found["errors"] == []
    assert found["same"]
    return found


@pytest.mark.parametrize("how", ["plain", "around"])
def test_a_rank_of_ddp_repeats_its_step_alone(how: str, tmp_path: Path) -> None:
    """A replay that took part in a collective would wait for the other rank for ever."""
    found = ddp_rank(how, tmp_path)
    assert found["exact"] == [True] * 4
    assert found["reasons"] == ["reduced_gradients"]
    assert found["rows"] == [None, None, None, [2]]
    assert found["micro_batches"] == [None, None, None, 1]


def test_a_rank_of_compiled_ddp_does_not_repeat_its_step(tmp_path: Path) -> None:
    found = ddp_rank("compiled", tmp_path)
    assert found["exact"] == [False] * 4
    assert "collective" in found["reasons"]


def test_the_generators_are_where_they_were() -> None:
    """Also those of Python and numpy, which a loader may use between two steps."""

    def train() -> Any:
        import random

        import numpy as np

        random.seed(1)
        net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        drawn = []
        for _ in range(2):
            net(torch.rand(2, 3)).sum().backward()
            optimizer.step()
            drawn += [random.random(), float(np.random.rand()), float(torch.rand(()))]
        return drawn

    bare, seen, found = bare_and_recorded(train)
    assert bare == seen
    assert all(each.is_exact for each in found.executions)
