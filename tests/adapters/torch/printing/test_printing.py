"""``sonde.print`` and the other print functions: exact texts, in order, at every step."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.printing.printing import BACKENDS, THE_DOCUMENT, PrintDemo, compiled
from torch import nn

import sonde
from sonde import ops
from sonde.core.errors import UsageError

pytestmark = [
    pytest.mark.usefixtures("nothing_compiled", "nothing_counted"),
]


@pytest.mark.document(89)
@pytest.mark.document(
    34,
    says="`Print` operator: ops.Print() in __init__, invoked in construct, strings and tensors",
    how="`sonde.ops.Print`, `sonde.print`: the same output, byte for byte; also in compiled code",
)
@pytest.mark.document(
    35,
    says="the `Print` operator is only supported in Ascend environment",
    how="CPU and GPU, eager and compiled",
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_example_of_the_document_prints_what_the_document_says(
    backend: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    x = torch.tensor(np.ones([2, 1]).astype(np.int32))
    y = torch.tensor(np.ones([2, 2]).astype(np.int32))
    net = compiled(PrintDemo(), backend)
    net(x, y)
    assert capsys.readouterr().out == THE_DOCUMENT
    net(x, y)
    assert capsys.readouterr().out == THE_DOCUMENT


@pytest.mark.parametrize("backend", BACKENDS)
def test_texts_numbers_and_tensors_mix_and_change_from_step_to_step(
    backend: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    def step(x: torch.Tensor, k: int, rate: float) -> torch.Tensor:
        sonde.print("step", k, "rate", rate, None, True, [1, "a", (2.5,)], x.shape)
        sonde.print((x, k))
        return x * 2

    run = compiled(step, backend)
    for k, rate in ((2, 0.5), (3, 0.25), (7, 0.125)):
        run(torch.ones(k), k, rate)
        ones = " ".join(["1."] * k)
        assert capsys.readouterr().out == (
            f"step\n{k}\nrate\n{rate}\nNone\nTrue\n[1, 'a', (2.5,)]\ntorch.Size([{k}])\n"
            f"(Tensor(shape=[{k}], dtype=Float32, value=\n[{ones}]), {k})\n"
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_numpy_values_and_other_objects(
    backend: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        sonde.print(np.arange(3), np.float32(2), {"a": 1}, x.dtype, x.device)
        return x

    compiled(step, backend)(torch.ones(2))
    assert capsys.readouterr().out == (
        "Tensor(shape=[3], dtype=Int64, value=\n[0 1 2])\n2.0\n{'a': 1}\ntorch.float32\ncpu\n"
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_prints_of_forward_and_backward_come_in_order_every_step(
    backend: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        sonde.print("begins")
        y = x * 3
        sonde.print_grad(y, "y")
        sonde.print("y", y)
        z = y.relu()
        z = sonde.print_grad(z, "z")
        sonde.print("z", z, "ends")
        return (z * z).sum()

    run = compiled(loss, backend)
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    expected = """\
begins
y
Tensor(shape=[2], dtype=Float32, value=
[ 3. -6.])
z
Tensor(shape=[2], dtype=Float32, value=
[3. 0.])
ends
gradient of z:
Tensor(shape=[2], dtype=Float32, value=
[6. 0.])
gradient of y:
Tensor(shape=[2], dtype=Float32, value=
[6. 0.])
"""
    for _ in range(3):
        x.grad = None
        run(x).backward()
        assert capsys.readouterr().out == expected
        assert x.grad is not None
        assert x.grad.tolist() == [18.0, 0.0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_first_n_and_every_n_count_for_each_place(
    backend: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    def step(x: torch.Tensor, k: int) -> torch.Tensor:
        sonde.print("first", k, first_n=2)
        sonde.print("every", k, every_n=3)
        sonde.print("every", k, every_n=2, first_n=1)
        return x + k

    run = compiled(step, backend)
    for k in range(2, 9):
        run(torch.ones(2), k)
    lines = capsys.readouterr().out.split("\n")
    assert list(zip(lines[::2], lines[1::2], strict=False)) == [
        ("first", "2"),
        ("every", "2"),
        ("every", "2"),
        ("first", "3"),
        ("every", "5"),
        ("every", "8"),
    ]


def test_code_that_is_compiled_later_continues_the_count(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        sonde.print("here", first_n=2)
        return x + 1

    step(torch.ones(2))
    for _ in range(3):
        compiled(step, "aot_eager")(torch.ones(2))
    assert capsys.readouterr().out == "here\nhere\n"


def test_a_print_object_keeps_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    once = ops.Print(first_n=1, summary=True)
    for k in range(3):
        once("here", torch.full((2,), float(k)))
    assert capsys.readouterr().out == "here\nfloat32 [2] all 0\n"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_summary_is_one_line(backend: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        sonde.print("x:", x, x > 1, summary=True)
        return x

    compiled(step, backend)(torch.tensor([math.nan, 1.0, -math.inf, 2.0]))
    assert capsys.readouterr().out == (
        "x:\nfloat32 [4] finite min 1 max 2 · 1 nan (25%) · 1 -inf (25%)\n"
        "bool [4] 1 of 4 true (25%)\n"
    )


def test_complex_numbers_have_no_summary_and_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    sonde.print(torch.tensor([1 + 2j]), summary=True)
    assert capsys.readouterr().out == ("Tensor(shape=[1], dtype=Complex64, value=\n[1.+2.j])\n")


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_tensors_are_elided(backend: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        sonde.print(x)
        return x

    x = torch.arange(5000).view(100, 50).t()
    compiled(step, backend)(x)
    assert capsys.readouterr().out == (
        f"Tensor(shape=[50, 100], dtype=Int64, value=\n{np.array2string(x.numpy())})\n"
    )


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.tensor([1, 0.3]).bfloat16(), "BFloat16, value=\n[1.         0.30078125])"),
        (torch.tensor([0.5]).to(torch.float8_e4m3fn), "Float8E4M3FN, value=\n[0.5])"),
        (torch.tensor([[1j]]).conj(), "Complex64, value=\n[[0.-1.j]])"),
        (torch.ones(1, 1).expand(2, 2), "Float32, value=\n[[1. 1.]\n [1. 1.]])"),
        (
            torch.ones(2, device="meta"),
            "Float32, no values: it is on the meta device and has no values)",
        ),
        (torch.eye(2).to_sparse(), "Float32, no values: its layout is sparse_coo)"),
    ],
)
def test_awkward_tensors(
    tensor: torch.Tensor, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sonde.print(tensor)
    assert capsys.readouterr().out.endswith(f"dtype={text}\n")


def test_inside_torch_func_the_plain_tensor_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def square(x: torch.Tensor) -> torch.Tensor:
        sonde.print(x)
        return (x * x).sum()

    assert torch.func.grad(square)(torch.tensor([3.0])).tolist() == [6.0]
    assert torch.vmap(square)(torch.tensor([[3.0]])).tolist() == [9.0]
    assert capsys.readouterr().out == (
        "Tensor(shape=[1], dtype=Float32, value=\n[3.])\n"
        "Tensor(shape=[1, 1], dtype=Float32, value=\n[[3.]])\n"
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_under_autocast_and_without_gradients(
    backend: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x @ x
        y = sonde.print_grad(y, "y")
        sonde.print(y)
        return y

    run = compiled(step, backend)
    with torch.autocast("cpu", torch.bfloat16):
        run(torch.full((1, 1), 1.5))
    with torch.no_grad():
        run(torch.full((1, 1), 1.5, requires_grad=True))
    assert capsys.readouterr().out == (
        "Tensor(shape=[1, 1], dtype=BFloat16, value=\n[[2.25]])\n"
        "Tensor(shape=[1, 1], dtype=Float32, value=\n[[2.25]])\n"
    )


def test_the_gradient_of_a_parameter_is_printed_once_a_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    weight = nn.Parameter(torch.tensor([2.0]))
    for _ in range(3):
        weight.grad = None
        sonde.print_grad(weight, "weight")
        (weight * weight).backward()
        assert capsys.readouterr().out == (
            "gradient of weight:\nTensor(shape=[1], dtype=Float32, value=\n[4.])\n"
        )


def test_a_print_can_go_to_the_log_instead_of_stdout(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("sonde")
    logger.addHandler(caplog.handler)
    try:
        sonde.print("text", torch.tensor(1), to="log")
    finally:
        logger.removeHandler(caplog.handler)
    assert capsys.readouterr().out == ""
    assert ("sonde.print", logging.INFO, "text\nTensor(shape=[], dtype=Int64, value=1)") in (
        caplog.record_tuples
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first_n": 0}, "first_n must be 1 or more (got 0) [print-option]"),
        ({"every_n": -1}, "every_n must be 1 or more (got -1) [print-option]"),
        ({"to": "stderr"}, "to must be 'stdout' or 'log' (got 'stderr') [print-option]"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    for refuse in (
        lambda: sonde.print("x", **options),
        lambda: sonde.print_grad(torch.ones(1), "x", **options),
        lambda: ops.Print(**options),
    ):
        with pytest.raises(UsageError) as caught:
            refuse()
        assert str(caught.value) == message


RANKS = """
import sys, torch, sonde
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank, store, backend = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.ones_(self.fc.weight)

    def forward(self, x):
        y = self.fc(x)
        sonde.print("y", y)
        return sonde.print_grad(y, "y")

net = DistributedDataParallel(Net())
if backend != "none":
    net = torch.compile(net, backend=backend)
for _ in range(2):
    net(torch.full((1, 1), rank + 1.0)).sum().backward()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("backend", ["none", "aot_eager"])
def test_with_several_ranks_every_line_names_its_rank(tmp_path: Path, backend: str) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(RANKS)
    command = [sys.executable, str(script)]
    children = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store"), backend],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank, child in enumerate(children):
        out, problems = child.communicate(timeout=120)
        assert child.returncode == 0, problems
        prefix = f"[rank {rank}] "
        lines = [
            "y",
            "Tensor(shape=[1, 1], dtype=Float32, value=",
            f"[[{rank + 1}.]])",
            "gradient of y:",
            "Tensor(shape=[1, 1], dtype=Float32, value=",
            "[[1.]])",
        ]
        assert out == "".join(f"{prefix}{line}\n" for line in lines) * 2


def test_importing_the_names_imports_no_framework() -> None:
    code = "import sys, sonde, sonde.ops; assert 'torch' not in sys.modules; dir(sonde.ops)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'Prind'"):
        getattr(ops, "Prind")  # noqa: B009
