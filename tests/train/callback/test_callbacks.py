"""The contract of callbacks, and each callback that comes with Sonde."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from tests.train.callback.echoing import echo_run, model
from tests.train.nets import classifier, loader
from torch import nn

from sonde.core.errors import UsageError
from sonde.core.running_training import first_bad_op, register_origin
from sonde.train import (
    Callback,
    History,
    LambdaCallback,
    LearningRateScheduler,
    LossMonitor,
    Model,
    NonFiniteLossError,
    RunArguments,
    RunContext,
    TimeMonitor,
    callbacks,
)


class TestTheContract:
    @pytest.mark.document(
        1,
        says="Callback base class: begin, epoch_begin, epoch_end, step_begin, step_end, end",
        how="`sonde.train.Callback`; also on_train_* and on_eval_*",
    )
    @pytest.mark.document(
        3,
        says="the callback list will execute the callback function in the defined order",
        how="the same",
    )
    def test_hooks_come_in_order_and_callbacks_in_the_order_of_the_list(self) -> None:
        events: list[str] = []

        class Tell(Callback):
            def __init__(self, name: str) -> None:
                self.name = name

            def __enter__(self) -> Callback:
                events.append(f"{self.name} enter")
                return self

            def __exit__(self, *error: object) -> None:
                events.append(f"{self.name} exit")

            def begin(self, run_context: RunContext) -> None:
                events.append(f"{self.name} begin")

            def epoch_begin(self, run_context: RunContext) -> None:
                events.append(f"{self.name} epoch_begin")

            def step_begin(self, run_context: RunContext) -> None:
                events.append(f"{self.name} step_begin")

            def on_train_step_end(self, run_context: RunContext) -> None:
                events.append(f"{self.name} step_end")

            def epoch_end(self, run_context: RunContext) -> None:
                events.append(f"{self.name} epoch_end")

            def end(self, run_context: RunContext) -> None:
                events.append(f"{self.name} end")

        model().train(1, loader(16), [Tell("a"), Tell("b")])
        step = ["step_begin", "step_end"]
        hooks = ["enter", "begin", "epoch_begin", *step, *step, "epoch_end", "end"]
        expected = [f"{name} {hook}" for hook in hooks for name in "ab"]
        assert events == [*expected, "b exit", "a exit"]

    def test_a_raising_callback_names_itself_and_keeps_its_type(self) -> None:
        class Broken(Callback):
            def epoch_end(self, run_context: RunContext) -> None:
                raise KeyError("oops")

        left: list[str] = []

        class Resource(Callback):
            def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
                left.append(type(error).__name__)

            def end(self, run_context: RunContext) -> None:
                left.append("end")

        with pytest.raises(KeyError, match="oops") as caught:
            model().train(1, loader(), [Resource(), Broken()])
        assert left == ["KeyError"]
        if sys.version_info >= (3, 11):
            note = "raised by callback Broken.on_train_epoch_end (epoch 1, step 4)"
            assert caught.value.__notes__ == [note]

    @pytest.mark.document(
        10,
        says="a training termination signal: `run_context.request_stop()`",
        how="the same; `epoch_end` and `end` are still called",
    )
    def test_a_stop_ends_the_epoch_and_the_run_properly(self) -> None:
        events: list[str] = []

        def stop(context: RunContext) -> None:
            assert not context.get_stop_requested()
            events.append("stop")
            context.request_stop()
            assert context.get_stop_requested()

        hooks = LambdaCallback(
            on_train_step_end=stop,
            on_train_epoch_end=lambda c: events.append("epoch_end"),
            on_train_end=lambda c: events.append("end"),
        )
        model().train(5, loader(), hooks)
        assert events == ["stop", "epoch_end", "end"]

    @pytest.mark.document(4)
    @pytest.mark.document(
        9,
        says="customize other variables and transfer them to the `cb_params` object (init_time)",
        how="the same: set an attribute or a key",
    )
    def test_arguments_are_attributes_and_keys_and_users_may_add(self) -> None:
        arguments = RunArguments(cur_step_num=3)
        arguments.mine = 5
        arguments["yours"] = 6
        assert (arguments["mine"], arguments.yours, arguments.get("none")) == (5, 6, None)
        del arguments.mine
        assert "mine" not in arguments
        with pytest.raises(AttributeError, match="did you mean 'cur_step_num'"):
            _ = arguments.cur_step_nun
        with pytest.raises(AttributeError, match="it has cur_step_num, yours"):
            _ = arguments.zzz
        with pytest.raises(AttributeError, match=r"write cb_params\['update'\]"):
            arguments.update = 1

    def test_something_else_than_a_callback_is_refused(self) -> None:
        with pytest.raises(UsageError, match=r"derive its class from sonde\.train\.Callback"):
            model().train(1, loader(), [print])  # type: ignore[list-item]

    def test_a_hook_that_is_not_overridden_is_not_called(self) -> None:
        class Strict(Callback):
            def __getattribute__(self, name: str) -> Any:
                assert not name.endswith("step_begin"), "looked up in the loop"
                return super().__getattribute__(name)

            def step_end(self, run_context: RunContext) -> None:
                pass

        callback = Strict()
        model().train(1, loader(), callback)

    def test_an_entering_callback_that_fails_leaves_the_entered_ones(self) -> None:
        left: list[str] = []

        class Good(Callback):
            def __exit__(self, *error: object) -> None:
                left.append("good")

        class Bad(Callback):
            def __enter__(self) -> Callback:
                raise OSError("no")

        with pytest.raises(OSError, match="no"):
            model().train(1, loader(), [Good(), Bad()])
        assert left == ["good"]


class TestLossMonitor:
    @pytest.mark.document(
        15,
        says="`LossMonitor` can output loss information in logs",
        how="`sonde.train.LossMonitor`: `epoch: 1 step: 1, loss is ...`",
    )
    def test_it_prints_the_reference_s_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        echo_run([2.5, 0.1], LossMonitor(), epochs=2)
        third = float(torch.tensor(0.1))
        assert capsys.readouterr().out.splitlines() == [
            "epoch: 1 step: 1, loss is 2.5",
            f"epoch: 1 step: 2, loss is {third}",
            "epoch: 2 step: 1, loss is 2.5",
            f"epoch: 2 step: 2, loss is {third}",
        ]

    def test_it_prints_every_nth_step(self, capsys: pytest.CaptureFixture[str]) -> None:
        echo_run([1.0, 2.0, 3.0, 4.0, 5.0], LossMonitor(2))
        assert capsys.readouterr().out.splitlines() == [
            "epoch: 1 step: 2, loss is 2.0",
            "epoch: 1 step: 4, loss is 4.0",
        ]

    @pytest.mark.document(
        16,
        says="when the loss value is `Nan` or `Inf`, the training terminates",
        how="the same words; under `sonde run --overflow` the first op with NaN or Inf is named "
        "too",
    )
    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
    def test_a_bad_loss_ends_training_with_the_reference_s_words(self, bad: float) -> None:
        with pytest.raises(ValueError, match="NAN or INF") as caught:
            echo_run([1.0, 1.0, bad, 1.0], LossMonitor(0))
        assert str(caught.value) == (
            "In epoch: 1 step: 3, loss is NAN or INF, training process cannot continue, "
            "terminating training."
        )
        assert isinstance(caught.value, NonFiniteLossError)
        assert caught.value.slug == "loss-not-finite"

    @pytest.mark.document(16)
    def test_the_op_is_named_when_an_observer_is_registered(self) -> None:
        unregister = register_origin(lambda: "Default/network-GateNet/log-op3 (net.py:12)")
        try:
            with pytest.raises(ValueError, match=r"came from Default/.*log-op3 \(net\.py:12\)\."):
                echo_run([float("nan")], LossMonitor())
        finally:
            unregister()
        unregister()
        assert first_bad_op() is None

    def test_an_observer_that_fails_or_knows_nothing_is_ignored(self) -> None:
        def broken() -> str | None:
            raise RuntimeError

        undo = [register_origin(lambda: "first"), register_origin(lambda: None)]
        undo.append(register_origin(broken))
        assert first_bad_op() == "first"
        for unregister in undo:
            unregister()

    def test_the_results_of_fit_are_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        made = model(metrics={"accuracy"})
        made.fit(1, loader(), loader(), callbacks=LossMonitor(0))
        accuracy = made.eval(loader())["accuracy"]
        line = f"Eval result: epoch 1, metrics: {{'accuracy': {accuracy!r}}}\n"
        assert capsys.readouterr().out == line

    def test_an_own_loop_without_a_loss_gets_a_hint(self) -> None:
        with (
            pytest.raises(UsageError, match=r"set cb\.loss in every step"),
            callbacks(LossMonitor()) as cb,
        ):
            for _ in cb.steps([1, 2]):
                pass


@pytest.mark.document(
    18,
    says="`TimeMonitor`",
    how="`sonde.train.TimeMonitor`: `Train epoch time: ... ms, per step time: ... ms`",
)
def test_time_monitor_prints_epoch_and_step_times(capsys: pytest.CaptureFixture[str]) -> None:
    model().train(2, loader(), [TimeMonitor(), TimeMonitor(data_size=2, data_time=True)])
    plain, timed, *_ = lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    numbers = [float(word) for word in plain.replace(",", "").split() if word[0].isdigit()]
    assert plain.startswith("Train epoch time: ")
    assert numbers[0] / 4 == pytest.approx(numbers[1], abs=0.001)
    assert "(data time: min " in timed


class TestLearningRateScheduler:
    def test_it_sets_every_group_from_rate_and_step(self) -> None:
        network = classifier()
        groups = [{"params": network[0].parameters()}, {"params": network[3].parameters()}]
        groups[1]["lr"] = torch.tensor(1.0)  # type: ignore[assignment]
        optimizer = torch.optim.SGD(groups, 0.5)
        seen: list[tuple[float, int]] = []

        def halve(rate: float, step: int) -> float:
            seen.append((rate, step))
            return rate / 2

        made = Model(network, nn.CrossEntropyLoss(), optimizer)
        made.train(1, loader(16), LearningRateScheduler(halve))
        assert seen == [(0.5, 1), (1.0, 1), (0.25, 2), (0.5, 2)]
        assert optimizer.param_groups[0]["lr"] == 0.125
        assert isinstance(optimizer.param_groups[1]["lr"], torch.Tensor)
        assert float(optimizer.param_groups[1]["lr"]) == 0.25

    def test_a_rate_that_is_no_number_is_refused(self) -> None:
        with pytest.raises(UsageError, match="the learning rate for step 1 is nan"):
            model().train(1, loader(), LearningRateScheduler(lambda rate, step: float("nan")))
        with pytest.raises(UsageError, match="needs a function"):
            LearningRateScheduler(0.1)  # type: ignore[arg-type]


@pytest.mark.document(13)
def test_history_keeps_losses_and_results() -> None:
    history = History()
    made = model(metrics={"accuracy"})
    made.fit(2, loader(), loader(), callbacks=history)
    assert history.epoch == {"epoch": [1, 2]}
    assert list(history.history) == ["net_output", "eval_accuracy"]
    assert [type(value) for value in history.history["net_output"]] == [float, float]
    assert history.history["eval_accuracy"][-1] == made.eval(loader())["accuracy"]
