"""Hashes of a few elements tell tensors apart, whatever their dtype and layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sonde.adapters.torch.ranks.spot_hashes import SpotHashes, spot_digests
from sonde.ranks.between_samples import MOST_KEPT

DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn),
    *(torch.complex64, torch.int64, torch.uint8, torch.bool),
)


def values(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return (torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 9).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (64,), (127,), (50, 40)])
def test_equal_tensors_have_equal_hashes_and_changed_ones_have_not(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    one = values(dtype, *shape)
    changed = torch.zeros_like(one)
    first, second, third = spot_digests([one, one.clone(), changed])
    assert first == second != third


def test_layout_in_memory_does_not_matter() -> None:
    image = values(torch.float32, 2, 3, 8, 8)
    last = image.to(memory_format=torch.channels_last)
    assert not last.is_contiguous()
    assert spot_digests([image]) == spot_digests([last])


def test_tensors_of_several_dtypes_keep_their_order() -> None:
    single, double = values(torch.float32, 9), values(torch.float64, 9)
    alone = [spot_digests([each])[0] for each in (single, double)]
    assert spot_digests([single, None, double, torch.empty(0), single]) == [
        alone[0],
        0,
        alone[1],
        0,
        alone[0],
    ]


def test_hashes_are_taken_once_and_of_many_steps_a_part_is_kept() -> None:
    kept = SpotHashes()
    steps = range(100, 100 + 3 * MOST_KEPT)
    for step in steps:
        kept.add(step, [values(torch.float32, 9)])
    found = kept.take()
    assert len(found) <= MOST_KEPT
    assert {each for each in steps if each % 8 == 0} <= {each.step for each in found}
    digests = np.frombuffer(found[0].digests, "<u8").tolist()
    assert digests == spot_digests([values(torch.float32, 9)])
    assert kept.take() == ()
