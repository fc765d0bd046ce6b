"""Steps are numbered as the training's own logs do, also after a resume."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from tests.adapters.torch.dumping import dumping
from tests.adapters.torch.watching import watch
from tests.debugger.driving import driven
from tests.debugger.hub import Hub
from torch import nn

from sonde.core.running_training import begin_counting_at, step_text
from sonde.dump.reader import Dump

Optimizer = type[torch.optim.Optimizer]


def train(
    state: dict[str, Any] | None = None, *, steps: int = 2, kind: Optimizer = torch.optim.Adam
) -> dict[str, Any]:
    """Train, after loading ``state`` as a script that resumes does; the state at the end."""
    net = nn.Linear(4, 2)
    optimizer = kind(net.parameters(), lr=0.1)  # type: ignore[call-arg]
    if state is not None:
        optimizer.load_state_dict(state)
    for _ in range(steps):
        net(torch.ones(3, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer.state_dict()


@pytest.mark.parametrize("starts_at_once", [True, False])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop])
def test_a_resumed_training_goes_on_counting(kind: Optimizer, starts_at_once: bool) -> None:
    state = train(steps=3, kind=kind)
    with watch(starts_at_once=starts_at_once) as seen:
        train(state, kind=kind)
    assert list(seen.steps) == [3, 4]
    assert seen.complete == {3: True, 4: True}
    (line,) = seen.reports
    assert "numbered from 3" in line
    assert line.endswith("[resumed]")


def test_the_wanted_steps_are_those_of_the_whole_training() -> None:
    state = train(steps=3)
    with watch(steps="4") as seen:
        train(state, steps=3)
    assert list(seen.steps) == [4]
    with watch(steps="0-2") as early:
        train(state, steps=3)
    assert list(early.steps) == []
    assert "the steps to observe all lie before that" in early.reports[0]


def test_the_updates_of_several_optimizers_add_up() -> None:
    state = train(steps=3)
    one, two = nn.Linear(4, 2), nn.Linear(4, 2)
    optimizers = [torch.optim.Adam(net.parameters()) for net in (one, two)]
    with watch() as seen:
        for optimizer in optimizers:
            optimizer.load_state_dict(state)
        (one(torch.ones(3, 4)) + two(torch.ones(3, 4))).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    assert list(seen.steps) == [6, 7]


def test_a_state_that_is_loaded_later_or_says_nothing_changes_no_number() -> None:
    plain = train(kind=torch.optim.SGD)
    with watch() as seen:
        train(plain, kind=torch.optim.SGD)
        train(train(steps=3))
    assert list(seen.steps) == list(range(2 + 3 + 2))
    assert seen.reports == []


def test_the_number_that_the_user_gave_holds() -> None:
    state = train(steps=3)
    with watch(initial_step=20) as seen:
        train(state)
    assert list(seen.steps) == [20, 21]


def test_the_directories_of_a_dump_are_named_so(tmp_path: Path) -> None:
    state = train(steps=3)
    with dumping(tmp_path):
        train(state)
    assert Dump(tmp_path).problems == ()
    assert Dump(tmp_path).steps() == (3, 4)


def test_a_training_loop_may_say_where_it_goes_on() -> None:
    with watch() as seen:
        begin_counting_at(7)
        train(kind=torch.optim.SGD)
    assert list(seen.steps) == [7, 8]


def test_the_debugger_counts_likewise() -> None:
    state = train(steps=3)
    _, rank = driven(lambda: train(state), lambda rank: None, hub=Hub(paused=False))
    assert [each.point.step for each in rank.steps] == [3, 4]


# ------------------------------------------------------------------------- trainers


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A trainer as transformers has it, that has done five steps."""
    module = ModuleType("transformers.trainer")
    kind = type("Trainer", (), {})
    vars(module)["Trainer"] = kind
    monkeypatch.setitem(sys.modules, "transformers.trainer", module)
    made: Any = kind()
    made.state = SimpleNamespace(global_step=5)
    return made


@pytest.mark.parametrize("steps", ["all", "6"])
def test_a_trainer_says_how_many_steps_were_done(trainer: Any, steps: str) -> None:
    with watch(steps=steps, starts_at_once=False) as seen:
        train(kind=torch.optim.SGD)
        assert step_text(6) == "step 6 (the Trainer's step 7)"
    assert list(seen.steps) == ([5, 6] if steps == "all" else [6])
    assert step_text(6) == "step 6"


def test_a_training_from_the_start_is_named_as_in_the_trainers_log(
    trainer: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trainer.state.global_step = 0
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with dumping(tmp_path, debug_mode="overflow"):
        for zero in (1.0, 0.0):
            (net(torch.ones(3, 4)).sum() / torch.tensor(zero)).backward()
            optimizer.step()
    assert "in step 1 (the Trainer's step 2), forward" in capfd.readouterr().err


def test_of_several_trainers_none_is_asked(trainer: Any) -> None:
    other = type(trainer)()
    other.state = SimpleNamespace(global_step=9)
    with watch() as seen:
        train()
        assert step_text(1) == "step 1"
    assert list(seen.steps) == [0, 1]


def test_of_several_trainers_the_one_that_trains_is_asked(trainer: Any) -> None:
    type(trainer).train = lambda self: train(kind=torch.optim.SGD)
    other = type(trainer)()
    other.state = SimpleNamespace(global_step=9)
    with watch() as seen:
        other.train()
        assert step_text(9) == "step 9 (the Trainer's step 10)"
    assert list(seen.steps) == [9, 10]


def test_a_trainer_without_a_state_is_no_trainer(trainer: Any) -> None:
    del trainer.state
    with watch() as seen:
        train()
    assert list(seen.steps) == [0, 1]
    assert seen.reports == []
