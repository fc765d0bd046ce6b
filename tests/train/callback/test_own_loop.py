"""Callbacks in a loop of your own: ``with callbacks([...]) as cb`` and as a decorator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.nets import classifier, loader, sgd
from torch import nn

import sonde.train
from sonde.core.errors import UsageError
from sonde.train import (
    Callback,
    CheckpointConfig,
    EarlyStopping,
    History,
    LambdaCallback,
    Loop,
    LossMonitor,
    ModelCheckpoint,
    RunContext,
)


class Events(Callback):
    """Every hook with the counts of its moment."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def _note(self, name: str, context: RunContext) -> None:
        arguments = context.original_args()
        self.seen.append(f"{name} {arguments.cur_epoch_num}.{arguments.cur_step_num}")

    def begin(self, run_context: RunContext) -> None:
        self._note("begin", run_context)

    def epoch_begin(self, run_context: RunContext) -> None:
        self._note("epoch+", run_context)

    def step_end(self, run_context: RunContext) -> None:
        self._note("step", run_context)

    def epoch_end(self, run_context: RunContext) -> None:
        self._note("epoch-", run_context)

    def end(self, run_context: RunContext) -> None:
        self._note("end", run_context)


def test_the_whole_loop_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    network = classifier()
    optimizer = sgd(network)
    with sonde.train.callbacks([LossMonitor()], network=network, optimizer=optimizer) as cb:
        for _epoch in cb.epochs(2):
            for inputs, labels in cb.steps(loader(16)):
                optimizer.zero_grad()
                cb.loss = nn.functional.cross_entropy(network(inputs), labels)
                cb.loss.backward()
                optimizer.step()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "epoch: 1 step: 1",
        "epoch: 1 step: 2",
        "epoch: 2 step: 1",
        "epoch: 2 step: 2",
    ]


def test_hooks_and_counts_are_those_of_model_train() -> None:
    events = Events()
    with sonde.train.callbacks(events) as cb:
        for epoch in cb.epochs(2):
            assert cb.arguments.cur_epoch_num == epoch
            for _ in cb.steps([10, 20]):
                cb.loss = 1.0
    assert events.seen == [
        "begin 0.0",
        "epoch+ 1.0",
        "step 1.1",
        "step 1.2",
        "epoch- 1.2",
        "epoch+ 2.2",
        "step 2.3",
        "step 2.4",
        "epoch- 2.4",
        "end 2.4",
    ]


def test_steps_alone_are_one_epoch_each() -> None:
    events = Events()
    with sonde.train.callbacks(events) as cb:
        for _ in range(2):
            for _ in cb.steps([10]):
                cb.loss = 1.0
    assert events.seen[1:4] == ["epoch+ 1.0", "step 1.1", "epoch- 1.1"]
    assert events.seen[4:] == ["epoch+ 2.1", "step 2.2", "epoch- 2.2", "end 2.2"]


def test_a_break_ends_the_current_step_epoch_and_run() -> None:
    events = Events()
    with sonde.train.callbacks(events) as cb:
        for _ in cb.epochs(5):
            for number in cb.steps([1, 2, 3]):
                if number == 3:
                    break  # before its loss is set: this step did not happen
                cb.loss = float(number)
                if cb.arguments.cur_epoch_num == 2:
                    break  # after its loss is set: this step is done
            if cb.arguments.cur_epoch_num == 2:
                break
    assert events.seen == [
        "begin 0.0",
        "epoch+ 1.0",
        "step 1.1",
        "step 1.2",
        "epoch- 1.3",
        "epoch+ 2.3",
        "step 2.3",
        "epoch- 2.3",
        "end 2.3",
    ]


def test_an_error_in_the_loop_calls_no_hook_and_leaves_the_callbacks() -> None:
    events = Events()
    left: list[object] = []

    class Resource(Callback):
        def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
            left.append(kind)

    @sonde.train.callbacks([events, Resource()])
    def train(cb: Loop) -> None:
        for _ in cb.epochs(1):
            for _ in cb.steps([1]):
                cb.loss = 1 / 0

    with pytest.raises(ZeroDivisionError):
        train()
    assert events.seen == ["begin 0.0", "epoch+ 1.0"]
    assert left == [ZeroDivisionError]


def test_a_callback_can_stop_the_loop() -> None:
    steps: list[int] = []
    stop = LambdaCallback(on_train_step_end=lambda context: context.request_stop())
    with sonde.train.callbacks(stop) as cb:
        for _ in cb.epochs(3):
            for number in cb.steps([1, 2, 3]):
                steps.append(number)
                cb.loss = 0.0
        assert cb.stop_requested
    assert steps == [1]


def test_results_reported_to_the_loop_reach_the_callbacks() -> None:
    stopper, history = EarlyStopping("eval_loss", patience=2), History()
    with sonde.train.callbacks([stopper, history]) as cb:
        for epoch in cb.epochs(10):
            for _ in cb.steps([1]):
                cb.loss = 0.5
            cb.report(eval_loss=[3.0, 2.0, 2.5, 2.5][epoch - 1])
    assert history.history["eval_loss"] == [3.0, 2.0, 2.5, 2.5]
    assert stopper.stopped_epoch == 4


def test_as_a_decorator_each_call_is_a_run_of_its_own() -> None:
    events = Events()

    @sonde.train.callbacks(events)
    def train(cb: Loop, losses: list[float], *, epochs: int = 1) -> str:
        """What it does."""
        for _ in cb.epochs(epochs):
            for loss in cb.steps(losses):
                cb.loss = loss
        return "done"

    assert train.__doc__ == "What it does."
    assert train([1.0]) == "done"
    assert train([1.0], epochs=2) == "done"
    assert [event for event in events.seen if event.startswith(("begin", "end"))] == [
        "begin 0.0",
        "end 1.1",
        "begin 0.0",
        "end 2.2",
    ]


def test_a_loop_of_another_shape_calls_the_hooks_itself() -> None:
    events = Events()
    with sonde.train.callbacks(events) as cb:
        for loss in (3.0, 2.0):
            cb.step_begin()
            cb.step_end(loss)
        cb.epoch_end()
    assert events.seen == [
        "begin 0.0",
        "epoch+ 1.0",
        "step 1.1",
        "step 1.2",
        "epoch- 1.2",
        "end 1.2",
    ]


def test_checkpoints_work_and_hold_the_states_given(tmp_path: Path) -> None:
    network = classifier()
    optimizer = torch.optim.AdamW(network.parameters(), 0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    saver = ModelCheckpoint("own", tmp_path, CheckpointConfig(2))
    with sonde.train.callbacks(
        saver, network=network, optimizer=optimizer, scheduler=scheduler
    ) as cb:
        for _ in cb.epochs(1):
            for x, y in cb.steps(loader()):
                optimizer.zero_grad()
                cb.loss = nn.functional.cross_entropy(network(x), y)
                cb.loss.backward()
                optimizer.step()
            scheduler.step()
    state = sonde.train.load_training_state(tmp_path / "own-1_4.ckpt")
    assert state["position"] == {"epoch": 1, "step": 4, "step_in_epoch": 4, "inside": True}
    assert int(state["optimizer"]["state"][0]["step"]) == 4
    assert state["scheduler"]["last_epoch"] == 0


def test_an_empty_dataset_is_reported() -> None:
    with (
        pytest.raises(UsageError, match="gave no batch in epoch 1"),
        sonde.train.callbacks() as cb,
    ):
        for _ in cb.steps([]):
            pass


def test_a_loop_without_steps_calls_no_hook() -> None:
    events = Events()
    with sonde.train.callbacks(events):
        pass
    assert events.seen == []


def test_an_error_of_a_callback_at_the_end_still_leaves_the_others() -> None:
    left: list[object] = []

    class Resource(Callback):
        def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
            left.append(kind)

    def fail(context: RunContext) -> None:
        raise RuntimeError("at the end")

    @sonde.train.callbacks([Resource(), LambdaCallback(on_train_end=fail)])
    def train(cb: Loop) -> None:
        for _ in cb.steps([1]):
            cb.loss = 1.0

    with pytest.raises(RuntimeError, match="at the end"):
        train()
    assert left == [RuntimeError]
