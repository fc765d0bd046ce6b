"""Random programs of views, in-place ops and outside writes, against recorded values."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.csv_rows import Row, statistics_of
from tests.adapters.torch.dumping import dumping
from torch.utils._python_dispatch import TorchDispatchMode

import sonde
from sonde.adapters.torch.eager.op_schema import op_info

Numbers = tuple[str, tuple[int, ...], float, float, float]


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def numbers(tensor: torch.Tensor) -> Numbers:
    """Dtype, shape, min, max and norm, from a copy made out of everybody's sight."""
    with torch._C._DisableTorchDispatch():
        values = tensor.detach().clone().double().contiguous().view(-1)
        array = np.array(values.tolist())
    if not array.size:
        return str(tensor.dtype), tuple(tensor.shape), math.nan, math.nan, 0.0
    with np.errstate(all="ignore"):
        norm = float(np.sqrt((array**2).sum()))
    return str(tensor.dtype), tuple(tensor.shape), float(array.min()), float(array.max()), norm


class Witness(TorchDispatchMode):  # type: ignore[misc]
    """Notes what every op is given and what it gives, with a copy of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[Numbers]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = (*args, *(kwargs or {}).values())
        before = [numbers(tensor) for tensor in tensors_in(given)]
        result = func(*args, **(kwargs or {}))
        info = op_info(func)
        results = list(tensors_in(result))
        written = [
            tensor
            for name, value in zip(info.arguments, given, strict=False)
            if name in info.writes
            for tensor in tensors_in(value)
            if not any(tensor is other for other in results)
        ]
        after = [numbers(tensor) for tensor in (*results, *written)]
        self.seen.append((info.type, before + after))
        return result


class Program:
    """A random program. Run with equal ``seed`` it does the same ops; ``data`` fills them."""

    def __init__(self, seed: int, data: int) -> None:
        self._chance = random.Random(seed)
        self._values = torch.Generator().manual_seed(data)
        self._shared = np.random.default_rng(data).standard_normal((4, 4)).astype(np.float32)
        self.pool: list[torch.Tensor] = []

    def run(self, length: int) -> None:
        self.pool = [self._new(), self._new(), torch.from_numpy(self._shared)]
        actions: list[Callable[[torch.Tensor], Any]] = [
            self._make,
            self._compute,
            self._compute,
            self._combine,
            self._rearrange,
            self._rearrange,
            self._part,
            self._write,
            self._write,
            self._write_unseen,
            self._convert,
            self._differentiate,
            self._drop,
        ]
        for _ in range(length):
            action = self._chance.choice(actions)
            made = action(self._chance.choice(self.pool))
            self.pool.extend(each for each in tensors_in(made) if each.dtype.is_floating_point)
            del self.pool[12:]

    def _new(self) -> torch.Tensor:
        return torch.randn(4, 4, generator=self._values)

    def _make(self, x: torch.Tensor) -> Any:
        return self._chance.choice(
            [self._new, lambda: torch.zeros(4, 4), lambda: torch.empty(2, 8).fill_(3.0)]
        )()

    def _compute(self, x: torch.Tensor) -> Any:
        return self._chance.choice([torch.neg, torch.relu, torch.abs, torch.clone, torch.tanh])(x)

    def _combine(self, x: torch.Tensor) -> Any:
        other = self._chance.choice(self.pool)
        if other.shape != x.shape or other.dtype != x.dtype:
            return x + x
        return self._chance.choice([torch.add, torch.mul, torch.maximum])(x, other)

    def _rearrange(self, x: torch.Tensor) -> Any:
        return self._chance.choice(
            [
                lambda: x.view(-1) if x.is_contiguous() else x.reshape(-1),
                lambda: x.t() if x.dim() == 2 else x.unsqueeze(0),
                lambda: x.detach(),
                lambda: x.unsqueeze(0).squeeze(0),
                lambda: x.permute(tuple(reversed(range(x.dim())))),
                lambda: x.unsqueeze(0).expand(self._chance.choice([1, 2]), *x.shape).sum(0),
                lambda: x.clone().transpose_(0, -1) if x.dim() > 1 else x.clone(),
            ]
        )()

    def _part(self, x: torch.Tensor) -> Any:
        if not x.dim() or x.shape[0] < 2:
            return x + 1
        return self._chance.choice(
            [
                lambda: x[1:],
                lambda: x[::2],
                lambda: x[0],
                lambda: x.chunk(2),
                lambda: x.unbind(0)[:2],
                lambda: x.diagonal() if x.dim() == 2 else x[:1],
            ]
        )()

    def _write(self, x: torch.Tensor) -> Any:
        if x.requires_grad:
            x = x.data
        return self._chance.choice(
            [
                lambda: x.add_(1.5),
                lambda: x.mul_(-0.5),
                lambda: x.relu_(),
                lambda: x.zero_(),
                lambda: x.data.sub_(2),
                lambda: x.copy_(x.flip(0) if x.dim() else x),
                lambda: x.view(-1)[:1].fill_(7) if x.is_contiguous() and x.numel() else x,
                lambda: torch._foreach_add_([x], 0.25),
            ]
        )()

    def _write_unseen(self, x: torch.Tensor) -> None:
        number = self._chance.randrange(1, 100)
        if self._chance.random() < 0.5:
            self._shared[self._chance.randrange(4), self._chance.randrange(4)] = number
        elif not x.requires_grad and x.dtype is torch.float32 and x.numel():
            array = x.numpy()
            array[...] = array * 0 + number

    def _convert(self, x: torch.Tensor) -> Any:
        dtype = self._chance.choice([torch.float16, torch.bfloat16, torch.float64, torch.int64])
        return x.clamp(-9, 9).nan_to_num(0).to(dtype)

    def _differentiate(self, x: torch.Tensor) -> Any:
        weight = x.detach().float().clone().requires_grad_()
        turned = weight.t().contiguous().t() if weight.dim() == 2 else weight.tanh()
        (weight.relu() * turned).sum().backward()
        return weight.grad

    def _drop(self, x: torch.Tensor) -> None:
        if len(self.pool) > 4:
            self.pool.pop(self._chance.randrange(3, len(self.pool)))


LABELS = {"Float16": "float16", "BFloat16": "bfloat16"}


def as_numbers(row: Row) -> Numbers:
    dtype = LABELS.get(row.dtype, row.dtype.lower())
    shape = tuple(int(size) for size in row.shape.strip("()").split(",") if size)
    low, high = float(row.number("min")), float(row.number("max"))
    return f"torch.{dtype}", shape, low, high, float(row.number("l2norm"))


def assert_told(rows: list[Row], seen: list[tuple[str, list[Numbers]]]) -> None:
    """Whether the rows of ops, in order, are what the witness saw."""
    told = [row for row in rows if row.op.startswith(("Default/", "Gradients/"))]
    expected = [(op, each) for op, numbers in seen for each in numbers]
    assert [row.op_type for row in told] == [op for op, _ in expected]
    for row, (_, true) in zip(told, expected, strict=True):
        mine = as_numbers(row)
        assert mine[:2] == true[:2], (row, true)
        for number, truth in zip(mine[2:], true[2:], strict=True):
            assert number == pytest.approx(truth, rel=1e-9, abs=1e-300, nan_ok=True), (row, true)


@pytest.mark.parametrize("matcher", ["native", "python"])
@pytest.mark.parametrize("seed", range(25))
def test_every_row_of_a_random_program_equals_the_recorded_values(
    seed: int, matcher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if matcher == "native":
        pytest.importorskip("sonde.adapters.torch.eager._match")
    monkeypatch.setenv("SONDE_MATCHER", matcher)
    witnessed = []
    with dumping(
        tmp_path,
        step_by="manual",
        saved_data="statistic",
        statistic_categories=("max", "min", "l2norm"),
    ):
        for step in range(4):
            # The same program with other numbers, then one that goes on differently.
            program = Program(seed, data=step)
            with Witness() as witness:
                program.run(30 if step != 2 else 22)
            witnessed.append(witness.seen)
            sonde.step()
    found = statistics_of(tmp_path)
    assert list(found) == [0, 1, 2, 3]
    for step, seen in enumerate(witnessed):
        assert_told(found[step], seen)
