"""The structure of steps, learned once and then only matched.

A step is a path through a tree of records, one record per op. While an op that runs matches the
next record (same function, same place in the user's code, same module, inputs from the same ops)
its name, source line and edges are known already. Where it does not, a new branch is learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from sonde.adapters.torch.schema import OpInfo
from sonde.adapters.torch.scopes import Scope
from sonde.core.graph import LEAF_TYPES, Edge, Graph, Kind, OpNode

if TYPE_CHECKING:
    from sonde.capture.session import Wants

FRESH, ALIAS, WRITTEN = 0, 1, 2


class Ref:
    """The contents of one tensor, as one output of one record (or a leaf) left them.

    Compared by identity: two tensors with the same Ref in one step are bit for bit equal.
    ``geometry`` (shape, strides, offset) is as it was when the record was learned. ``values`` is
    the Ref of the tensor this one is only another arrangement of (a reshape, a transpose), so that
    what does not depend on order is known already; else the Ref itself. ``is_loose``: the memory
    was not filled by the op that made it, so what it holds is nobody's. ``has_gaps``: the op filled
    this part of such memory, and left the rest. ``mark`` is what the tensor looked like when it was
    last handed over, in round ``round``, and ``version`` torch's count of writes to it then (see
    ``emission``).
    """

    __slots__ = (
        "geometry",
        "has_gaps",
        "is_loose",
        "leaf",
        "mark",
        "owner",
        "round",
        "slot",
        "values",
        "version",
    )

    def __init__(
        self,
        owner: Record | None,
        slot: int,
        geometry: tuple[Any, ...],
        leaf: Leaf | None = None,
    ) -> None:
        self.owner = owner
        self.slot = slot
        self.geometry = geometry
        self.leaf = leaf
        self.values: Ref = self
        self.is_loose = False
        self.has_gaps = False
        self.mark: tuple[Any, ...] | None = None
        self.version: int | None = None
        self.round = -1

    @property
    def producer(self) -> OpNode:
        if self.leaf is not None:
            return self.leaf.node
        assert self.owner is not None
        return self.owner.node


class Leaf:
    """A tensor that enters a step from outside: a parameter, an input, a constant.

    ``is_lasting``: it is known by the module or optimizer that holds it, so it is the same in
    every step; else any tensor met in its place is.
    """

    __slots__ = ("is_lasting", "kind", "node", "ref", "wants", "wants_generation")

    def __init__(self, node: OpNode, geometry: tuple[Any, ...]) -> None:
        self.node = node
        self.kind: Kind = node.kind
        self.ref = Ref(None, 0, geometry, self)
        self.is_lasting = False
        self.wants: Wants | None = None
        self.wants_generation = -1


class Record:
    """One op at one place of one or more steps.

    ``in_refs`` are the storages' contents the inputs were read from, the condition of a match;
    ``sources`` the tensors they are exactly, where that is known. ``depth`` is how many frames
    above the dispatch the user's code stands, 0 where the place is not checked (backward).
    ``filled`` says of each input whether it holds what ops have put there, all of it.
    ``writes`` are the slots of inputs the op changes in place; ``returned`` those among them that
    the op does not return itself: they count as its last outputs. ``order`` stays -1 until the op
    has run for the first time. ``inner`` are the ops of a compiled graph, for which the record
    stands: they ran together, in this order.
    """

    __slots__ = (
        "code",
        "depth",
        "filled",
        "func",
        "graph",
        "in_refs",
        "info",
        "inner",
        "last",
        "leaves",
        "native",
        "next",
        "node",
        "order",
        "outs",
        "parent",
        "parts",
        "returned",
        "scope",
        "sources",
        "wants",
        "wants_generation",
        "writes",
    )

    def __init__(self, parent: Record | None, func: Any, info: OpInfo, scope: Scope) -> None:
        self.parent = parent
        self.func = func
        self.info = info
        self.scope = scope
        self.depth = 0
        self.code: CodeType | None = None
        self.last = -1
        self.order = -1
        self.in_refs: tuple[Ref, ...] = ()
        self.sources: tuple[Ref | None, ...] = ()
        self.filled: tuple[bool, ...] = ()
        self.leaves: tuple[tuple[int, Leaf, int], ...] = ()
        self.outs: tuple[tuple[int, Ref], ...] = ()
        self.writes: tuple[int, ...] = ()
        self.returned: tuple[int, ...] = ()
        self.node: OpNode = _NOWHERE
        self.inner: tuple[Record, ...] = ()
        self.next: list[Record] = []
        self.graph: Graph | None = None
        self.parts: tuple[Graph, ...] | None = None
        self.native: Any = None
        self.wants: Wants | None = None
        self.wants_generation = -1

    def path(self) -> list[Record]:
        """The records of the step from its first op to this one."""
        found: list[Record] = []
        record: Record = self
        while record.parent is not None:
            found.append(record)
            record = record.parent
        found.reverse()
        return found


_NOWHERE = OpNode(name="", type="", scope="", phase="forward")


class Structures:
    """All steps learned so far: the tree, and a graph with its own number per structure.

    The tree is thrown away and learned again when it holds more than ``most`` records, so that a
    training whose every step differs cannot fill the memory; graph numbers stay.
    """

    def __init__(self, name: str, *, most: int = 1_000_000) -> None:
        self._name = name
        self._most = most
        self._count = 0
        self._ids: dict[object, int] = {}
        self._parts: dict[object, Graph] = {}
        self.root = self._new_root()

    @staticmethod
    def _new_root() -> Record:
        return Record(None, None, OpInfo("", "", (), frozenset(), False), Scope(""))

    def grew(self) -> None:
        self._count += 1

    def begin(self) -> Record:
        """Where a step starts."""
        if self._count > self._most:
            self.root = self._new_root()
            self._count = 0
        return self.root

    def graph_at(self, last: Record, raisers: Sequence[Record] = ()) -> Graph:
        """The graph of the step that ended with ``last``, and with ops that raised in it."""
        if raisers:
            return self._graph(_with_raisers(last.path(), raisers))
        if last.graph is None:
            last.graph = self._graph(last.path())
        return last.graph

    def parts_at(self, last: Record) -> tuple[Graph, ...]:
        """The compiled graphs that ran in the step that ended with ``last``, each once."""
        if last.parts is None:
            records = [record for record in last.path() if record.inner]
            last.parts = tuple(dict.fromkeys(map(self._part, records)))
        return last.parts

    def _part(self, record: Record) -> Graph:
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

    def _graph(self, records: Sequence[Record]) -> Graph:
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


def _with_raisers(path: Sequence[Record], raisers: Sequence[Record]) -> list[Record]:
    """``path`` with the ops that raised where they did, unless one of that name ran well."""
    names = {record.node.name for record in path}
    after: dict[Record | None, list[Record]] = {}
    for raiser in raisers:
        if raiser.node.name not in names:
            after.setdefault(raiser.parent, []).append(raiser)
    found = after.pop(path[0].parent if path else raisers[0].parent, [])
    for record in path:
        found.append(record)
        found.extend(after.pop(record, ()))
    return found
