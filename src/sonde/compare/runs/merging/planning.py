"""Decides how each tensor of two runs with different layouts is merged.

What is recorded in the dump, or given in a file, is used. The rest is inferred: a dimension that is
shorter than in the other run, by the number of ranks, is divided among them; tensors of the same
shape are copies, or parts of a sum or a mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Final

from sonde.compare.run_layout import AxisRule, Rule
from sonde.compare.runs.loss import loss_op
from sonde.compare.runs.merging.grid import MICRO_BATCHES
from sonde.compare.runs.merging.locality import local_ops
from sonde.compare.runs.merging.merge import RankSides, Slot
from sonde.compare.runs.merging.plan import (
    MergePlan,
    Origin,
    Place,
    RowOrder,
    Rules,
    Shape,
    merged_shape,
)
from sonde.compare.runs.merging.record import MergedRecord, merged_record
from sonde.compare.runs.run_side import SideOp, SideValue
from sonde.core.errors import DumpError
from sonde.core.graph import Kind, Phase
from sonde.dump.graph_files.placement import AxisPlacement, RecordedPlacement
from sonde.dump.tensor_record import TensorRecord
from sonde.watch.hit_text import COLLECTIVES

_MOST_READINGS: Final = 512
_MOST_LENGTHS: Final = 8
_MOST_BLOCKS: Final = 8192
_SUM: Final[Rule] = "sum"
_REDUCTIONS: Final[dict[str, Rule]] = {
    "sum": "sum",
    "avg": "mean",
    "norm": "norm",
    "max": "max",
    "min": "min",
}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the merge of a tensor before the other side is looked at: rules for some
    axes, the local shapes, and which axes are open."""

    rules: Mapping[int, AxisRule]
    shapes: Mapping[Place, Shape]
    open_axes: tuple[int, ...]
    origin: Origin


@dataclass(slots=True)
class SidePlanner:
    """Plans the tensors of one side. ``losses``: what the losses of the places along each axis are
    of the whole loss; ``batch_axes``: those along which the batch is divided.
    ``settled``: the ops after the backward pass and the last exchange between ranks that use
    gradients, such as clipping. ``local``: the ops that depend on the samples of one rank only.
    ``loss``: the tensor from which the backward pass starts."""

    found: RankSides
    losses: tuple[Rule, ...] = ()
    batch_axes: frozenset[int] = frozenset()
    order: RowOrder | None = None
    kinds: dict[str, tuple[Kind, Phase]] = field(default_factory=dict)
    leaf_placements: dict[str, list[RecordedPlacement]] = field(default_factory=dict)
    forward_values: set[Slot] = field(default_factory=set)
    settled: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()
    loss: Slot | None = None
    _lengths: set[int] | None = None

    def __post_init__(self) -> None:
        self.losses = tuple(_SUM for _ in self.found.grid.axes)
        side = self.found.side
        self.kinds = {self.found.name(op.name): (op.node_kind, op.phase) for op in side.ops}
        self.forward_values = set(self._saved_values())
        self.settled = frozenset(self._settled())
        self.local = frozenset(map(self.found.name, local_ops(side, self._differs)))
        loss = loss_op(side)
        if loss is not None:
            self.loss = (self.found.name(loss.name), "output", loss.value.slot)
        for op in side.ops:
            for slot, value in op.inputs_by_slot:
                placement = self.found.placements.get((self.found.name(op.name), "input", slot))
                producer = side.producer(value)
                if placement is not None and producer is not None and producer.is_leaf:
                    self.leaf_placements.setdefault(value.op, []).append(placement)

    def _differs(self, op: SideOp) -> bool:
        """Whether an op has other values on other ranks, or in other micro-batches."""
        parts = self.found.parts.get((self.found.name(op.name), "output", op.value.slot), {})
        return len(parts) > 1 and not _are_equal(parts)

    def _saved_values(self) -> Iterator[Slot]:
        """Values of the forward pass that ops of the backward pass read, pass on or compute again:
        they are no gradients."""
        side = self.found.side
        for op in side.ops:
            if op.phase != "backward":
                continue
            name = self.found.name(op.name)
            for output in op.outputs:
                if "recompute_" in name or self._is_saved(SideValue(op.name, output.slot)):
                    yield name, "output", output.slot
            for slot, value in op.inputs_by_slot:
                if self._is_saved(value):
                    yield name, "input", slot

    def _is_saved(self, value: SideValue) -> bool:
        side = self.found.side
        root = side.root(value)
        maker = side.producer(self.found.aliases.get(root, root))
        if maker is None or maker.phase == "backward":
            return False
        # What only the backward pass reads was made by it: by a collective, for example.
        return not maker.is_leaf or any(op.phase == "forward" for op in side.readers(root))

    def _settled(self) -> Iterator[str]:
        side = self.found.side
        last = max(
            (
                op.index
                for op in side.ops
                if op.phase == "backward" or op.type.startswith(COLLECTIVES)
            ),
            default=len(side.ops),
        )
        found: set[str] = set()
        for op in side.ops[last + 1 :]:
            makers = (side.producer(value) for value in op.inputs)
            if not op.is_leaf and any(
                maker is not None
                and (maker.phase == "backward" or maker.name in found or maker.is_gradient_leaf)
                for maker in makers
            ):
                found.add(op.name)
                yield self.found.name(op.name)

    @property
    def is_single(self) -> bool:
        return not self.found.grid.axes

    def known(self, slot: Slot) -> Known | None:
        """What is known of a tensor; None if its shapes cannot be read."""
        grid, parts = self.found.grid, self.found.parts[slot]
        if slot[1] == "input" and slot[0] in self._only_later:
            return None  # The gradient of the micro-batches so far.
        try:
            shapes = {place: record.shape for place, record in parts.items()}
        except DumpError:
            return None
        rules: dict[int, AxisRule] = {}
        origin: Origin = "inferred"
        for number, rule in self._recorded(slot, shapes).items():
            rules[number], origin = rule, "recorded"
        given = self.found.layout.rules_of(slot[0])
        for number, axis in enumerate(grid.axes):
            if axis.name in given:
                rules[number], origin = given[axis.name], "file"
            count = len({place[number] for place in parts})
            if axis.name == MICRO_BATCHES and slot[0] in self._only_later:
                rules[number] = AxisRule("last")
            elif axis.name == MICRO_BATCHES and slot[0] in self._gradients and count < axis.size:
                return None  # The first gradient, to which those of later micro-batches are added.
            elif count == 1:
                rules[number] = AxisRule("one")
        open_axes = tuple(number for number in range(len(grid.axes)) if number not in rules)
        return Known(rules, shapes, open_axes, origin)

    def _recorded(self, slot: Slot, shapes: Mapping[Place, Shape]) -> dict[int, AxisRule]:
        """The rules of the recorded placement that fits the dumped shapes: FSDP2 uses one name for
        a shard and for the parameter that it gathers."""
        own = self.found.placements.get(slot)
        candidates = [] if own is None else [own]
        candidates += self.leaf_placements.get(slot[0], []) if slot[1] == "output" else []
        for placement in candidates:
            axes = self.found.grid.axes_of(placement)
            rules = {number: _recorded_rule(kind) for number, kind in axes.items()}
            every = range(len(self.found.grid.axes))
            whole = tuple(rules.get(number, AxisRule("same")) for number in every)
            if rules and merged_shape(shapes, whole) == placement.shape:
                return rules
        return {}

    @property
    def _only_later(self) -> frozenset[str]:
        return self.found.batches[self.found.base].only_later

    @property
    def _gradients(self) -> frozenset[str]:
        """The backward ops of micro-batches."""
        batches = self.found.batches[self.found.base]
        names = map(batches.name, batches.numbers)
        return frozenset(name for name in names if self.kinds[name][1] == "backward")

    def readings(self, known: Known) -> Iterator[tuple[Rules, Shape]]:
        """The ways to merge a tensor, with the shapes that result; not concatenating is first."""
        rank = len(next(iter(known.shapes.values())))
        options = [None, *range(rank)]
        count = len(known.open_axes)
        if (rank + 1) ** count > _MOST_READINGS:
            options = [None, 0]
        for dims in sorted(product(options, repeat=count), key=_preference):
            chosen = dict(known.rules)
            for axis, dim in zip(known.open_axes, dims, strict=True):
                chosen[axis] = AxisRule("same") if dim is None else AxisRule("concat", dim)
            rules = tuple(chosen[number] for number in range(len(self.found.grid.axes)))
            shape = merged_shape(known.shapes, rules)
            if shape is not None:
                yield rules, shape

    def record(self, slot: Slot, rules: Rules, shape: Shape, origin: Origin) -> MergedRecord | None:
        """The merged tensor; None if a part of it was not dumped."""
        parts = self.found.parts[slot]
        sizes = [axis.size for axis in self.found.grid.axes]
        needed = prod(
            size for size, rule in zip(sizes, rules, strict=True) if rule.rule == "concat"
        )
        present = {
            tuple(place[number] for number, rule in enumerate(rules) if rule.rule == "concat")
            for place in parts
        }
        if len(present) < needed:
            return None
        plan = self._plan(slot, rules, origin)
        return merged_record(parts, self.found.grid, plan, shape)

    def _plan(self, slot: Slot, rules: Rules, origin: Origin) -> MergePlan:
        kind, phase = self.kinds.get(slot[0], ("op", "forward"))
        if kind == "parameter" or phase == "optimizer" or slot[0] in self.settled:
            # Updates, weights and gradients that are used are never parts of a sum: ranks that
            # differ are a fault.
            rules = tuple(AxisRule("one") if each.rule == "same" else each for each in rules)
        is_gradient = phase == "backward" and slot not in self.forward_values
        scale = 1.0
        for number in self.batch_axes:
            if is_gradient and rules[number].rule == "concat" and self.losses[number] == "mean":
                scale /= self.found.grid.axes[number].size
        is_number = prod(next(iter(self.found.parts[slot].values())).shape) == 1
        is_local = slot[0] in self.local and slot != self.loss and phase != "optimizer"
        return MergePlan(
            rules,
            origin,
            scale,
            self.losses,
            is_free=phase == "forward" and kind == "op" and slot != self.loss,
            order=self.order,
            scales=self._factors(is_gradient)
            if is_number and is_local and kind == "op"
            else (1.0,),
            others=tuple(self._in_blocks(slot, rules)),
        )

    def _in_blocks(self, slot: Slot, rules: Rules) -> Iterator[Rules]:
        """The rules for a dimension that holds several rows of each sample: those of all samples at
        the first position may come first, as in torch's attention."""
        axes = {number for number in self.batch_axes if rules[number].rule == "concat"}
        dims = {rules[number].dim for number in axes}
        if len(dims) != 1:
            return
        (dim,) = dims
        lengths = {record.shape[dim] for record in self.found.parts[slot].values()}
        if len(lengths) != 1:
            return
        (length,) = lengths
        for blocks in range(2, min(length, _MOST_BLOCKS) + 1):
            if length % blocks == 0:
                yield tuple(
                    replace(rule, blocks=blocks) if number in axes else rule
                    for number, rule in enumerate(rules)
                )

    def _factors(self, is_gradient: bool) -> tuple[float, ...]:
        """The factors by which a number that one rank computes from its part of the batch can
        differ from that of the whole batch: a count of targets, or the gradient of a sum where the
        loss is a mean over the ranks."""
        options: list[tuple[float, ...]] = []
        for number in sorted(self.batch_axes):
            size = float(self.found.grid.axes[number].size)
            if not is_gradient:
                options.append((1.0, size, 1 / size))
            else:
                options.append((1.0, 1 / size if self.losses[number] == "mean" else size))
        return tuple(dict.fromkeys(map(prod, product(*options))))

    def default_reading(self, slot: Slot, known: Known) -> tuple[Rules, Shape] | None:
        """Without a counterpart: parts that differ and have the length of the local batch are
        concatenated."""
        fixed = {number: AxisRule("same") for number in known.open_axes}
        parts = self.found.parts[slot]
        lengths = {shape[0] for shape in known.shapes.values() if shape}
        is_batch = bool(lengths) and lengths <= self.batch_lengths
        if known.open_axes and is_batch and not _are_equal(parts):
            fixed.update(
                (number, AxisRule("concat", 0))
                for number in known.open_axes
                if number in self.batch_axes
            )
        rules = tuple(
            known.rules.get(number) or fixed[number] for number in range(len(self.found.grid.axes))
        )
        shape = merged_shape(known.shapes, rules)
        return None if shape is None else (rules, shape)

    @property
    def batch_lengths(self) -> set[int]:
        """The lengths of the local parts of the batch: of the inputs and the first values of the
        forward pass that differ between places."""
        if self._lengths is None:
            self._lengths = set()
            left = _MOST_LENGTHS
            for (name, io, _), parts in self.found.parts.items():
                kind, phase = self.kinds.get(name, ("op", "forward"))
                is_first = io == "output" and phase == "forward" and kind != "parameter"
                if is_first and left and len(parts) > 1 and not _are_equal(parts):
                    left -= 1
                    for record in parts.values():
                        self._lengths.update(record.shape[:1])
        return self._lengths


def _recorded_rule(kind: AxisPlacement) -> AxisRule:
    if kind.kind == "sharded":
        return AxisRule("concat", kind.dim, kind.is_inner)
    if kind.kind == "partial":
        return AxisRule(_REDUCTIONS.get(kind.reduction, "sum"))
    return AxisRule("one")


def _preference(dims: Sequence[int | None]) -> tuple[int, tuple[int, ...]]:
    return sum(dim is not None for dim in dims), tuple(-1 if dim is None else dim for dim in dims)


def _are_equal(parts: Mapping[Place, TensorRecord]) -> bool:
    try:
        return len({record.numpy().tobytes() for record in parts.values()}) == 1
    except DumpError:
        return True
