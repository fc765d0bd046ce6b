"""NaN and Inf inside compiled graphs: the op that made the first is named, with its line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.dumping import config
from torch import nn

from sonde.adapters.torch.attach import attach
from sonde.capture.options import config_from_options
from sonde.dump.reader import Dump

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("nothing_compiled"),
]


def a_logarithm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.sigmoid(x * w) - 2
    y = torch.log(y)  # here
    return torch.tanh(y * 3 + 1)


def an_exponential(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (x * w) ** 2 + 1
    y = torch.exp(y * 1000)  # here
    return y / (y + 1)


def a_division(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * w
    zero = y - y
    y = y / zero  # here
    return torch.relu(y) + 1


def half_precision(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    # Compiled code keeps y * y in float32, so that the loss is finite; its gradient is not.
    y = (torch.sigmoid(x * w) + 1).half() * 200  # here
    y = y * y * 2
    return (y - 1).float()


def a_root_in_backward(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * w
    y = y - y
    y = torch.sqrt(y)  # here
    return y + 1


def an_arc_cosine_in_backward(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * w
    y = y - y + 1
    y = torch.acos(y)  # here
    return torch.tanh(y) * 2


CASES: dict[Callable[..., torch.Tensor], tuple[str, str]] = {
    a_logarithm: ("Default/log-op0", "forward"),
    an_exponential: ("Default/exp-op0", "forward"),
    a_division: ("Default/div-op0", "forward"),
    half_precision: ("Gradients/Default/mul-op", "backward"),
    a_root_in_backward: ("Gradients/Default/div-op", "backward"),
    an_arc_cosine_in_backward: ("Gradients/Default/", "backward"),
}


def run(function: Callable[..., torch.Tensor], place: Path, **options: Any) -> str:
    torch.manual_seed(0)
    made = config_from_options(str(place), {}, overflow=True, net_name="Net")
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with attach(made, starts_at_once=True, **options):
        compiled = torch.compile(function, fullgraph=True)
        for _ in range(2):
            optimizer.zero_grad()
            compiled(torch.rand(3, 4) + 0.5, weight).sum().backward()
            optimizer.step()
    return function.__name__


@pytest.mark.parametrize("function", CASES, ids=lambda each: each.__name__)
def test_the_first_producer_is_named_with_its_line(
    function: Callable[..., torch.Tensor], tmp_path: Path, capsys: Any
) -> None:
    run(function, tmp_path)
    said = capsys.readouterr().err
    lines, first = inspect.getsourcelines(function)
    offset = next(number for number, line in enumerate(lines) if "# here" in line)
    name, phase = CASES[function]
    told = name.replace("Gradients/Default/", "Backward/").removeprefix("Default/")
    assert f" in step 0, {phase}" in said
    assert f", at test_overflow.py:{first + offset} `{lines[offset].strip()}` ({told}" in said
    _, entries = next(iter(Dump(tmp_path).overflow(0)))
    producers = [entry for entry in entries if entry.role == "producer"]
    assert any(each.op.startswith(name) and each.phase == phase for each in producers)


def test_a_healthy_compiled_training_is_called_finite(tmp_path: Path, capsys: Any) -> None:
    def healthy(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * w, -1)

    run(healthy, tmp_path)
    assert "every value of the observed steps was finite" in capsys.readouterr().err


def test_an_op_that_raises_inside_a_kernel_is_found_with_its_inputs(
    tmp_path: Path, capsys: Any
) -> None:
    table = nn.Parameter(torch.ones(5, 2))

    def looked_up(where: torch.Tensor) -> torch.Tensor:
        return torch.tanh(table[where * 2] + 1)

    made = config(tmp_path, debug_mode="exception")
    with attach(made, starts_at_once=True), pytest.raises(RuntimeError):
        torch.compile(looked_up)(torch.tensor([0, 1, 7]))
    said = capsys.readouterr().err
    line = inspect.getsourcelines(looked_up)[1] + 1
    assert f"test_overflow.py:{line} raised RuntimeError; its inputs are" in said
    files = sorted(tmp_path.rglob("*.npy"))
    assert [file.name.split(".")[0] for file in files] == ["index", "index"]
