"""The statistics kernel against a plain read of the same memory, separate torch ops and numpy.

    python benchmarks/kernel.py [--elements 16777216] [--repeats 9] [--path avx2]

One thread, its own processor time, microseconds. Everything is timed in turn and medians are
compared, so that other programs on the machine affect all alike. "memory": each round takes another
of several tensors, which together are far larger than the caches; "cache": always the same tensor,
as far as the caches hold it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from sonde import kernels
from sonde.core.statistics import raw_column
from sonde.kernels import _native

Work = Callable[[torch.Tensor], object]

FAR_BEYOND_CACHE = 256 << 20
ROW = np.empty(16)
OUT = ROW.ctypes.data


def code_of(tensor: torch.Tensor) -> int:
    return kernels.dtype_code(str(tensor.dtype).removeprefix("torch."))


def plain_read(x: torch.Tensor) -> object:
    return _native.read_bytes(x.data_ptr(), x.numel() * x.element_size())


def all_statistics(x: torch.Tensor) -> object:
    return kernels.summarize_into(OUT, x.data_ptr(), code_of(x), x.numel())


def outline(x: torch.Tensor) -> object:
    return kernels.outline_into(OUT, x.data_ptr(), code_of(x), x.numel())


def non_finite(x: torch.Tensor) -> object:
    return kernels.non_finite(x.data_ptr(), code_of(x), x.numel())


def separate_torch_ops(x: torch.Tensor) -> object:
    """The same fifteen numbers, a torch op for each; sums in float64 as in the kernel."""
    finite = x.isfinite()
    return [
        number.item()
        for number in (
            x.isnan().sum(),
            x.isposinf().sum(),
            x.isneginf().sum(),
            (x == 0).sum(),
            (x < 0).sum(),
            (x > 0).sum(),
            x.max(),
            x.min(),
            x.where(finite, -torch.inf).max(),
            x.where(finite, torch.inf).min(),
            x.mean(dtype=torch.float64),
            torch.linalg.vector_norm(x, dtype=torch.float64),
            x.double().std(correction=0),
            x.abs().mean(dtype=torch.float64),
        )
    ]


def fewest_torch_ops(x: torch.Tensor) -> object:
    """Max, min and norm in the tensor's own dtype: the columns of an outline."""
    return [number.item() for number in (x.max(), x.min(), torch.linalg.vector_norm(x))]


def with_numpy(x: torch.Tensor) -> object:
    array = x.numpy()
    wide = array.astype(np.float64)
    return (
        np.isnan(array).sum(),
        np.isinf(array).sum(),
        (array == 0).sum(),
        (array < 0).sum(),
        array.max(),
        array.min(),
        wide.mean(),
        np.linalg.norm(wide.ravel()),
        wide.std(),
        np.abs(wide).mean(),
    )


def medians(works: dict[str, Work], tensors: list[torch.Tensor], repeats: int) -> dict[str, float]:
    """Median seconds of each, taken in turn; the slow ones in fewer rounds."""
    times: dict[str, list[float]] = {name: [] for name in works}
    turn = 0
    for round_ in range(repeats + 1):
        for name, work in works.items():
            if round_ > 3 and times[name] and times[name][-1] > 0.1:
                continue
            tensor = tensors[turn % len(tensors)]
            turn += 1
            start = time.thread_time()
            work(tensor)
            if round_:
                times[name].append(time.thread_time() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def large(elements: int, repeats: int) -> None:
    print(f"\n{elements:,} elements, one thread, path {kernels.current_path()}")
    print(
        f"{'':22}{'read':>9}{'all':>9}{'outline':>9}{'nan?':>9}{'torch':>10}"
        f"{'all/read':>10}{'torch/all':>10}{'numpy/all':>10}"
    )
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        source = torch.randn(elements, generator=torch.Generator().manual_seed(0)).to(dtype)
        nbytes = source.numel() * source.element_size()
        copies = max(2, FAR_BEYOND_CACHE // nbytes)
        tensors = [source, *(source.clone() for _ in range(copies - 1))]
        works: dict[str, Work] = {
            "read": plain_read,
            "all": all_statistics,
            "outline": outline,
            "nan?": non_finite,
        }
        slow: dict[str, Work] = {"torch": separate_torch_ops}
        if dtype != torch.bfloat16:
            slow["numpy"] = with_numpy
        found = medians({**works, **slow}, tensors, repeats)
        show(f"{dtype} memory", found)
        show(f"{dtype} cache", medians(works, tensors[:1], repeats))


def show(title: str, found: dict[str, float]) -> None:
    def micro(name: str) -> str:
        return f"{found[name] * 1e6:,.0f}" if name in found else ""

    def ratio(name: str) -> str:
        return f"{found[name] / found['all']:.1f}x" if name in found else ""

    print(
        f"{title.removeprefix('torch.'):22}{micro('read'):>9}{micro('all'):>9}"
        f"{micro('outline'):>9}{micro('nan?'):>9}{micro('torch'):>10}"
        f"{found['read'] / found['all']:>10.0%}{ratio('torch'):>10}{ratio('numpy'):>10}"
    )


def pairs(elements: int, repeats: int) -> None:
    print("\ntwo tensors compared, gigabytes of input per second, one thread")
    row = np.empty(kernels.PAIR_COLUMNS)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        a = torch.randn(elements // 4, generator=torch.Generator().manual_seed(0)).to(dtype)
        b = a * 1.001

        def compare(x: torch.Tensor, y: torch.Tensor = b) -> object:
            code = code_of(x)
            return kernels.compare_strided_into(
                row.ctypes.data, x.data_ptr(), code, None, y.data_ptr(), code, None, (x.numel(),)
            )

        (seconds,) = medians({"compare": compare}, [a], repeats).values()
        rate = 2 * a.numel() * a.element_size() / seconds / 1e9
        print(f"  {str(dtype).removeprefix('torch.'):26}{rate:8.2f}")


def small(repeats: int) -> None:
    print("\nfrom Python, microseconds per call")
    x = torch.randn(1024)
    code, address = code_of(x), x.data_ptr()
    shape, strides = tuple(x.shape), x.stride()
    gaps = torch.randn(64, 32)[:, ::2]
    calls: dict[str, Callable[[], object]] = {
        "summarize_into, nothing": lambda: kernels.summarize_into(OUT, address, code, 0),
        "summarize_into, 1,024": lambda: kernels.summarize_into(OUT, address, code, 1024),
        "outline_into, 1,024": lambda: kernels.outline_into(OUT, address, code, 1024),
        "non_finite, 1,024": lambda: kernels.non_finite(address, code, 1024),
        "strided, 64 x 16": lambda: kernels.summarize_strided_into(
            OUT, gaps.data_ptr(), code, gaps.shape, gaps.stride()
        ),
        "summarize, 1,024": lambda: kernels.summarize(address, "float32", shape, strides),
        "separate torch ops": lambda: separate_torch_ops(x),
        "max, min, norm in torch": lambda: fewest_torch_ops(x),
    }
    for name, seconds in in_turn(calls, repeats).items():
        print(f"  {name:26}{seconds * 1e6:8.2f}")


def lines(repeats: int) -> None:
    rows = np.empty((3000, 16))
    x = torch.randn(1000)
    for row in rows:
        kernels.summarize_into(row.ctypes.data, x.data_ptr(), code_of(x), x.numel())
        x.mul_(1.001)
    heads = [b"addmm,Default/network-Net/fc-Linear/addmm-op12,0,0,"] * 3000
    tails = [b",output,0,4000,Float32,(1000),"] * 3000
    stamps = np.arange(3000) + 1700000000000000
    columns = [raw_column(name) for name in ("max", "min", "l2norm")]
    calls: dict[str, Callable[[], object]] = {
        "format_rows, 3,000 x 3": lambda: kernels.format_rows(heads, tails, stamps, rows, columns)
    }
    for name, seconds in in_turn(calls, repeats, batch=1).items():
        print(f"  {name:26}{seconds * 1e6:8.0f}")


def in_turn(
    calls: dict[str, Callable[[], object]], repeats: int, batch: int = 300
) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.thread_time()
            for _ in range(batch):
                call()
            times[name].append((time.thread_time() - start) / batch)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=1 << 24)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--path", choices=kernels.available_paths(), help="force a path")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.path:
        kernels.use_path(options.path)
    large(options.elements, options.repeats)
    pairs(options.elements, options.repeats)
    small(options.repeats)
    lines(options.repeats)


if __name__ == "__main__":
    main()
