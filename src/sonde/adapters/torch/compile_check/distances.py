"""Measures how far tensors differ, as compile-check reports it."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot, sqrt
from typing import Any

import torch

from sonde import kernels
from sonde.adapters.torch.compile_check.agreement import Kind, OpErrors, ResultComparison
from sonde.adapters.torch.eager.op_schema import tensors_in
from sonde.adapters.torch.tensors.view import name_of
from sonde.kernels import Distances

_FLIPS_ALLOWED = 0.01


def distances(a: torch.Tensor, b: torch.Tensor) -> Distances:
    """How ``a`` differs from the reference ``b``, which has its shape."""
    a, b = _readable(a), _readable(b)
    return kernels.compare(
        a.data_ptr(), name_of(a.dtype), b.data_ptr(), name_of(b.dtype), tuple(a.shape),
        tuple(a.stride()), tuple(b.stride()),
    )  # fmt: skip


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().cpu()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg()


def epsilon_of(dtype: torch.dtype) -> float:
    """The spacing of ``dtype`` at 1; 0 for exact types."""
    return torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0


def error(a: torch.Tensor, b: torch.Tensor) -> float:
    """The Euclidean norm of the difference, over elements finite in both; 0 if there are none.

    Of whole numbers (indices, masks) each that differs counts 1: how far apart they are means
    nothing.
    """
    if _is_whole(b):
        return sqrt(float((a != b).sum()))
    return _number(distances(a, b).l2_error)


def compiled_error(a: torch.Tensor, b: torch.Tensor) -> float:
    """The error of compiled code: of whole numbers, one in a hundred may differ."""
    if _is_whole(b):
        return sqrt(max(0.0, float((a != b).sum()) - _free_flips(b)))
    return error(a, b)


def size(tensor: torch.Tensor) -> float:
    """The Euclidean norm of the finite elements; of whole numbers, each counts 1."""
    if _is_whole(tensor):
        return sqrt(tensor.numel())
    return _number(distances(tensor, torch.zeros_like(tensor)).l2_error)


def _is_whole(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())


def _free_flips(tensor: torch.Tensor) -> float:
    return _FLIPS_ALLOWED * tensor.numel() + 2 if tensor.numel() > 1 else 0.0


def broken_elements(compiled: torch.Tensor, eager: torch.Tensor, reference: torch.Tensor) -> int:
    """Elements that are NaN or infinite in compiled code, and neither in eager nor in float64."""
    if _is_whole(compiled):
        return 0
    bad = ~torch.isfinite(compiled)
    return int((bad & torch.isfinite(eager) & torch.isfinite(reference)).sum())


def comparisons(
    kind: Kind,
    names: Mapping[Any, str],
    by_way: Mapping[str, Mapping[Any, torch.Tensor]],
    epsilon: float,
) -> list[ResultComparison]:
    """Compare the results called ``names`` between the ways (see ``ways.Ways``)."""
    group_norm = hypot(*(size(by_way["reference"][key]) for key in names))
    return [
        _compared(
            kind,
            name,
            {way: found[key] for way, found in by_way.items() if key in found},
            epsilon,
            group_norm,
        )
        for key, name in names.items()
        if key in by_way["eager"]
    ]


def _compared(
    kind: Kind, name: str, by_way: Mapping[str, torch.Tensor], epsilon: float, group_norm: float
) -> ResultComparison:
    """Compare one result between the ways; compiled code that lacks it counts as zeros."""
    reference, eager = by_way["reference"], by_way["eager"]
    compiled = by_way["compiled"] if "compiled" in by_way else torch.zeros_like(eager)
    interpreted, jittered = by_way.get("interpreted"), by_way.get("jittered")
    return ResultComparison(
        kind=kind,
        name=name,
        dtype=name_of(eager.dtype),
        norm=size(reference),
        group_norm=group_norm,
        epsilon=epsilon,
        eager=error(eager, reference),
        interpreted=float("nan") if interpreted is None else error(interpreted, reference),
        compiled=compiled_error(compiled, reference),
        shift=0.0 if jittered is None else error(jittered, eager),
        broken=broken_elements(compiled, eager, reference),
    )


def op_errors(
    compiled: torch.Tensor,
    exact: torch.Tensor,
    moved: torch.Tensor,
    eager: torch.Tensor,
    *,
    args: Any,
    length: float,
) -> OpErrors:
    """The errors of one result of an op; whole numbers made of floating ones count as flips."""
    if compiled.shape != exact.shape:
        return OpErrors((0.0, 0.0), 0.0, 1.0, (1.0, 1.0), (0.0, 0.0), (0.0, 0.0))
    if _is_whole(exact):
        return _flips(compiled, exact, moved, eager, args)
    found = distances(compiled, exact)
    return OpErrors(
        norm=(_number(found.norm_b), _largest(exact)),
        epsilon=epsilon_of(compiled.dtype),
        length=length,
        compiled=(_number(found.l2_error), _number(found.max_abs_error)),
        eager=_pair(eager, exact),
        shift=_pair(moved, exact),
        broken=broken_elements(compiled, eager, exact),
    )


def _flips(
    compiled: torch.Tensor,
    exact: torch.Tensor,
    moved: torch.Tensor,
    eager: torch.Tensor,
    args: Any,
) -> OpErrors:
    """How many choices (masks, indices) differ from float64.

    If they were computed from floating numbers, one in a hundred may differ: ties, and values that
    rounding moves over a threshold. If they were computed from whole numbers, none.
    """
    flips, *usual = (float((each != exact).sum()) for each in (compiled, eager, moved))
    is_exact = not any(each.is_floating_point() for each in tensors_in(args))
    free = 0.0 if is_exact else _free_flips(exact)
    return OpErrors(
        norm=(float(exact.numel()), 1.0),
        epsilon=0.0,
        length=1.0,
        compiled=(max(0.0, flips - free), 0.0),
        eager=(usual[0], 0.0),
        shift=(usual[1], 0.0),
    )


def _pair(a: torch.Tensor, b: torch.Tensor) -> tuple[float, float]:
    found = distances(a, b)
    return _number(found.l2_error), _number(found.max_abs_error)


def _largest(tensor: torch.Tensor) -> float:
    finite = tensor[torch.isfinite(tensor)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _number(value: float) -> float:
    return value if value == value else 0.0
