"""Pairs the leaves of two steps: parameters, buffers, optimizer state, inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from math import nan
from typing import Final, NamedTuple

import numpy as np
import xxhash

from sonde.compare.parameter_names import tokens
from sonde.compare.runs.result import How
from sonde.compare.runs.run_side import RunSide, SideOp
from sonde.core.dtypes import BY_NAME
from sonde.core.errors import DumpError, SondeError
from sonde.core.graph import Kind

LeafPair = tuple[SideOp, SideOp, How]

_STATE: Final = {"moments": "momentum_buffer", "moment1": "exp_avg", "moment2": "exp_avg_sq"}


class StepLeaf(NamedTuple):
    op: SideOp
    side: RunSide


def pair_leaves(a: RunSide, b: RunSide, known: Mapping[str, str]) -> Iterator[LeafPair]:
    """Pair the parameters and inputs of both sides; ``known`` are parameters paired before.

    In this order: as known; the same name; the corresponding name of the other framework; state of
    paired parameters; equal values or statistics that no other leaf has; the same shape in the
    same order, if both sides have the same number of leaves of that shape.
    """
    paired = dict(known)
    for kind in ("parameter", "input"):
        left = {op.name: StepLeaf(op, a) for op in a.leaves(kind)}
        right = {op.name: StepLeaf(op, b) for op in b.leaves(kind)}
        for leaf, twin, how in _pair_kind(kind, left, right, paired):
            paired[leaf.name] = twin.name
            yield leaf, twin, how


def _pair_kind(
    kind: Kind, left: dict[str, StepLeaf], right: dict[str, StepLeaf], paired: Mapping[str, str]
) -> Iterator[LeafPair]:
    """The pairs of one kind; the caller adds each to ``paired``."""
    if kind == "parameter":
        for name_a, name_b in list(paired.items()):
            if name_a in left and name_b in right:
                yield left.pop(name_a).op, right.pop(name_b).op, "name"
        yield from _by("name", left, right, lambda leaf: leaf.op.name)
        yield from _by("name", left, right, _torch_name)
        yield from _by_parameter(left, right, paired)
    yield from _by("value", left, right, _contents)
    yield from _by("value", left, right, _numbers)
    if kind == "parameter":
        yield from _by_parameter(left, right, paired)
    yield from _by_order(left, right)


def _by_parameter(
    left: dict[str, StepLeaf], right: dict[str, StepLeaf], paired: Mapping[str, str]
) -> Iterator[LeafPair]:
    """The optimizer's state of paired parameters."""
    for name in list(left):
        head, _, parameter = name.partition(".")
        twin = paired.get(parameter)
        if twin is None:
            continue
        heads = [head, *(ours for theirs, ours in _STATE.items() if theirs == head)]
        heads += [theirs for theirs, ours in _STATE.items() if ours == head]
        for other in heads:
            if f"{other}.{twin}" in right:
                yield left.pop(name).op, right.pop(f"{other}.{twin}").op, "name"
                break


def _torch_name(leaf: StepLeaf) -> str:
    """The name of a parameter in torch, without the prefixes of wrappers."""
    head, *rest = tokens(leaf.op.name)
    return ".".join((_STATE.get(head, head), *rest))


def _by(
    how: How,
    left: dict[str, StepLeaf],
    right: dict[str, StepLeaf],
    key: Callable[[StepLeaf], Hashable | None],
) -> Iterator[LeafPair]:
    """Pairs with the same key, if exactly one leaf on each side has it and their sizes agree."""
    if not left or not right:
        return
    groups_a, groups_b = _groups(left.values(), key), _groups(right.values(), key)
    for each, leaves in groups_a.items():
        others = groups_b.get(each, [])
        if len(leaves) == len(others) == 1:
            a, b = leaves[0].op, others[0].op
            if a.size == b.size or a.size < 0 or b.size < 0:
                yield left.pop(a.name).op, right.pop(b.name).op, how


def _groups(
    leaves: Iterable[StepLeaf], key: Callable[[StepLeaf], Hashable | None]
) -> dict[Hashable, list[StepLeaf]]:
    groups: dict[Hashable, list[StepLeaf]] = defaultdict(list)
    for leaf in leaves:
        found = key(leaf)
        if found is not None:
            groups[found].append(leaf)
    return groups


def _by_order(left: dict[str, StepLeaf], right: dict[str, StepLeaf]) -> Iterator[LeafPair]:
    """Same shape, same order; only if both sides have the same number of leaves of the shape."""
    groups_a, groups_b = _groups(left.values(), _outline), _groups(right.values(), _outline)
    for outline, leaves in groups_a.items():
        others = groups_b.get(outline, [])
        if len(leaves) == len(others):
            for leaf, other in zip(leaves, others, strict=True):
                yield left.pop(leaf.op.name).op, right.pop(other.op.name).op, "order"


def _outline(leaf: StepLeaf) -> tuple[int, ...]:
    """The sizes, which a transposition keeps, and whether the values are floats, and gradients."""
    spec = leaf.op.outputs[0].spec
    dtype = BY_NAME.get(spec.dtype)
    is_float = dtype is not None and dtype.is_float
    return (*sorted(spec.shape), int(is_float), int(leaf.op.is_gradient_leaf))


def _numbers(leaf: StepLeaf) -> Hashable | None:
    """Size, extremes and norm, for dumps of statistics; None for constants."""
    record = leaf.side.initial_record(leaf.op)
    if record is None:
        return None
    try:
        if record.row is not None:
            values = record.row.values
            found = [values.get(name) for name in ("max", "min", "l2norm")]
        else:
            numbers = record.statistics()
            found = [numbers.max, numbers.min, numbers.l2norm]
    except SondeError:
        return None
    high, low, norm = (float(each) if isinstance(each, int | float) else nan for each in found)
    return None if high == low or high != high else (leaf.op.size, high, low, f"{norm:.5g}")


def _contents(leaf: StepLeaf) -> Hashable | None:
    """A digest of the sorted values, which transposed weights share; None for constants, and if
    the values were not dumped."""
    record = leaf.side.initial_record(leaf.op)
    if record is None or record.path is None:
        return None
    try:
        with np.errstate(invalid="ignore"):  # Memory that nothing was written to.
            values = np.sort(np.asarray(record.numpy(), np.float64), axis=None)
    except (DumpError, TypeError):
        return None
    if values.size < 2 or values[0] == values[-1]:
        return None
    return xxhash.xxh3_128_hexdigest(values.tobytes())
