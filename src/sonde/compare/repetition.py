"""Two runs of one program: from which op on they differ.

Works on dumps of statistics with hashes. An op is the *origin* of a difference when its outputs
differ though its inputs do not; what comes after it only inherits. Memory that no op has written
yet (``torch.empty``) holds anything and counts as equal, until an op writes it; bytes that an op
leaves for its backward (the workspace of an LSTM) count when what reads them differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from sonde.core.errors import DumpError
from sonde.core.graph import LEAF_TYPES, OpNode, Source
from sonde.dump.reader import Dump
from sonde.dump.tensor_record import TensorRecord

HASH = "xxh3"
Kind = Literal["weights", "data", "random", "algorithm", "structure", "steps"]

_UNWRITTEN = ("empty", "new_empty", "resize_")
_SCRATCH = ("uint8", "int8")
_VIEWS = frozenset(
    {"view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "slice", "select", "t"}
    | {"transpose", "permute", "expand", "unsqueeze", "squeeze", "detach", "alias", "narrow"}
    | {"split", "split_with_sizes", "unbind", "chunk", "lift_fresh"}
)
_RANDOM = (
    *(
        "bernoulli",
        "native_dropout",
        "dropout",
        "rand",
        "normal",
        "uniform",
        "random",
        "multinomial",
    ),
    *("exponential", "cauchy", "geometric", "log_normal", "poisson", "_fused_dropout"),
)


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two runs part. ``op`` is a full name; ``source`` the user's line, if known."""

    kind: Kind
    step: int
    op: str
    op_type: str
    phase: str
    source: Source | None
    slots: tuple[str, ...]
    told: str


@dataclass(frozen=True, slots=True)
class Repetition:
    """Two runs compared: ``first`` is None when they are equal in all ``steps``."""

    steps: tuple[int, ...]
    tensors: int
    differing: int
    first: FirstDifference | None


def compare_repetition(a: Dump, b: Dump, *, is_seeded: bool = False) -> Repetition:
    """Compare two dumps of one program, step by step and op by op, in the order they ran.

    ``is_seeded``: they ran with ``--deterministic``, which is then no advice any more.
    """
    steps_a, steps_b = a.steps(), b.steps()
    common = tuple(step for step in steps_a if step in set(steps_b))
    first: FirstDifference | None = None
    tensors = differing = 0
    for rank in a.ranks:
        for step in common:
            walk = _Step(step)
            for ours, theirs in _runs(a, b, step, rank):
                if theirs is None or ours is None:
                    first = first or _other_ops(step, ours or theirs or [])
                    break
                found = walk.compare(ours, theirs)
                first = first or found
            tensors += walk.tensors
            differing += walk.differing
    if first is None and steps_a != steps_b:
        first = _other_steps(steps_a, steps_b)
    if first is not None and first.source is None and first.op:
        first = replace(first, source=_first_use(a, first))
    if first is not None and is_seeded:
        first = replace(first, told=_TOLD_SEEDED.get(first.kind, first.told))
    return Repetition(common, tensors, differing, first)


def _first_use(dump: Dump, first: FirstDifference) -> Source | None:
    """The line that first reads what is no op: a weight or data."""
    for graph in dump.graphs():
        if first.op in graph:
            users = graph.consumers(first.op)
            return next((user.source for user in users if user.source is not None), None)
    return None


def _runs(
    a: Dump, b: Dump, step: int, rank: int
) -> Iterator[tuple[list[TensorRecord] | None, list[TensorRecord] | None]]:
    """The tensors of op after op of both runs; None on the side that has run another op."""
    ours, theirs = _by_op(a, step, rank), _by_op(b, step, rank)
    while True:
        left, right = next(ours, None), next(theirs, None)
        if left is None and right is None:
            return
        if left is None or right is None or left[0].key.op != right[0].key.op:
            yield left, None
            return
        yield left, right


def _by_op(dump: Dump, step: int, rank: int) -> Iterator[list[TensorRecord]]:
    records = dump.tensors(step=step, rank=rank if rank in dump.ranks else None)
    for _, group in groupby(records, key=lambda record: (record.key.order, record.key.op)):
        yield list(group)


class _Step:
    """One step, walked through in the order its ops ran."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._unwritten: set[str] = set()
        self._scratch: dict[tuple[str, int], FirstDifference] = {}
        self.tensors = self.differing = 0

    def compare(
        self, ours: list[TensorRecord], theirs: list[TensorRecord]
    ) -> FirstDifference | None:
        """The difference that begins at this op, or at scratch memory it reads, if one does."""
        others = {(each.key.io, each.key.slot): each for each in theirs}
        self.tensors += len(ours)
        changed = [
            each for each in ours if _hash(each) != _hash(others.get((each.key.io, each.key.slot)))
        ]
        first = ours[0]
        inputs = [each for each in changed if each.key.io == "input"]
        outputs = [each for each in changed if each.key.io == "output"]
        if first.op_type.startswith(_UNWRITTEN):
            self._unwritten.add(first.key.op)
            return None
        read = [each for each in inputs if not self._is_unwritten(first.node, each.key.slot)]
        if inputs and not read and first.op_type in _VIEWS:
            self._unwritten.add(first.key.op)
            return None
        scratch = [self._scratch.get(_producer(first.node, each.key.slot)) for each in read]
        if outputs and not any(told is None for told in scratch):
            return self._begin(first, outputs, next(iter(scratch), None))
        self.differing += len(outputs) + sum(told is None for told in scratch)
        return None

    def _begin(
        self, first: TensorRecord, outputs: list[TensorRecord], scratch: FirstDifference | None
    ) -> FirstDifference | None:
        """A difference that no input explains, but perhaps scratch memory."""
        if all(each.dtype in _SCRATCH for each in outputs):
            for each in outputs:
                told = scratch or _difference(self._step, first, (f"output.{each.key.slot}",))
                self._scratch[first.key.op, each.key.slot] = told
            return None
        self.differing += len(outputs)
        if scratch is not None:
            return scratch
        return _difference(self._step, first, tuple(f"output.{each.key.slot}" for each in outputs))

    def _is_unwritten(self, node: OpNode | None, slot: int) -> bool:
        return _producer(node, slot)[0] in self._unwritten


def _producer(node: OpNode | None, slot: int) -> tuple[str, int]:
    """The op and slot an input comes from; ("", 0) where that is not known."""
    if node is None or slot >= len(node.inputs):
        return "", 0
    edge = node.inputs[slot]
    return edge.producer or "", edge.slot


def _hash(record: TensorRecord | None) -> object:
    """What identifies the values of a tensor; None where the dump has no hash of it."""
    if record is None or record.row is None:
        return None
    return record.row.values.get(HASH), record.row.shape, record.row.dtype


def _difference(step: int, record: TensorRecord, slots: tuple[str, ...]) -> FirstDifference:
    node = record.node
    kind: Kind = "algorithm"
    if record.op_type == LEAF_TYPES["parameter"]:
        kind = "weights"
    elif record.op_type in (LEAF_TYPES["input"], LEAF_TYPES["constant"]):
        kind = "data"
    elif record.op_type.strip("_").startswith(_RANDOM):
        kind = "random"
    return FirstDifference(
        kind,
        step,
        record.key.op,
        record.op_type,
        "" if node is None else node.phase,
        record.source,
        slots,
        _TOLD[kind],
    )


_TOLD: dict[Kind, str] = {
    "weights": "The weights differ before any op has run: they are drawn with other random "
    "numbers. Set the seed (sonde.set_seed, or --deterministic).",
    "data": "The data differ: other batches, another order, or random augmentation. Seed the "
    "DataLoader (--deterministic), or leave the order alone (--no-shuffle).",
    "random": "This op draws random numbers. Set the seed (--deterministic), or do without "
    "(--no-dropout).",
    "algorithm": "This op gives another result for the same inputs: an algorithm that is not "
    "deterministic, other threads, or memory that was never written. --deterministic removes or "
    "names it.",
}

_TOLD_SEEDED: dict[Kind, str] = {
    "weights": "The weights differ before any op has run, though every generator is seeded: they "
    "come from what no seed reaches, such as a file, the clock or the operating system.",
    "data": "The data differ, though every generator is seeded: they come from what no seed "
    "reaches, such as the clock, the operating system, files that change, or threads that finish "
    "in any order.",
    "random": "This op draws other random numbers, though every generator is seeded: its seed, or "
    "how often it was drawn from before, depends on what no seed reaches.",
    "algorithm": "This op gives another result for the same inputs: it has no deterministic "
    "version, other threads, or reads memory that was never written.",
}


def _other_ops(step: int, records: list[TensorRecord]) -> FirstDifference:
    if not records:
        raise DumpError(f"step {step} has no ops to compare", slug="repeat-nothing")
    first = records[0]
    return FirstDifference(
        "structure",
        step,
        first.key.op,
        first.op_type,
        "" if first.node is None else first.node.phase,
        first.source,
        (),
        "From here on the two runs do not run the same ops: something decides differently, on data "
        "or on random numbers.",
    )


def _other_steps(a: tuple[int, ...], b: tuple[int, ...]) -> FirstDifference:
    step = min(set(a) ^ set(b))
    told = f"Only one of the runs has step {step}: they do not take the same number of steps."
    return FirstDifference("steps", step, "", "", "", None, (), told)
