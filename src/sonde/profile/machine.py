"""The peak performance of this machine: measured once, then cached in the user's directory."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path

import msgspec
import torch

from sonde.core.files.atomic_file import write_whole
from sonde.profile.document import Machine
from sonde.profile.record.stopwatch import best

_SIDE = 768
_COPY_BYTES = 64 * 1024 * 1024
_BUDGET_SECONDS = 0.25
_DTYPES = ("float32", "float64", "bfloat16")


def this_machine(cache: Path | None = None) -> Machine:
    """The performance with the number of threads that torch uses now, measured or cached.

    A cache that cannot be read or written is ignored.
    """
    file = cache or cache_file()
    key = f"{_processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    known: dict[str, Machine] = {}
    with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        known = msgspec.json.decode(file.read_bytes(), type=dict[str, Machine])
    if key not in known:
        known[key] = measure()
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, msgspec.json.encode(known))
    return known[key]


def measure() -> Machine:
    """The best of many runs of a large matrix product, for each dtype, and of a large copy."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        flops = {name: _product_flops(getattr(torch, name)) for name in _DTYPES}
        source = torch.zeros(_COPY_BYTES // 4, dtype=torch.float32)
        target = torch.ones_like(source)
        seconds = best(lambda: target.copy_(source), budget_seconds=_BUDGET_SECONDS)
    return Machine(
        processor=_processor(),
        threads=torch.get_num_threads(),
        flops=flops,
        bytes_per_second=2 * _COPY_BYTES / seconds,
    )


def cache_file() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "sonde" / "machine.json"


def _product_flops(dtype: torch.dtype) -> float:
    a = torch.randn(_SIDE, _SIDE).to(dtype)
    b = torch.randn(_SIDE, _SIDE).to(dtype)
    return 2 * _SIDE**3 / best(lambda: a @ b, budget_seconds=_BUDGET_SECONDS)


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
