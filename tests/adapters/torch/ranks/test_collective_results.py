"""The numbers of a collective: those of a sum are the sum of those of its parts."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from sonde.adapters.torch.ranks.communication.collective_results import hashes, part_hashes, sums
from sonde.adapters.torch.ranks.communication.collective_signatures import SIGNATURES, Call
from sonde.adapters.torch.ranks.digests import project
from sonde.ranks.collectives import CollectiveLog
from sonde.ranks.report import CollectiveReport, CollectiveResult

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def found(inputs: list[torch.Tensor], output: torch.Tensor, reduce: str = "SUM") -> int:
    """How many findings there are if ``inputs`` are reduced to ``output``."""
    log = CollectiveLog()
    ranks = range(len(inputs))
    assert list(log.know({"world": tuple(ranks)})) == []
    dtype = str(output.dtype).removeprefix("torch.")
    count = output.numel()
    for rank in ranks:
        call = CollectiveReport(
            rank, "world", 0, "all_reduce", dtype, count, reduce, -1, "t.py:1", 0
        )
        assert list(log.add(call)) == []
    return sum(
        len(
            list(
                log.add_result(
                    CollectiveResult(
                        rank, "world", 0, hashes(each), hashes(output), sums(each), sums(output)
                    )
                )
            )
        )
        for rank, each in enumerate(inputs)
    )


def drawn(count: int, size: int, dtype: torch.dtype) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    return [torch.randn(size, generator=random).to(dtype) for _ in range(count)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 5000, 300_000])
@pytest.mark.parametrize("order", [1, -1])
def test_sum_with_the_rounding_of_its_dtype_is_right(
    dtype: torch.dtype, size: int, order: int
) -> None:
    inputs = drawn(8, size, dtype)
    output = torch.zeros(size, dtype=dtype)
    for each in inputs[::order]:
        output += each
    assert found(inputs, output) == 0
    assert found(inputs, output / 8, "AVG") == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("size", [7, 5000, 300_000])
def test_sum_without_one_rank_is_wrong(dtype: torch.dtype, size: int) -> None:
    inputs = drawn(2, size, dtype)
    assert found(inputs, inputs[0]) == 1


def test_one_changed_element_is_found() -> None:
    inputs = drawn(4, 100_000, torch.float32)
    output = torch.stack(inputs).sum(0)
    output[777] += 5.0
    assert found(inputs, output) == 1


def test_parts_are_those_of_uneven_splits() -> None:
    rows = torch.arange(12.0).reshape(6, 2)
    assert part_hashes(rows, [1, 0, 5], 3) == (hashes(rows[:1])[0], 0, hashes(rows[1:])[0])
    assert part_hashes(rows, None, 2) == hashes([rows[:3], rows[3:]])
    assert part_hashes(rows, None, 4) == ()
    assert part_hashes(rows, [1, 2], 3) == ()
    assert part_hashes(None, None, 2) == ()


@pytest.mark.parametrize("value", [None, torch.ones(3, dtype=torch.int64), torch.empty(0)])
def test_tensors_without_floating_point_values_have_no_sums(value: torch.Tensor | None) -> None:
    assert sums(value) == ()


@pytest.mark.parametrize(
    ("op", "name"),
    [
        (None, "SUM"),
        (dist.ReduceOp.MAX, "MAX"),
        (dist.ReduceOp(dist.ReduceOp.AVG), "AVG"),
        (dist._make_nccl_premul_sum(2.0), "PREMUL_SUM"),
    ],
)
def test_reduction_has_a_name_that_is_the_same_on_all_ranks(op: object, name: str) -> None:
    call = Call(SIGNATURES["reduce_scatter_single"], (None, None), {"op": op} if op else {})
    assert call.reduce_op == name


@pytest.mark.parametrize("places", [[0, 5, 9], [0, 4096, 9000], [0, 4095, 4097, 12_000]])
def test_projections_of_parts_add_up_to_that_of_the_whole(places: list[int]) -> None:
    whole = torch.randn(12_345, dtype=torch.float64)
    ends = [*places[1:], whole.numel()]
    parts = [project(whole[b:e], b) for b, e in zip(places, ends, strict=True)]
    torch.testing.assert_close(sum(parts), project(whole))
