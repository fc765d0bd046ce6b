"""Modes and tensor subclasses of the program see its own calls and none of Sonde's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from tests.adapters.torch.modes import MODES, observed
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


def _name(func: Any) -> str:
    owner = getattr(func, "__self__", "")
    return f"{getattr(owner, '__name__', '')}.{getattr(func, '__name__', func)}"


class FunctionLog(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen.append(_name(func))
        return func(*args, **(kwargs or {}))


class OpLog(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class LoggingTensor(torch.Tensor):
    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        cls.seen.append(_name(func))
        return super().__torch_function__(func, types, args, kwargs)


def train() -> None:
    """Plain and subclassed weights, a loss that is NaN once, evaluations, a loaded state."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 2))
    net[0].weight = nn.Parameter(torch.randn(8, 4).as_subclass(LoggingTensor))
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    other = torch.optim.SGD(net.parameters(), lr=0.1, foreach=True)
    for number in range(4):
        given = torch.randn(5, 4).as_subclass(LoggingTensor)
        loss = nn.functional.mse_loss(net(given), torch.zeros(5, 2))
        if number == 2:
            loss = loss + loss / 0 * 0
        loss.backward()
        optimizer.step()
        other.step()
        optimizer.zero_grad()
        optimizer.load_state_dict(optimizer.state_dict())
        net.eval()
        with torch.no_grad():
            net(torch.ones(2, 4)).numpy()
        net.train()


def seen_by(log: Any) -> tuple[list[str], list[str]]:
    LoggingTensor.seen = []
    with log:
        train()
    return log.seen, LoggingTensor.seen


@pytest.mark.parametrize("kind", [FunctionLog, OpLog])
@pytest.mark.parametrize("mode", MODES)
def test_a_mode_of_the_program_sees_what_it_sees_without_sonde(
    mode: str, kind: Any, tmp_path: Path
) -> None:
    bare = seen_by(kind())
    with observed(mode, tmp_path / "inside") as capture:
        assert seen_by(kind()) == bare
        assert capture.adapter.is_observing
    outer = kind()
    LoggingTensor.seen = []
    with outer, observed(mode, tmp_path / "around"):
        train()
    assert (outer.seen, LoggingTensor.seen) == bare


@pytest.mark.parametrize("mode", MODES)
def test_the_default_device_of_the_program_is_not_that_of_sonde(
    mode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def on_default_device() -> Sequence[torch.Tensor]:
        net = nn.Linear(4, 2, device="cpu")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            net(torch.ones(3, 4, device="cpu")).square().sum().backward()
            optimizer.step()
        return list(net.parameters())

    with torch.device("meta"), observed(mode, tmp_path):
        assert all(each.device.type == "cpu" for each in on_default_device())
    assert "failed" not in capfd.readouterr().err


FIRST_CAPTURE = """
import sys
from pathlib import Path
import torch
from torch.overrides import TorchFunctionMode
import sonde
from sonde.capture.options import config_from_options

class Log(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print(func)
        return func(*args, **(kwargs or {}))

config = config_from_options(Path(sys.argv[1]), {}, net_name="Net")
with Log(), sonde.capture(config):
    pass
"""


def test_a_mode_around_the_first_capture_of_a_process_sees_no_import_of_sonde(
    tmp_path: Path,
) -> None:
    """In a process of its own: only the first capture imports the modules that observe."""
    command = [sys.executable, "-c", FIRST_CAPTURE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
