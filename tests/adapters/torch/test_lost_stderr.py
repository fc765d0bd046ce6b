"""A program may close ``sys.stderr``, or put anything in its place: it ends as it does without."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.modes import MODES, observed
from torch import nn

from sonde import logs
from sonde.core.text.terminal_text import is_stderr_terminal, write_to_stderr


class Refusing:
    def write(self, text: str) -> int:
        raise OSError(5, "refused")

    def flush(self) -> None:
        raise RuntimeError("refused")

    def isatty(self) -> bool:
        raise ValueError("refused")


def _closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {"closed": _closed(), "none": None, "refusing": Refusing(), "object": object()}


@pytest.fixture(params=STREAMS)
def lost(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "stderr", STREAMS[request.param])
    return sys.stderr


@pytest.mark.parametrize("mode", MODES)
def test_a_training_with_lines_to_say_ends_without_an_exception(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, stream in enumerate(STREAMS.values()):
        net = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with observed(mode, tmp_path / str(number)) as capture:
            net(torch.ones(3, 4)).sum().backward()
            optimizer.step()
            monkeypatch.setattr(sys, "stderr", stream)
            net.eval()
            with torch.no_grad():
                net(torch.full((1, 4), torch.nan))  # Sonde has two lines to say about this.
            net.train()
            net(torch.full((3, 4), torch.inf)).sum().backward()
            optimizer.step()
            capture.adapter._session.report("sonde: a line")
            assert capture.adapter.is_observing
        monkeypatch.undo()


def test_lines_and_progress_for_a_lost_stderr_are_dropped(lost: Any) -> None:
    write_to_stderr("\rsonde: writing")
    assert not is_stderr_terminal()


def test_log_messages_for_a_lost_stderr_are_dropped(lost: Any) -> None:
    logs.configure({}, rank=0)
    try:
        logging.getLogger("sonde.capture").error("a message")
    finally:
        logs.reset()
