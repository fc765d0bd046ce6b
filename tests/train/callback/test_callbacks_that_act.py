"""Callbacks that stop a run, lower its rate, save it or check its gradients."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.callback.echoing import echo_run, model
from tests.train.nets import classifier, loader, sgd
from torch import nn

from sonde.core.errors import SondeError, UsageError
from sonde.train import (
    Callback,
    EarlyStopping,
    GradientMonitor,
    History,
    LambdaCallback,
    Model,
    OnRequestExit,
    ReduceLROnPlateau,
    RunContext,
    SaveBest,
    StopAtTime,
    callbacks,
    load_checkpoint,
)


class Reports(Callback):
    """Gives each epoch a result, as an evaluation would."""

    def __init__(self, name: str, values: list[float]) -> None:
        self.name, self.values = name, values

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        arguments.eval_results = {self.name: self.values[arguments.cur_epoch_num - 1]}


def stopped_after(stopper: EarlyStopping, name: str, values: list[float]) -> int:
    """The number of epochs a run had whose epochs end with these results."""
    history = History()
    model().train(len(values), loader(32), [Reports(name, values), stopper, history])
    return len(history.epoch["epoch"])


class TestEarlyStopping:
    @pytest.mark.document(13)
    def test_it_stops_after_patience_epochs_without_improvement(self) -> None:
        values = [5.0, 4.0, 4.5, 3.0, 3.1, 3.2, 3.3, 0.0]
        assert stopped_after(EarlyStopping(patience=3), "eval_loss", values) == 7
        assert stopped_after(EarlyStopping(patience=0), "eval_loss", values) == 3

    def test_accuracy_is_better_when_larger(self) -> None:
        stopper = EarlyStopping("eval_accuracy", patience=1)
        assert stopped_after(stopper, "eval_accuracy", [0.1, 0.2, 0.3, 0.25, 0.9]) == 4
        stopper = EarlyStopping("eval_accuracy", patience=1, mode="min")
        assert stopped_after(stopper, "eval_accuracy", [0.1, 0.2, 0.3]) == 2

    def test_small_changes_and_a_baseline_do_not_count(self) -> None:
        stopper = EarlyStopping(min_delta=0.5, patience=2)
        assert stopped_after(stopper, "eval_loss", [5.0, 4.6, 4.51, 1.0]) == 3
        stopper = EarlyStopping(baseline=1.0, patience=2)
        assert stopped_after(stopper, "eval_loss", [5.0, 4.0, 3.0]) == 2

    def test_nan_is_no_improvement(self) -> None:
        nan = float("nan")
        assert stopped_after(EarlyStopping(patience=2), "eval_loss", [nan, nan, 1.0]) == 2

    def test_the_best_weights_come_back(self, capsys: pytest.CaptureFixture[str]) -> None:
        network = classifier()
        weights: list[torch.Tensor] = []
        note = LambdaCallback(
            on_train_epoch_end=lambda c: weights.append(network[0].weight.detach().clone())
        )
        stopper = EarlyStopping(patience=2, restore_best_weights=True, verbose=True)
        listed = [note, Reports("eval_loss", [3.0, 1.0, 2.0, 2.0, 0.0]), stopper]
        Model(network, nn.CrossEntropyLoss(), sgd(network)).train(5, loader(), listed)
        assert len(weights) == 4
        assert torch.equal(network[0].weight.detach(), weights[1])
        assert capsys.readouterr().out == "Epoch 4: early stopping, best eval_loss 1.0\n"

    def test_a_monitored_result_that_is_never_evaluated_is_a_warning_with_advice(self) -> None:
        with pytest.warns(UserWarning, match="'eval_loss' was not evaluated in epoch 1"):
            model().train(1, loader(), EarlyStopping())

    def test_the_loss_can_be_watched_without_evaluation(self) -> None:
        history = History()
        with pytest.raises(SondeError, match="mode"):
            EarlyStopping(mode="up")
        echo_run([1.0], [EarlyStopping("loss", patience=1), history], epochs=5)
        assert history.epoch == {"epoch": [1, 2]}


class TestReduceLROnPlateau:
    def rates(self, values: list[float], **options: Any) -> list[float]:
        network = classifier()
        optimizer = sgd(network, 1.0)
        rates: list[float] = []
        lower = ReduceLROnPlateau(**options)
        note = LambdaCallback(
            on_train_epoch_end=lambda c: rates.append(optimizer.param_groups[0]["lr"])
        )
        listed = [Reports("eval_loss", values), lower, note]
        Model(network, nn.CrossEntropyLoss(), optimizer).train(len(values), loader(32), listed)
        return rates

    @pytest.mark.document(13)
    def test_the_patience_th_bad_epoch_lowers_the_rate(self) -> None:
        rates = self.rates([1.0] * 6, factor=0.5, patience=2)
        assert rates == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]

    def test_improvement_starts_the_count_again(self) -> None:
        rates = self.rates([5.0, 5.0, 4.0, 4.0, 4.0], factor=0.1, patience=2)
        assert rates == [1.0, 1.0, 1.0, 1.0, 0.1]

    def test_cooldown_floor_and_small_changes(self) -> None:
        assert self.rates([1.0] * 5, factor=0.5, patience=1, cooldown=2) == [1, 0.5, 0.5, 0.5, 0.25]
        assert self.rates([1.0] * 4, factor=0.1, patience=1, min_lr=0.05) == [1, 0.1, 0.05, 0.05]
        assert self.rates([1.0, 0.9, 0.8], factor=0.1, patience=1, min_delta=0.5)[-1] < 0.011

    def test_verbose_prints_a_message(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.rates([1.0, 1.0], factor=0.5, patience=1, verbose=True)
        assert capsys.readouterr().out == "Epoch 2: learning rate [1.0] lowered to [0.5]\n"

    def test_a_factor_that_raises_the_rate_is_refused(self) -> None:
        with pytest.raises(UsageError, match="0 <= factor < 1"):
            ReduceLROnPlateau(factor=1.5)


class TestStopping:
    @pytest.mark.document(11)
    def test_stop_at_time_ends_after_the_minutes(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = iter(range(0, 10_000, 100))
        monkeypatch.setattr("time.monotonic", lambda: next(clock))
        echo_run([1.0, 2.0, 3.0, 4.0], StopAtTime(4))
        assert capsys.readouterr().out == "epoch: 1 step: 3 loss: 3.0\n"
        with pytest.raises(UsageError, match="minutes"):
            StopAtTime(-1)

    @pytest.mark.document(13)
    def test_a_signal_saves_and_ends_the_run_and_the_old_handler_is_restored(
        self, tmp_path: Path
    ) -> None:
        before = signal.getsignal(signal.SIGUSR1)
        steps: list[int] = []

        def send(context: RunContext) -> None:
            steps.append(context.original_args().cur_step_num)
            if len(steps) == 2:
                os.kill(os.getpid(), signal.SIGUSR1)

        exit_cb = OnRequestExit(directory=tmp_path, file_name="net", sig=signal.SIGUSR1)
        made = model()
        made.train(9, loader(), [LambdaCallback(on_train_step_begin=send), exit_cb])
        assert steps == [1, 2]
        assert signal.getsignal(signal.SIGUSR1) is before
        saved = load_checkpoint(tmp_path / "net_train.ckpt")
        assert torch.equal(saved["0.weight"], made.network.state_dict()["0.weight"])
        more: list[int] = []
        note = LambdaCallback(
            on_train_step_end=lambda c: more.append(c.original_args().cur_step_num)
        )
        model().train(1, loader(), note, resume=tmp_path / "net_train.ckpt")
        assert more == [3, 4]

    def test_a_file_can_ask_too(self, tmp_path: Path) -> None:
        asks = tmp_path / "exit.json"
        steps: list[int] = []

        def write(context: RunContext) -> None:
            steps.append(context.original_args().cur_step_num)
            texts = {1: "{not yet", 2: json.dumps({"GracefulExit": 0}), 3: '{"GracefulExit": 1}'}
            asks.write_text(texts[len(steps)])

        exit_cb = OnRequestExit(save_ckpt=False, config_file=asks)
        model().train(9, loader(), [LambdaCallback(on_train_step_begin=write), exit_cb])
        assert steps == [1, 2, 3]

    def test_outside_the_main_thread_it_runs_without_a_signal_handler(self) -> None:
        failures: list[BaseException] = []

        def run() -> None:
            try:
                model().train(1, loader(), OnRequestExit(save_ckpt=False))
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert failures == []


class TestSaveBest:
    @pytest.mark.document(
        13,
        says="custom callbacks: monitor the loss, save model parameters, dynamically adjust "
        "parameters, terminate in advance",
        how="ready-made: SaveBest, EarlyStopping, ReduceLROnPlateau, History, LambdaCallback, "
        "OnRequestExit, GradientMonitor",
    )
    def test_it_keeps_the_best_of_what_fit_evaluates(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        network = classifier()
        weights: list[torch.Tensor] = []
        note = LambdaCallback(
            on_train_epoch_end=lambda c: weights.append(network[0].weight.detach().clone())
        )
        best = SaveBest("eval_score", mode="max", directory=tmp_path)
        listed = [note, Reports("eval_score", [0.1, 0.7, 0.3]), best]
        Model(network, nn.CrossEntropyLoss(), sgd(network)).train(3, loader(), listed)
        assert best.best == 0.7
        assert best.path == tmp_path / "best.ckpt"
        assert torch.equal(load_checkpoint(best.path)["0.weight"], weights[1])
        assert "best eval_score 0.7 saved to" in capsys.readouterr().out

    def test_it_evaluates_by_itself_every_step(self, tmp_path: Path) -> None:
        made = model(metrics={"accuracy"})
        best = SaveBest(
            "accuracy",
            made,
            loader(),
            every="step",
            directory=tmp_path,
            file_name="top",
            format="pt",
            verbose=False,
        )
        seen: list[float] = []
        note = LambdaCallback(on_train_step_end=lambda c: seen.append(best.best or 0.0))
        made.train(3, loader(), [best, note])
        assert seen == sorted(seen)
        copy = classifier(seed=5)
        load_checkpoint(tmp_path / "top.pt", copy)
        result = Model(copy, nn.CrossEntropyLoss(), metrics={"accuracy"}).eval(loader())
        assert result["accuracy"] == best.best

    def test_settings_that_cannot_work_are_refused(self) -> None:
        for options in ({"every": "hour"}, {"model": model()}, {"every": "step"}):
            with pytest.raises(UsageError, match="SaveBest"):
                SaveBest(**options)  # type: ignore[arg-type]


class TestGradientMonitor:
    def test_norms_and_updates_are_those_of_numpy(self) -> None:
        network = nn.Linear(2, 1, bias=False)
        with torch.no_grad():
            network.weight.copy_(torch.tensor([[3.0, 4.0]]))
        x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0]])
        # The loss is (3 - 0)^2: its gradient is (6, 0), the update 0.1 * 6 = 0.6, the norm was 5.
        monitor = GradientMonitor(verbose=False)
        optimizer = torch.optim.SGD(network.parameters(), 0.1)
        Model(network, nn.MSELoss(), optimizer).train(1, [(x, y)], monitor)
        (record,) = monitor.records
        assert (record.epoch, record.step) == (1, 1)
        assert record.report.total_norm == 6.0
        (state,) = record.report.gradients
        assert (state.norm, state.mean, state.zeros) == (6.0, 3.0, 0.5)
        name, ratio = record.largest_update
        assert name == "weight"
        assert ratio == pytest.approx(0.12, rel=1e-6)

    def test_it_prints_a_line_every_nth_step(self, capsys: pytest.CaptureFixture[str]) -> None:
        model().train(1, loader(), GradientMonitor(2))
        lines = capsys.readouterr().out.splitlines()
        assert [line.split(",")[0] for line in lines] == ["epoch: 1 step: 2", "epoch: 1 step: 4"]
        assert lines[0].startswith("epoch: 1 step: 2, gradient norm 0.")
        assert "zero or missing 0 of 4" in lines[0]

    def test_zero_missing_and_bad_gradients_are_named(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        class Odd(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.used = nn.Parameter(torch.ones(1))
                self.unused = nn.Parameter(torch.ones(1))
                self.dead = nn.Parameter(torch.ones(1))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return (self.used * x).sum() + 0 * self.dead.sum()

        network = Odd()
        monitor = GradientMonitor()
        optimizer = torch.optim.SGD(network.parameters(), 0.1)
        batches = [torch.tensor([2.0]), torch.tensor([float("inf")])]
        Model(network, optimizer=optimizer).train(1, batches, monitor)
        first, second = monitor.records
        assert first.report.named("zero") == ("dead",)
        assert first.report.named("missing") == ("unused",)
        assert second.report.named("not finite") == ("used",)
        assert "zero or missing 2 of 3" in capsys.readouterr().out.splitlines()[0]

    def test_watching_changes_no_number(self) -> None:
        def train(*listed: Callback) -> list[float]:
            network = classifier(dropout=0.5)
            history = History()
            made = Model(network, nn.CrossEntropyLoss(), sgd(network))
            made.train(3, loader(shuffle=True), [*listed, history])
            return history.history["net_output"]

        assert train(GradientMonitor(verbose=False)) == train()

    def test_without_a_network_it_says_what_it_needs(self) -> None:
        with (
            pytest.raises(UsageError, match="needs the network"),
            callbacks(GradientMonitor()) as cb,
        ):
            for _ in cb.steps([1]):
                pass
