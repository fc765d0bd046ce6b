"""The awkward tensors: every one an input on which some statistic could go wrong."""

from __future__ import annotations

import math

import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
EIGHTHS = (
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)
INTEGERS = (
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)

# Around the sizes at which the kernels change their ways: lanes, stretches, blocks.
SIZES = (1, 2, 15, 16, 17, 31, 32, 33, 127, 160, 255, 257, 1023, 1055, 4095, 4096, 4097, 9000)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def floats(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Awkward tensors of a floating dtype."""
    info = torch.finfo(dtype)
    generator = torch.Generator().manual_seed(7)
    normal = torch.randn(700, generator=generator, dtype=torch.float64)
    special = normal.clone()
    special[[0, 63, 64, 699]] = math.nan
    special[[5, 130]] = math.inf
    special[[7, 131, 600]] = -math.inf
    mask = torch.zeros(40, 40, dtype=torch.float64).masked_fill(
        torch.ones(40, 40, dtype=torch.bool).triu(1), -math.inf
    )
    found = {
        "empty": torch.zeros(0, 3),
        "0-d": torch.tensor(1.5),
        "0-d nan": torch.tensor(math.nan),
        "normal": normal,
        "all positive": normal.abs() + 0.5,
        "all negative": -normal.abs() - 0.5,
        "one nan": torch.cat([normal, torch.tensor([math.nan]), normal]),
        "one inf": torch.cat([normal, torch.tensor([math.inf])]),
        "nan and both infs": special,
        "causal mask": mask,
        "only nan": torch.full((100,), math.nan),
        "only inf": torch.full((33,), math.inf),
        "both infs": torch.tensor([math.inf, -math.inf] * 40),
        "negative zeros": torch.tensor([0.0, -0.0] * 30),
        "only negative zero": torch.tensor([-0.0] * 50),
        "negative zero and below": torch.tensor([-0.0, -1.0] * 25),
        "negative zero and above": torch.tensor([-0.0, 1.0] * 25),
        "zeros": torch.zeros(5000),
        "all equal": torch.full((777,), 0.1),
        "huge": torch.full((300,), float(info.max), dtype=torch.float64),
        "huge and mixed": torch.tensor([info.max, -info.max, 1.0, 0.0] * 20, dtype=torch.float64),
        "subnormal": torch.tensor([info.smallest_normal / 2, 0.0, -info.tiny / 2] * 50),
        "nearly equal": 1 + normal / 512,
        "relu": normal.relu(),
        "outlier": torch.cat([normal / 1000, torch.tensor([100.0])]),
        "far from zero": normal + 100,
    }
    return {name: tensor.to(dtype) for name, tensor in found.items()}


def eighths(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Every value of an eight-bit floating dtype, and tensors with and without NaN."""
    every = torch.arange(256, dtype=torch.int64).to(torch.uint8)
    finite = every[torch.isfinite(every.view(dtype).float())]
    return {
        "empty": every[:0].view(dtype),
        "every value": every.view(dtype),
        "every finite value": finite.view(dtype),
        "many": finite.repeat(40).view(dtype),
        "one": finite[3:4].view(dtype),
    }


def integers(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Awkward tensors of an integer dtype, the ends of its range above all."""
    info = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(3)
    small = torch.randint(max(-50, info.min), 50, (700,), generator=generator).tolist()
    lists = {
        "empty": [],
        "one": [5],
        "small": small,
        "zeros": [0] * 500,
        "ends": [info.min, info.max, 0, 1, info.max - 1] * 30,
        "at the top": [info.max] * 5000,
        "at the bottom": [info.min] * 5000,
        "nearly equal": [info.max - 1, info.max] * 3000,
        "blocks apart": [1] * 4096 + [100] * 4096 + [7] * 5,
    }
    return {name: integers_of(values, dtype) for name, values in lists.items()}


def integers_of(values: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Exact, also where torch cannot make the dtype from Python integers."""
    if dtype == torch.uint64:
        signed = [value - (1 << 64) if value >> 63 else value for value in values]
        return torch.tensor(signed, dtype=torch.int64).view(torch.uint64)
    return torch.tensor(values, dtype=torch.int64).to(dtype)


def exact_values(tensor: torch.Tensor) -> list[float | int]:
    """The elements as Python numbers, without rounding."""
    if tensor.dtype == torch.bool:
        return [int(value) for value in tensor.flatten().tolist()]
    if tensor.dtype == torch.uint64:
        signed = tensor.contiguous().view(torch.int64).flatten().tolist()
        return [value % (1 << 64) for value in signed]
    if tensor.dtype in EIGHTHS:
        tensor = tensor.float()
    values: list[float | int] = tensor.flatten().tolist()
    return values
