"""No way gives the all-clear on a run that was not observed as a whole; each says why.

The trainings here have a loss of NaN where Sonde does not see it.
"""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.dumping import config
from tests.debugger.driving import driven
from tests.debugger.hub import Hub
from tests.watch.ways import specs
from torch import nn

from sonde.adapters.torch.attach import attach
from sonde.adapters.torch.eager.op_learning import Learner
from sonde.cli.main import main
from sonde.dump.reader import Dump
from sonde.wire.rank import Notice

OVERFLOW = {"debug_mode": "overflow", "overflow_number": 0}


def train(steps: int = 4, bad: int | None = None) -> None:
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        loss = net(torch.randn(2, 4)).pow(2).sum()
        if step == bad:
            loss = torch.log(-loss)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def in_thread() -> None:
    thread = threading.Thread(target=lambda: train(bad=2), name="trainer")
    thread.start()
    thread.join()


def failing() -> None:
    """Observation fails at the first new op of step 2."""
    original = Learner.learn
    try:
        train(2)
        Learner.learn = _raise  # type: ignore[method-assign]
        train(2, bad=0)
    finally:
        Learner.learn = original  # type: ignore[method-assign]


def _raise(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a fault of Sonde's")


def nothing() -> None:
    """As a program that ends before its first op."""


def one_op() -> None:
    """As a program that ends before its first step does."""
    nn.Linear(2, 2)(torch.ones(1, 2))


UNOBSERVED: dict[str, tuple[Callable[[], None], str, str]] = {
    "in_thread": (in_thread, "other_thread", "thread 'trainer'"),
    "failing": (failing, "observation_failed", "observation failed in step 2"),
    "nothing": (nothing, "nothing_ran", "no op of a training step ran"),
}


def overflow_of(path: Path, training: Callable[[], None], **options: Any) -> tuple[Any, str]:
    """The verdict in ``overflow.json``, and the last line on stderr."""
    error = io.StringIO()
    observing = attach(config(path, **OVERFLOW, **options), starts_at_once=False)
    with contextlib.redirect_stderr(error), observing:
        training()
    told = json.loads((path / "rank_0" / "overflow.json").read_text())
    kept = json.loads((path / "rank_0" / ".dump_metadata" / "observation.json").read_text())
    assert told["observed"] == kept
    return told, error.getvalue().splitlines()[-1]


@pytest.mark.parametrize("name", UNOBSERVED)
def test_a_run_that_was_not_observed_has_no_verdict(name: str, tmp_path: Path) -> None:
    training, reason, text = UNOBSERVED[name]
    told, said = overflow_of(tmp_path, training)
    assert told["verdict"] == "unknown"
    assert reason in [gap["reason"] for gap in told["observed"]["gaps"]]
    assert not told["observed"]["is_complete"]
    assert text in said
    assert said.startswith("sonde: nothing is known about NaN and Inf")
    slug = "[partly-observed]" if name == "failing" else "[nothing-observed]"
    assert said.endswith(slug)


@pytest.mark.parametrize("name", UNOBSERVED)
def test_the_check_of_its_dump_is_no_all_clear(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    training, _, text = UNOBSERVED[name]
    with attach(config(tmp_path), starts_at_once=False):
        training()
    assert [each.is_gap for each in Dump(tmp_path).problems][:1] == [True]
    capfd.readouterr()
    assert main(["view", "--check", str(tmp_path)]) == 2
    said = capfd.readouterr().out
    assert said.startswith("no hits in what was observed\nnot observed: ")
    assert text in said


@pytest.mark.parametrize("name", ["in_thread", "failing"])
def test_the_debugger_is_told(name: str) -> None:
    training, _, _ = UNOBSERVED[name]
    hub = Hub(paused=False, watchpoints=specs())
    _, rank = driven(training, lambda rank: rank.ended(), hub=hub)
    assert [each.slug for each in rank.all(Notice) if each.is_gap] == [
        "other-thread" if name == "in_thread" else "capture-failed"
    ]


def test_a_run_that_was_observed_is_finite(tmp_path: Path) -> None:
    told, said = overflow_of(tmp_path, train)
    assert told["verdict"] == "finite"
    assert told["origin"] is None
    assert told["observed"] == {
        "steps": 4,
        "incomplete_steps": 0,
        "unobserved_steps": 0,
        "is_complete": True,
        "gaps": [],
    }
    assert said == "sonde: every value of the observed steps was finite"


def test_a_program_that_ends_before_a_step_does_is_told_so(tmp_path: Path) -> None:
    told, said = overflow_of(tmp_path, one_op)
    assert (told["observed"]["steps"], told["observed"]["incomplete_steps"]) == (0, 1)
    assert said == "sonde: every value that was observed was finite; no step ended"


@pytest.mark.parametrize(
    ("options", "reason", "text"),
    [
        ({"steps": "0-1"}, "steps_not_selected", "only the selected steps were observed"),
        ({"ops": ("addmm",)}, "ops_not_selected", "only the selected ops were observed"),
    ],
)
def test_a_selection_is_part_of_the_sentence(
    options: dict[str, Any], reason: str, text: str, tmp_path: Path
) -> None:
    told, said = overflow_of(tmp_path, train, **options)
    assert told["verdict"] == "finite"
    assert [gap["reason"] for gap in told["observed"]["gaps"]] == [reason]
    assert said.endswith(f"was finite ({text})")


def test_a_fault_is_named_also_if_the_rest_was_not_observed(tmp_path: Path) -> None:
    def training() -> None:
        train(2, bad=1)
        in_thread()

    told, said = overflow_of(tmp_path, training)
    assert told["verdict"] == "fault"
    assert (told["origin"]["op"], told["origin"]["step"]) == ("Default/log-op0", 1)
    assert "thread 'trainer'" in said
