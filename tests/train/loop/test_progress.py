"""The progress bar: loss, speed and time left on a terminal, nothing elsewhere."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from tests.train.nets import classifier, loader, sgd
from torch import nn

from sonde.train import Loop, LossMonitor, Model, ProgressBar, callbacks


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())


def test_a_terminal_shows_epoch_loss_speed_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.train.loop.progress._REFRESH_SECONDS", 0.0)
    console = terminal()
    network = classifier()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    model.train(2, loader(), [LossMonitor(0), ProgressBar(console)])
    text = shown(console)
    assert "epoch 1/2" in text
    assert "epoch 2/2" in text
    assert re.search(r"4/4 loss 0\.\d+ +[\d.]+ steps/s", text)
    assert re.search(r"\d:\d\d:\d\d", text)


def test_an_unknown_length_is_shown_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonde.train.loop.progress._REFRESH_SECONDS", 0.0)
    console = terminal()
    with callbacks(ProgressBar(console)) as cb:
        for _ in cb.steps(number for number in range(3)):
            cb.loss = 0.25
    text = shown(console)
    assert "epoch 1/?" in text
    assert "2/?" in text
    assert "loss 0.25" in text


def test_without_a_terminal_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    network = classifier()
    Model(network, nn.CrossEntropyLoss(), sgd(network)).train(1, loader())
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_the_progress_bar_can_be_switched_on_and_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    network = classifier()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    monkeypatch.setattr(ProgressBar, "is_useful", staticmethod(lambda: True))
    model.train(1, loader(), progress=False)
    assert capsys.readouterr().out == ""
    model.train(1, loader(), progress=True)
    assert "epoch 1/1" in capsys.readouterr().out


def test_the_progress_line_is_removed_when_training_fails() -> None:
    console = terminal()
    bar = ProgressBar(console)

    @callbacks(bar)
    def train(cb: Loop) -> None:
        for _ in cb.steps([1]):
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        train()
    assert bar._progress is None
