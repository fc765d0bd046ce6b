"""Compares two runs of one program: the first op at which they differ.

Works on dumps of statistics with hashes. An op is the *origin* of a difference if its outputs
differ although its inputs are equal; later ops inherit the difference. Memory that no op has
written yet (``torch.empty``) may contain anything and counts as equal until an op writes to it.
Scratch memory that an op keeps for its backward (the workspace of an LSTM) counts only if the
outputs of an op that reads it differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from typing import Final, Literal

from sonde.core.finding import Finding
from sonde.core.graph import LEAF_TYPES, OpNode, Source
from sonde.dump.reader import Dump
from sonde.dump.tensor_record import TensorRecord

HASH = "xxh3"
Kind = Literal["weights", "data", "random", "algorithm", "structure", "steps"]
Records = list[TensorRecord]

_UNWRITTEN = ("empty", "new_empty", "resize_")
_SCRATCH = ("uint8", "int8")
_VIEWS = frozenset(
    {"view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "slice", "select", "t"}
    | {"transpose", "permute", "expand", "unsqueeze", "squeeze", "detach", "alias", "narrow"}
    | {"split", "split_with_sizes", "unbind", "chunk", "lift_fresh"}
)
_RANDOM = (
    *("bernoulli", "native_dropout", "dropout", "rand", "normal", "uniform", "random"),
    *("multinomial", "exponential", "cauchy", "geometric", "log_normal", "poisson"),
    "_fused_dropout",
)
_LEAF_KINDS: Final[dict[str, Kind]] = {
    LEAF_TYPES["parameter"]: "weights",
    LEAF_TYPES["input"]: "data",
    LEAF_TYPES["constant"]: "data",
}
_ADVICE: Final[dict[Kind, str]] = {
    "weights": "The weights differ before any op has run: they are drawn with other random "
    "numbers. Set the seed (sonde.set_seed, or --deterministic).",
    "data": "The data differ: other batches, another order, or random augmentation. Seed the "
    "DataLoader (--deterministic), or leave the order alone (--no-shuffle).",
    "random": "This op draws random numbers. Set the seed (--deterministic), or do without "
    "(--no-dropout).",
    "algorithm": "This op gives another result for the same inputs: an algorithm that is not "
    "deterministic, other threads, or memory that was never written. --deterministic removes or "
    "names it.",
    "structure": "From here on the two runs do not run the same ops: something decides "
    "differently, on data or on random numbers.",
    "steps": "Only one of the runs has step {step}: they do not take the same number of steps.",
}
_ADVICE_IF_SEEDED: Final[dict[Kind, str]] = {
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


@dataclass(frozen=True, slots=True)
class Repetition:
    """Two runs compared: ``first`` is None if they are equal in all ``steps``.

    The rule of ``first`` is a `Kind`; the evidence has step, rank, op, type, phase and slots.
    """

    steps: tuple[int, ...]
    tensors: int
    differing: int
    first: Finding | None


def compare_repetition(a: Dump, b: Dump, *, is_seeded: bool = False) -> Repetition:
    """Compare two dumps of one program, step by step and op by op, in execution order.

    ``is_seeded``: both ran with ``--deterministic``, which is then not advised again.
    """
    steps_a, steps_b = a.steps(), b.steps()
    common = tuple(step for step in steps_a if step in set(steps_b))
    walks = [
        _compare_step(a, b, _Step(step, rank, is_seeded)) for rank in a.ranks for step in common
    ]
    first = next((walk.first for walk in walks if walk.first is not None), None)
    if first is None and steps_a != steps_b:
        alone = min(set(steps_a) ^ set(steps_b))
        first = _finding("steps", _Step(alone, a.ranks[0], is_seeded))
    if first is not None and first.source is None and first.where is not None:
        first = replace(first, source=_first_use(a, first.where.op))
    return Repetition(
        common,
        sum(walk.tensors for walk in walks),
        sum(walk.differing for walk in walks),
        first,
    )


def _compare_step(a: Dump, b: Dump, walk: _Step) -> _Step:
    nothing: Records = []
    for ours, theirs in zip_longest(_by_op(a, walk), _by_op(b, walk), fillvalue=nothing):
        if not ours or not theirs or ours[0].key.op != theirs[0].key.op:
            walk.first = walk.first or _finding("structure", walk, (ours or theirs)[0])
            break
        walk.compare(ours, theirs)
    return walk


def _by_op(dump: Dump, walk: _Step) -> Iterator[Records]:
    """The tensors of each op, in execution order."""
    records = dump.tensors(step=walk.step, rank=walk.rank if walk.rank in dump.ranks else None)
    for _, group in groupby(records, key=lambda record: (record.key.order, record.key.op)):
        yield list(group)


def _first_use(dump: Dump, leaf: str) -> Source | None:
    """The line of the first op that reads a weight or an input."""
    for graph in dump.graphs():
        if leaf in graph:
            users = graph.consumers(leaf)
            return next((user.source for user in users if user.source is not None), None)
    return None


class _Step:
    """Compares one step in execution order; ``first`` is the first difference."""

    def __init__(self, step: int, rank: int, is_seeded: bool) -> None:
        self.step, self.rank, self.is_seeded = step, rank, is_seeded
        self._unwritten: set[str] = set()
        self._scratch: dict[tuple[str, int], Finding] = {}
        self.tensors = self.differing = 0
        self.first: Finding | None = None

    def compare(self, ours: Records, theirs: Records) -> None:
        """Compare the tensors of one op."""
        others = {(each.key.io, each.key.slot): each for each in theirs}
        self.tensors += len(ours)
        changed = [
            each for each in ours if _hash(each) != _hash(others.get((each.key.io, each.key.slot)))
        ]
        op = ours[0]
        producers = [_producer(op.node, each.key.slot) for each in changed if _is_input(each)]
        outputs = [each for each in changed if not _is_input(each)]
        read = [each for each in producers if each[0] not in self._unwritten]
        only_unwritten = bool(producers) and not read
        if is_unwritten(op.op_type, only_unwritten):
            self._unwritten.add(op.key.op)
            return
        unexplained = [each for each in read if each not in self._scratch]
        if not outputs or unexplained:
            self.differing += len(outputs) + len(unexplained)
        else:
            self._begin(op, outputs, self._scratch[read[0]] if read else None)

    def _begin(self, op: TensorRecord, outputs: Records, scratch: Finding | None) -> None:
        """Handle outputs that differ although all inputs but scratch memory are equal."""
        slots = tuple(f"output.{each.key.slot}" for each in outputs)
        if all(each.dtype in _SCRATCH for each in outputs):
            for each, slot in zip(outputs, slots, strict=True):
                found = scratch or _finding(_kind(op.op_type), self, op, (slot,))
                self._scratch[op.key.op, each.key.slot] = found
            return
        self.differing += len(outputs)
        found = scratch or _finding(_kind(op.op_type), self, op, slots)
        self.first = self.first or found


def is_unwritten(op_type: str, reads_only_unwritten: bool) -> bool:
    """Whether an op returns memory that no op has written yet, which may contain anything."""
    return op_type.startswith(_UNWRITTEN) or (reads_only_unwritten and op_type in _VIEWS)


def _is_input(record: TensorRecord) -> bool:
    return record.key.io == "input"


def _producer(node: OpNode | None, slot: int) -> tuple[str, int]:
    """The op and slot that an input comes from; ("", 0) if unknown."""
    if node is None or slot >= len(node.inputs):
        return "", 0
    edge = node.inputs[slot]
    return edge.producer or "", edge.slot


def _hash(record: TensorRecord | None) -> object:
    """Identifies the values of a tensor; None if the dump has no hash of it."""
    if record is None or record.row is None:
        return None
    return record.row.values.get(HASH), record.row.shape, record.row.dtype


def _kind(op_type: str) -> Kind:
    if op_type in _LEAF_KINDS:
        return _LEAF_KINDS[op_type]
    return "random" if op_type.strip("_").startswith(_RANDOM) else "algorithm"


def _finding(
    kind: Kind, walk: _Step, record: TensorRecord | None = None, slots: tuple[str, ...] = ()
) -> Finding:
    op = "" if record is None else record.key.op
    advice = (_ADVICE_IF_SEEDED if walk.is_seeded else _ADVICE).get(kind, _ADVICE[kind])
    return Finding(
        kind,
        "error",
        f"the runs differ from step {walk.step} on: {', '.join(slots) or 'here'}"
        + (f" of {op}" if op else ""),
        status="established",
        where=None if record is None else record.key,
        source=None if record is None else record.source,
        evidence={
            "step": walk.step,
            "rank": walk.rank,
            "op": op,
            "type": "" if record is None else record.op_type,
            "phase": "" if record is None or record.node is None else record.node.phase,
            "slots": list(slots),
        },
        advice=advice.format(step=walk.step),
    )
