"""The structure of steps, learned once and then only matched.

A step is a path through a tree of records, one record per op. While an op that runs matches the
next record (same function, same line of the user's code, same module, inputs from the same ops),
its name, source line and edges are known. Where it does not, a new branch is learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

from sonde.adapters.torch.eager.naming.scopes import OpScope
from sonde.adapters.torch.eager.op_schema import OpInfo
from sonde.core.graph import LEAF_TYPES, Edge, Graph, OpNode

if TYPE_CHECKING:
    from sonde.capture.session import Wants

FRESH, ALIAS, WRITTEN = 0, 1, 2


@dataclass(slots=True, eq=False)
class TensorRef:
    """The contents that one output of an op, or a step input, has until an op writes to it.

    Compared by identity: two tensors with the same reference in one step are bit for bit equal.

    - ``owner`` and ``slot``: the op and its output; ``owner`` is None for a step input, ``leaf``.
    - ``geometry`` (shape, strides, offset; see ``Tables.geometry``) is as it was when the record
      was learned; None in a step input that no step has met.
    - ``values`` is the reference of the tensor that this one only rearranges (a reshape, a
      transpose), else the reference itself: statistics that do not depend on the order of elements
      are computed once for both.
    - ``is_unfilled``: the op only allocated the memory; its values mean nothing.
    - ``has_gaps``: the op filled only a part of such memory.
    - ``mark``, ``version``, ``round``: what the tensor looked like when it was last emitted,
      torch's count of writes to it then, and the number of that observed step (see
      ``tensors/emission``).
    """

    owner: OpRecord | None
    slot: int
    geometry: object
    leaf: StepInput | None = None
    values: TensorRef = field(init=False)
    is_unfilled: bool = False
    has_gaps: bool = False
    mark: tuple[Any, ...] | None = None
    version: int | None = None
    round: int = -1

    def __post_init__(self) -> None:
        self.values = self

    @property
    def producer(self) -> OpNode:
        if self.leaf is not None:
            return self.leaf.node
        assert self.owner is not None
        return self.owner.node


@dataclass(slots=True, eq=False)
class StepInput:
    """A tensor that enters a step from outside, a leaf of the graph: a parameter, an input, a
    constant.

    ``is_lasting``: a module or optimizer holds it, so it is the same in every step. Otherwise any
    tensor that is met in the same place of a later step is taken for it.
    """

    node: OpNode
    ref: TensorRef = field(init=False)
    is_lasting: bool = False
    wants: Wants | None = None

    def __post_init__(self) -> None:
        self.ref = TensorRef(None, 0, None, self)


_NO_NODE = OpNode(name="", type="", scope="", phase="forward")


@dataclass(slots=True, eq=False)
class OpRecord:
    """One op at one place of one or more steps; docs/capture.md explains it with an example.

    - ``in_refs``: the references of the memory that the inputs were read from. A later op matches
      only if its inputs have the same ones.
    - ``sources``: the exact tensors that the inputs were, None where that is unknown.
    - ``depth``, ``code``, ``last``: the line of the user's code. It is ``depth`` frames above the
      dispatch; 0 where the line is not compared (backward).
    - ``filled``: for each input, whether ops have filled all of it.
    - ``writes``: the slots of inputs that the op changes in place; ``returned``: those of them that
      the op does not return. They count as its last outputs. ``overwrites``: those of ``writes``
      whose values the op does not read.
    - ``order``: the position in the step, -1 until the op has run for the first time.
    - ``wants``: which consumers want the op, as answered in the generation ``wants_generation``.
    - ``inner``: the ops of a compiled graph, if the record is the run of one.
    - ``native``: the matcher's node for this record.
    """

    parent: OpRecord | None
    func: Any
    info: OpInfo
    scope: OpScope
    depth: int = 0
    code: CodeType | None = None
    last: int = -1
    order: int = -1
    in_refs: tuple[TensorRef, ...] = ()
    sources: tuple[TensorRef | None, ...] = ()
    filled: tuple[bool, ...] = ()
    leaves: tuple[tuple[int, StepInput, int], ...] = ()
    outs: tuple[tuple[int, TensorRef], ...] = ()
    writes: tuple[int, ...] = ()
    overwrites: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()
    node: OpNode = _NO_NODE
    inner: tuple[OpRecord, ...] = ()
    next: list[OpRecord] = field(default_factory=list)
    graph: Graph | None = None
    parts: tuple[Graph, ...] | None = None
    native: Any = None
    wants: Wants | None = None
    wants_generation: int = -1

    def path(self) -> list[OpRecord]:
        """The records of the step from its first op to this one."""
        found: list[OpRecord] = []
        record: OpRecord = self
        while record.parent is not None:
            found.append(record)
            record = record.parent
        found.reverse()
        return found


class Structures:
    """All steps learned so far: the tree of records, and a numbered graph per structure.

    When the tree holds more than ``most`` records, it is dropped and learned again, so that a
    training whose every step differs cannot fill the memory; graph numbers stay. ``learned`` counts
    the records made so far.
    """

    def __init__(self, name: str, *, most: int = 1_000_000) -> None:
        self._name = name
        self._most = most
        self._count = 0
        self.learned = 0
        self._ids: dict[object, int] = {}
        self._parts: dict[object, Graph] = {}
        self.root = self._new_root()

    @staticmethod
    def _new_root() -> OpRecord:
        return OpRecord(None, None, OpInfo("", (), frozenset(), False), OpScope(""))

    def grew(self) -> None:
        self._count += 1
        self.learned += 1

    def begin(self) -> OpRecord:
        """The root record, with which a step begins."""
        if self._count > self._most:
            self.drop_records()
        return self.root

    def drop_records(self) -> None:
        """Learn all steps again; graph numbers stay."""
        self.root = self._new_root()
        self._count = 0

    def graph_at(self, last: OpRecord, raisers: Sequence[OpRecord] = ()) -> Graph:
        """The graph of the step that ended with ``last``, and with ops that raised in it."""
        if raisers:
            return self._graph(_with_raisers(last.path(), raisers))
        if last.graph is None:
            last.graph = self._graph(last.path())
        return last.graph

    def parts_at(self, last: OpRecord) -> tuple[Graph, ...]:
        """The compiled graphs that ran in the step that ended with ``last``, each once."""
        if last.parts is None:
            records = [record for record in last.path() if record.inner]
            last.parts = tuple(dict.fromkeys(map(self._part, records)))
        return last.parts

    def _part(self, record: OpRecord) -> Graph:
        """A compiled graph, with its inputs as leaves; named as when it first ran."""
        part = self._parts.get(record.func)
        if part is None:
            nodes = {leaf.node.name: leaf.node for _, leaf, _ in record.leaves}
            inside = {op.node.name for op in record.inner}
            for op in record.inner:
                for edge in op.node.inputs:
                    if edge.producer is not None and edge.producer not in inside:
                        nodes.setdefault(edge.producer, _outside(edge))
            nodes.update((op.node.name, op.node) for op in record.inner)
            number = self._ids.setdefault(record.func, len(self._ids))
            part = self._parts[record.func] = Graph(number, self._name, tuple(nodes.values()))
        return part

    def _graph(self, records: Sequence[OpRecord]) -> Graph:
        nodes: dict[str, OpNode] = {}
        for record in records:
            for _, leaf, _ in record.leaves:
                nodes.setdefault(leaf.node.name, leaf.node)
            for op in record.inner or (record,):
                nodes.setdefault(op.node.name, op.node)
        draft = Graph(0, self._name, tuple(nodes.values()))
        number = self._ids.setdefault(draft.structure, len(self._ids))
        return Graph(number, self._name, draft.nodes)


def _outside(edge: Edge) -> OpNode:
    """The op that made an input of a compiled graph, seen from inside."""
    assert edge.producer is not None
    return OpNode(
        name=edge.producer,
        type=LEAF_TYPES["input"],
        scope="",
        phase="forward",
        kind="input",
        outputs=(edge.spec,),
    )


def _with_raisers(path: Sequence[OpRecord], raisers: Sequence[OpRecord]) -> list[OpRecord]:
    """``path`` with the ops that raised at their places, except those that succeeded later."""
    names = {record.node.name for record in path}
    after: dict[OpRecord | None, list[OpRecord]] = {}
    for raiser in raisers:
        if raiser.node.name not in names:
            after.setdefault(raiser.parent, []).append(raiser)
    found = after.pop(path[0].parent if path else raisers[0].parent, [])
    for record in path:
        found.append(record)
        found.extend(after.pop(record, ()))
    return found
