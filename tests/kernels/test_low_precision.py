"""Types numpy lacks, against torch: every one of their values."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sonde import kernels
from sonde.kernels.low_precision import EIGHTH_TABLES, widen_bfloat16

EVERY_BYTE = torch.arange(256, dtype=torch.int64).to(torch.uint8)
EVERY_HALF = torch.arange(65536, dtype=torch.int64).to(torch.uint16)


@pytest.mark.parametrize("name", EIGHTH_TABLES)
def test_numpy_decodes_every_value_of_an_eight_bit_type(name: str) -> None:
    expected = EVERY_BYTE.view(getattr(torch, name)).float().numpy()
    np.testing.assert_array_equal(EIGHTH_TABLES[name], expected)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(EIGHTH_TABLES[name][zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("name", EIGHTH_TABLES)
def test_every_path_decodes_every_value_of_an_eight_bit_type(path: str, name: str) -> None:
    for byte in range(256):
        one = EVERY_BYTE[byte : byte + 1].clone().view(getattr(torch, name))
        found = kernels.summarize(one.data_ptr(), name, (1,))
        value = float(one.float())
        assert found.max == value or (np.isnan(found.max) and np.isnan(value))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_path_decodes_every_value_of_a_sixteen_bit_type(path: str, name: str) -> None:
    # In one call each value would hide the others: 2048 calls of 32 neighbours, which differ in
    # one sign and one exponent, show each in the extremes and the sums.
    for start in range(0, 65536, 32):
        part = EVERY_HALF[start : start + 32].clone().view(getattr(torch, name))
        wide = part.double().numpy()
        found = kernels.summarize(part.data_ptr(), name, (32,))
        finite = wide[np.isfinite(wide)]
        assert found.nan_count == np.isnan(wide).sum()
        if finite.size:
            assert (found.finite_max, found.finite_min) == (finite.max(), finite.min())
        if finite.size == 32:
            assert found.abs_mean == pytest.approx(np.abs(wide).mean(), rel=1e-14)


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    expected = EVERY_HALF.view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(widen_bfloat16(EVERY_HALF.numpy()), expected)


@pytest.mark.parametrize("name", [*EIGHTH_TABLES, "float16", "bfloat16"])
def test_non_finite_values_of_low_precision_are_counted(path: str, name: str) -> None:
    every = EVERY_BYTE if name in EIGHTH_TABLES else EVERY_HALF
    tensor = every.view(getattr(torch, name))
    expected = int((~torch.isfinite(tensor.float())).sum())
    code = kernels.dtype_code(name)
    assert kernels.non_finite(tensor.data_ptr(), code, tensor.numel()) == expected
    assert expected > 0
