"""Pairing what both runs begin with: parameters, buffers, optimizer state, inputs."""

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
    """Parameters and inputs of both sides that are the same; ``known`` are parameters paired
    before.

    In this order: as known; the same name; the same name but for the framework's words; state of
    paired parameters; equal values, or statistics, no other leaf has; the same shape in the same
    order, where both sides have as many.
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
    """The pairs of one kind; ``paired`` grows as its caller takes them."""
    if kind == "parameter":
        for name_a, name_b in list(paired.items()):
            if name_a in left and name_b in right:
                yield left.pop(name_a).op, right.pop(name_b).op, "name"
        yield from _by("name", left, right, _own_name)
        yield from _by("name", left, right, _plain_name)
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


def plain_name(name: str) -> str:
    """A parameter's name in torch's words, without what wrappers add."""
    head, *rest = tokens(name)
    return ".".join((_STATE.get(head, head), *rest))


def _by(
    how: How,
    left: dict[str, StepLeaf],
    right: dict[str, StepLeaf],
    key: Callable[[StepLeaf], Hashable | None],
) -> Iterator[LeafPair]:
    """Pairs with the same key, if one leaf on each side has it and their sizes agree."""
    if not left or not right:
        return
    groups_a, groups_b = _groups(left.values(), key), _groups(right.values(), key)
    for each, leaves in groups_a.items():
        others = groups_b.get(each, [])
        if len(leaves) == len(others) == 1 and may_be_equal(leaves[0].op, others[0].op):
            yield left.pop(leaves[0].op.name).op, right.pop(others[0].op.name).op, how


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
    """Same shape, same order; only where both sides have as many of the shape."""
    groups_a, groups_b = _groups(left.values(), _outline), _groups(right.values(), _outline)
    for outline, leaves in groups_a.items():
        others = groups_b.get(outline, [])
        if len(leaves) == len(others):
            for leaf, other in zip(leaves, others, strict=True):
                yield left.pop(leaf.op.name).op, right.pop(other.op.name).op, "order"


def _own_name(leaf: StepLeaf) -> str:
    return leaf.op.name


def _plain_name(leaf: StepLeaf) -> str:
    return plain_name(leaf.op.name)


def _outline(leaf: StepLeaf) -> tuple[int, ...]:
    """What a transposition keeps of the shape, and whether the values are whole numbers."""
    spec = leaf.op.outputs[0].spec
    dtype = BY_NAME.get(spec.dtype)
    return (*sorted(spec.shape), int(dtype is not None and dtype.is_float))


def may_be_equal(a: SideOp, b: SideOp) -> bool:
    """Whether two leaves have the same number of elements, as far as that is known."""
    return a.size == b.size or a.size < 0 or b.size < 0


def _numbers(leaf: StepLeaf) -> Hashable | None:
    """Size, extremes and norm, for dumps of statistics; None for what many leaves may be."""
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
    """A digest of the sorted values, so that transposed weights are found too; None for what many
    leaves may be (constants) or what is not dumped."""
    record = leaf.side.initial_record(leaf.op)
    if record is None or record.path is None:
        return None
    try:
        values = np.sort(np.asarray(record.numpy(), np.float64), axis=None)
    except (DumpError, TypeError):
        return None
    if values.size < 2 or values[0] == values[-1]:
        return None
    return xxhash.xxh3_128_hexdigest(values.tobytes())
