"""The compiler neither compiles Sonde's code nor warns about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import torch
from tests.adapters.torch.modes import MODES, observed
from tests.adapters.torch.watching import same
from torch import nn
from torch._dynamo import convert_frame

import sonde

OWN = str(Path(sonde.__file__).parent)
pytestmark = pytest.mark.usefixtures("nothing_compiled")


def train(compile_step: Callable[[Any], Any]) -> list[torch.Tensor]:
    """A step that is compiled whole: forward, backward and optimizer; shapes change."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(given: torch.Tensor) -> None:
        net(given).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    compiled = compile_step(step)
    for number in range(10):
        compiled(torch.ones(3 + number % 3, 4) * number)
    return [each.detach().clone() for each in net.parameters()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compiles_autograd", [False, True])
def test_no_frame_of_sonde_is_compiled(
    compiles_autograd: bool,
    mode: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    met: list[CodeType] = []
    original: Any = convert_frame._compile

    def compile_frame(code: CodeType, *args: Any, **kwargs: Any) -> Any:
        met.append(code)
        return original(code, *args, **kwargs)

    monkeypatch.setattr(convert_frame, "_compile", compile_frame)
    with torch._dynamo.config.patch(compiled_autograd=compiles_autograd):
        with observed(mode, tmp_path):
            seen = train(lambda step: torch.compile(step, backend="eager"))
        told = capfd.readouterr().err
        torch._dynamo.reset()
        bare = train(lambda step: torch.compile(step, backend="eager"))
    assert same(bare, seen)
    assert any(code.co_name == "step" for code in met)
    assert not [code for code in met if code.co_filename.startswith(OWN)]
    assert "recompile" not in told
    assert OWN not in told
