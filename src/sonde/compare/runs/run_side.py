"""One side of a comparison: the ops of one step of one rank, connected, in execution order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from sonde.core.graph import Kind, Phase, Source, TensorSpec
from sonde.core.keys import Io
from sonde.core.operators.kinds import behaviour_of, is_plumbing
from sonde.dump.graph_files.pb import GraphWriter
from sonde.dump.tensor_record import TensorRecord


class SideValue(NamedTuple):
    """One output of an op, or the initial value of a leaf (slot 0)."""

    op: str
    slot: int


@dataclass(frozen=True, slots=True)
class Output:
    slot: int
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class SideOp:
    """An op of one side.

    ``index`` is its position in ``RunSide.ops``. The backward op of a convolution is divided into
    one op for each gradient, because other frameworks compute them with separate ops.
    ``input_slots`` are the positions of ``inputs`` among all inputs of the op.
    """

    index: int
    name: str
    type: str
    kind: str
    phase: Phase
    node_kind: Kind
    scope: str
    inputs: tuple[SideValue, ...]
    input_slots: tuple[int, ...]
    outputs: tuple[Output, ...]
    attributes: tuple[tuple[str, str], ...]
    source: Source | None

    @property
    def is_leaf(self) -> bool:
        return self.node_kind != "op"

    @property
    def is_gradient_leaf(self) -> bool:
        """Whether it is the gradient of a parameter, which FSDP2 hands over as a new tensor."""
        return self.is_leaf and self.name.endswith(".grad")

    @property
    def inputs_by_slot(self) -> Iterator[tuple[int, SideValue]]:
        return zip(self.input_slots, self.inputs, strict=True)

    @property
    def value(self) -> SideValue:
        """The main output."""
        return SideValue(self.name, self.outputs[0].slot if self.outputs else 0)

    @property
    def size(self) -> int:
        """Elements of the main output; -1 if that is not known."""
        if not self.outputs:
            return -1
        shape = self.outputs[0].spec.shape
        return prod(shape) if all(size >= 0 for size in shape) else -1


@dataclass(frozen=True, slots=True)
class State:
    """The value of a parameter at the end of the step, and the op that wrote it."""

    parameter: str
    op: SideOp
    record: TensorRecord


@dataclass
class RunSide:
    """The ops of one step, leaves among them, in execution order, and the tensors dumped."""

    step: int
    writer: GraphWriter | None
    ops: list[SideOp]
    records: dict[tuple[str, Io, int], TensorRecord]
    structure: int
    _by_value: dict[SideValue, SideOp] = field(init=False, repr=False)
    _roots: dict[SideValue, SideValue] = field(init=False, repr=False)
    _readers: dict[SideValue, list[SideOp]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._by_value = {SideValue(op.name, out.slot): op for op in self.ops for out in op.outputs}
        self._roots = {}
        self._readers = defaultdict(list)
        for op in self.ops:
            for root in dict.fromkeys(self.roots(op)):
                self._readers[root].append(op)

    def producer(self, value: SideValue) -> SideOp | None:
        return self._by_value.get(value)

    def root(self, value: SideValue) -> SideValue:
        """The value that this value was copied from, through ops that only pass values on."""
        found = self._roots.get(value)
        if found is not None:
            return found
        seen = [value]
        while True:
            op = self._by_value.get(seen[-1])
            if op is None or op.is_leaf or not op.inputs or not is_plumbing(op.type):
                break
            before = op.inputs[0]
            if before in seen:
                break
            seen.append(before)
        for each in seen:
            self._roots[each] = seen[-1]
        return seen[-1]

    def roots(self, op: SideOp) -> list[SideValue]:
        """The roots of an op's inputs, in order, without constants of the graph."""
        return [
            root
            for value in op.inputs
            if (producer := self._by_value.get(root := self.root(value))) is not None
            and producer.node_kind != "constant"
        ]

    def readers(self, root: SideValue) -> list[SideOp]:
        """The ops that read a root, directly or through ops that pass it on."""
        return self._readers.get(root, [])

    def leaves(self, kind: Kind) -> list[SideOp]:
        return [op for op in self.ops if op.node_kind == kind]

    def output_record(self, value: SideValue) -> TensorRecord | None:
        """The tensor of a value: as output of its op, or else as input of an op that reads it."""
        found = self.records.get((value.op, "output", value.slot))
        if found is not None:
            return found
        readers = self.readers(self.root(value))
        return next(self._input_records(readers, lambda each: each == value), None)

    def _input_records(
        self, ops: Iterable[SideOp], is_wanted: Callable[[SideValue], bool]
    ) -> Iterator[TensorRecord]:
        for op in ops:
            for slot, value in op.inputs_by_slot:
                record = self.records.get((op.name, "input", slot))
                if record is not None and is_wanted(value):
                    yield record

    def initial_record(self, leaf: SideOp) -> TensorRecord | None:
        """The tensor of a leaf before the step changes it.

        MindSpore dumps parameters at the end of the step, but inputs of an op when it runs; the
        input of an op that changes it has the changed value.
        """
        if self.writer != "mindspore" or leaf.node_kind != "parameter":
            return self.output_record(leaf.value)
        changing = self.changing(leaf.value)
        readers = (
            op
            for op in self.readers(leaf.value)
            if op.index not in changing and op.phase != "optimizer"
        )
        return next(self._input_records(readers, lambda each: self.root(each) == leaf.value), None)

    def changing(self, leaf: SideValue) -> set[int]:
        """The ops that write to a parameter."""
        return {
            op.index
            for op in self.readers(leaf)
            for slot, value in op.inputs_by_slot
            if self.root(value) == leaf and _writes_to(op, slot, self.writer) is not None
        }

    def states(self) -> dict[str, State]:
        """The parameters that the step changes, with their values afterwards."""
        if self.writer == "mindspore":
            return dict(self._foreign_states())
        owner: dict[SideValue, str] = {
            leaf.value: leaf.name for leaf in self.ops if leaf.node_kind == "parameter"
        }
        found: dict[str, State] = {}
        for op in self.ops:
            for slot, value in op.inputs_by_slot:
                parameter = owner.get(self.root(value)) or owner.get(value)
                written = _writes_to(op, slot, self.writer)
                if parameter is None or written is None:
                    continue
                owner[SideValue(op.name, written)] = parameter
                record = self.records.get((op.name, "output", written))
                if record is not None:
                    found[parameter] = State(parameter, op, record)
        return found

    def _foreign_states(self) -> Iterator[tuple[str, State]]:
        for leaf in self.leaves("parameter"):
            record = self.records.get((leaf.name, "output", 0))
            changing = self.changing(leaf.value)
            if record is not None and changing:
                yield leaf.name, State(leaf.name, self.ops[max(changing)], record)


def _writes_to(op: SideOp, slot: int, writer: str | None) -> int | None:
    """The output that holds input ``slot`` after the op changed it; None if it does not."""
    if writer == "mindspore":
        if op.kind == "batch_norm" and slot in (3, 4):
            return slot
        return 0 if slot == 0 and op.type.startswith(("Apply", "Assign", "Adam", "Fused")) else None
    if op.kind == "batch_norm":
        return slot if slot in (3, 4) and any(out.slot == slot for out in op.outputs) else None
    if not op.type.endswith("_") or op.is_leaf:
        return None
    return slot if slot < len(op.outputs) else None


def behaviour(op: SideOp) -> str:
    """How the op propagates errors; ``update`` for the arithmetic of the optimizer."""
    found = behaviour_of(op.type)
    if op.kind in ("sum", "conv_grad_filter", "conv_grad_input"):
        return "reduction" if op.kind == "sum" else "product"
    if op.phase == "optimizer" and found not in ("identity", "movement"):
        return "update"
    return found
