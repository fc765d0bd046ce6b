"""Prints change no training, keep no tensor and are in no dump."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.dumping import dumping
from tests.adapters.torch.printing.printing import BACKENDS, THE_DOCUMENT, PrintDemo, compiled
from torch import nn
from torch.nn import functional

import sonde
from sonde.dump.reader import Dump

pytestmark = [
    pytest.mark.usefixtures("nothing_compiled", "nothing_counted"),
]


class Chatty(nn.Module):
    def __init__(self, talks: bool) -> None:
        super().__init__()
        self.talks = talks
        self.first = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16)
        self.last = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        if self.talks:
            sonde.print("hidden", hidden, summary=True)
            hidden = sonde.print_grad(hidden, "hidden")
        hidden = self.norm(hidden)
        if self.talks:
            sonde.print(hidden)
        hidden = functional.gelu(hidden)
        if self.talks:
            sonde.print("active", hidden, x, every_n=2)
        return self.last(functional.dropout(hidden, 0.25))


def trained(talks: bool, backend: str | None, dtype: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(3)
    net = Chatty(talks)
    run = compiled(net, backend)
    optimizer = torch.optim.AdamW(net.parameters())
    found = []
    for _ in range(3):
        x, y = torch.randn(8, 6), torch.randint(3, (8,))
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
            loss = functional.cross_entropy(run(x), y)
        loss.backward()
        found += [loss.detach(), *(p.grad.clone() for p in net.parameters() if p.grad is not None)]
        optimizer.step()
    return [*found, *(value.clone() for value in net.state_dict().values())]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("backend", BACKENDS)
def test_training_is_bit_identical_with_and_without_prints(
    backend: str | None, dtype: torch.dtype, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = trained(False, backend, dtype)
    assert capsys.readouterr().out == ""
    talking = trained(True, backend, dtype)
    assert capsys.readouterr().out.count("gradient of hidden:\n") == 3
    assert len(silent) == len(talking)
    assert all(torch.equal(one, other) for one, other in zip(silent, talking, strict=True))


@pytest.mark.slow
def test_inductor_prints_the_same_in_order_and_trains_bit_identically(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with torch._inductor.config.patch(fallback_random=True):
        silent = trained(False, "inductor", torch.float32)
        assert capsys.readouterr().out == ""
        torch._dynamo.reset()
        talking = trained(True, "inductor", torch.float32)
        heads = [
            line
            for line in capsys.readouterr().out.split("\n")
            if line.startswith(("hidden", "active", "gradient", "Tensor"))
        ]
        tensor = "Tensor(shape=[8, 16], dtype=Float32, value="
        odd = ["hidden", tensor, "gradient of hidden:", tensor]
        even = ["hidden", tensor, "active", tensor, "Tensor(shape=[8, 6], dtype=Float32, value="]
        even += odd[2:]
        assert heads == [*even, *odd, *even]
        assert all(torch.equal(one, other) for one, other in zip(silent, talking, strict=True))
        # The code without prints, made again from the cache, is still without.
        torch._dynamo.reset()
        again = trained(False, "inductor", torch.float32)
        assert capsys.readouterr().out == ""
    assert all(torch.equal(one, other) for one, other in zip(silent, again, strict=True))
    torch._dynamo.reset()
    net = compiled(PrintDemo(), "inductor")
    net(torch.ones(2, 1, dtype=torch.int32), torch.ones(2, 2, dtype=torch.int32))
    assert capsys.readouterr().out == THE_DOCUMENT


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_tensor_is_kept(backend: str | None) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        sonde.print(x, y, first_n=1)
        sonde.print_grad(y, "y", summary=True)
        return y.sum()

    run = compiled(step, backend)
    storages = []
    for _ in range(2):
        x = torch.ones(3, requires_grad=True)
        run(x).backward()
        storages.append(weakref.ref(x.untyped_storage()))
    weak = weakref.ref(x)
    del x
    gc.collect()
    assert weak() is None
    assert [storage() for storage in storages] == [None, None]


@pytest.mark.document(
    170,
    says="the Print operator in a dumped script: there will be an error log",
    how="`sonde.print` and `sonde.ops.Print` are not dumped, and no error is logged",
)
def test_a_capture_does_not_see_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def step(talks: bool) -> None:
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], 0.5)
        y = weight * 2
        if talks:
            sonde.print("y", y, y.numel(), summary=True)
            sonde.print_grad(y, "y")
        y.sum().backward()
        optimizer.step()

    for talks in (False, True):
        with dumping(tmp_path / str(talks)):
            step(talks)
    quiet, talking = (
        [record.key.op for record in Dump(tmp_path / str(talks)).tensors()]
        for talks in (False, True)
    )
    assert quiet == talking
    assert capsys.readouterr().out.startswith("y\nfloat32 [3] all 2\n3\ngradient of y:\n")
