"""The nodes of a large ``.pb`` graph file by Sonde, all at once; see ``wire_columns``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np

from sonde.core.graph import Kind, TensorSpec
from sonde.dump.anf_decode import PartDecoder
from sonde.dump.anf_schema import KINDS, PHASES, Extra, Input, NamedValue, Node, Parameter
from sonde.dump.protowire import BYTES, VARINT, Field, Message, decode_text
from sonde.dump.wire_columns import Columns, IrregularError, Longs, scan

T = TypeVar("T")

_DEPTH: Final = 2


class Numbers(NamedTuple):
    """Which field has what, in one kind of message; ``odd`` fields are not cared for here."""

    kind: Kind
    name: int
    type: int
    scope: int
    input: int
    attribute: int
    output: int
    odd: tuple[int, ...]


OP: Final = Numbers(
    "op",
    Node.FULL_NAME,
    Node.OP_TYPE,
    Node.SCOPE,
    Node.INPUT,
    Node.ATTRIBUTE,
    Node.OUTPUT_TYPE,
    (Extra.OP_TYPE, Extra.SCOPE, Extra.INPUT, Extra.ATTRIBUTE, Extra.OUTPUT_TYPE),
)
_LEAF: Final = (Extra.OP_TYPE, Extra.SCOPE, Extra.INPUT, Extra.ATTRIBUTE)
PARAMETER: Final = Numbers(
    "parameter", Parameter.NAME, *_LEAF, Parameter.TYPE, (Extra.OUTPUT_TYPE,)
)
CONSTANT: Final = Numbers(
    "constant", NamedValue.FULL_NAME, *_LEAF, Extra.OUTPUT_TYPE, (NamedValue.VALUE,)
)


@dataclass(frozen=True, slots=True)
class InputColumns:
    """One entry an ``InputProto``; ``owner`` is the node. ``producer`` -1: it is not told.

    ``names`` and ``specs`` have those of some inputs.
    """

    owner: Longs
    producer: Longs
    slot: Longs
    names: dict[int, str]
    specs: dict[int, TensorSpec | None]


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """One entry a node; the fields are those of ``RawNode``, ``position`` -1 where it has none."""

    kind: Longs
    name: list[str]
    type: list[str]
    scope: list[str]
    phase: Longs
    position: Longs
    inputs: InputColumns
    outputs: list[tuple[TensorSpec, ...]]
    attributes: list[tuple[tuple[str, str], ...]]
    sources: list[tuple[int, ...]]

    @property
    def items(self) -> int:
        lists = (self.outputs, self.attributes, self.sources)
        return len(self.name) + len(self.inputs.owner) + sum(sum(map(len, each)) for each in lists)


class BulkDecoder:
    """Nodes of one kind by Sonde; IrregularError if one is odd.

    ``spans``: where each begins in ``data`` and where it ends, one after the other.
    """

    def __init__(
        self,
        data: bytes,
        spans: Sequence[int],
        numbers: Numbers,
        parts: PartDecoder,
    ) -> None:
        self._data = data
        self._array = np.frombuffer(data, np.uint8)
        self._fields = numbers
        self._parts = parts
        table = np.array(spans, np.int64).reshape(-1, 2)
        self._count = len(table)
        self._rows = scan(self._array, table[:, 0].copy(), table[:, 1].copy())
        if self._rows.has_any(numbers.odd):
            raise IrregularError

    def columns(self) -> NodeColumns:
        fields, rows = self._fields, self._rows
        names = self._texts(fields.name)
        if not all(names):
            raise IrregularError
        return NodeColumns(
            self._numbers(Extra.KIND, KINDS.index(fields.kind), len(KINDS)),
            names,
            self._texts(fields.type),
            self._texts(fields.scope),
            self._numbers(Extra.PHASE, 0, len(PHASES)),
            self._numbers(Extra.POSITION, -1, 1 << 62),
            self._inputs(rows.of(fields.input, BYTES)),
            self._joined(rows.of(fields.output, BYTES), self._parts.specs, last=True),
            self._joined(
                rows.of(fields.attribute, BYTES), lambda item: (self._parts.attribute(item),)
            ),
            self._joined(rows.of(Extra.SOURCES, BYTES), lambda item: tuple(item.as_uints())),
        )

    def _numbers(self, number: int, default: int, limit: int) -> Longs:
        rows = self._rows.of(number, VARINT)
        if (rows.value >= limit).any():
            raise IrregularError
        found = np.full(self._count, default, np.int64)
        found[rows.owner] = rows.value
        return found

    def _texts(self, number: int) -> list[str]:
        rows = self._rows.of(number, BYTES)
        texts = self._decoded(rows)
        if len(texts) == self._count and bool((rows.owner == np.arange(self._count)).all()):
            return texts
        found = [""] * self._count
        for owner, text in zip(rows.owner.tolist(), texts, strict=True):
            found[owner] = text
        return found

    def _decoded(self, rows: Columns) -> list[str]:
        known: dict[bytes, str] = {}  # Of equal texts, as types and scopes are, one is kept.
        return [
            known.get(raw) or known.setdefault(raw, decode_text(raw)) for raw in self._raw(rows)
        ]

    def _raw(self, rows: Columns) -> list[bytes]:
        data = self._data
        spans = zip(rows.value.tolist(), rows.stop.tolist(), strict=True)
        return [data[start:stop] for start, stop in spans]

    def _joined(
        self, rows: Columns, decode: Callable[[Field], tuple[T, ...]], *, last: bool = False
    ) -> list[tuple[T, ...]]:
        """What the fields of each node are, together, or the last one alone."""
        found: list[tuple[T, ...]] = [()] * self._count
        for owner, each in zip(rows.owner.tolist(), self._repeated(rows, decode), strict=True):
            found[owner] = each if last or not found[owner] else found[owner] + each
        return found

    def _repeated(self, rows: Columns, decode: Callable[[Field], T]) -> list[T]:
        """What ``decode`` makes of each row, asked once for the same bytes."""
        whole = Message(self._data, 0, len(self._data), _DEPTH)
        raw = self._raw(rows)
        known = {
            each: decode(Field(whole, 1, BYTES, int(rows.value[row]), int(rows.stop[row])))
            for each, row in dict(zip(raw, range(len(raw)), strict=True)).items()
        }
        return [known[each] for each in raw]

    def _inputs(self, rows: Columns) -> InputColumns:
        inside = scan(self._array, rows.value, rows.stop)
        count = len(rows.owner)
        producers = inside.of(Input.PRODUCER, VARINT)
        slots = inside.of(Input.SLOT, VARINT)
        slot, producer = np.zeros(count, np.int64), np.full(count, -1, np.int64)
        slot[slots.owner], producer[producers.owner] = slots.value, producers.value - 1
        if (producers.value == 0).any():
            raise IrregularError
        names = inside.of(Input.PRODUCER_NAME, BYTES)
        types = inside.of(Input.SPEC, BYTES)
        specs = self._repeated(types, self._parts.specs)
        return InputColumns(
            rows.owner,
            producer,
            slot,
            dict(zip(names.owner.tolist(), self._decoded(names), strict=True)),
            {
                owner: spec[0] if spec else None
                for owner, spec in zip(types.owner.tolist(), specs, strict=True)
            },
        )
