"""Tests of numbers: ``pytest --sonde``, its fixture and assertions; see ``docs/pytest.md``.

pytest imports this package in every run, also without ``--sonde``: it imports nothing but this file
and ``plugin`` then.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sonde.integrations.pytest.tested_function import TestedFunction


def assert_same_numbers(
    a: TestedFunction | str | os.PathLike[str],
    b: TestedFunction | str | os.PathLike[str],
    *,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Fail, and name the op, if two runs compute different numbers.

    ``a`` and ``b`` are what ``sonde_run`` returned, or directories of dumps. Ops are paired as by
    ``sonde compare``, also where their names or kernels differ. Without ``rtol`` and ``atol`` an op
    may differ by its rounding and by what its inputs differ.
    """
    __tracebackhide__ = True
    from sonde.integrations.pytest.comparison import difference

    found = difference(a, b, rtol=rtol, atol=atol)
    if found:
        raise AssertionError(found)
