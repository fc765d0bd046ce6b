"""Pairs the ops of two graphs.

Graphs of equal structure are paired by name. Otherwise ops are paired in execution order by their
inputs: two ops of one kind whose inputs are paired are a pair, whatever their names and positions;
names, scopes and shapes decide between several candidates. The remaining ops are paired by use: if
paired ops read two values at the same input position, the producers of these values are a pair,
even if one is the last of several small ops and the other a fused op. The ops in between become
members of the pair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sonde.compare.runs.pairing.alignment import (
    Alignment,
    collect_members,
    find_places,
    remaining_inputs,
)
from sonde.compare.runs.pairing.leaves import pair_leaves
from sonde.compare.runs.pairing.root_names import translate_roots
from sonde.compare.runs.run_side import RunSide, SideOp, SideValue
from sonde.compare.sequence_alignment import align_sequences
from sonde.core.operators.kinds import is_plumbing

_ROUNDS = 8
_ENOUGH = 3.0


def align(
    a: RunSide, b: RunSide, wanted: Mapping[str, str], known_leaves: Mapping[str, str]
) -> Alignment:
    """Pair two steps. ``wanted`` (the user's map) overrides all rules; ``known_leaves`` are the
    parameters that earlier steps paired."""
    found = Alignment(a, b, translate_roots((op.name for op in b.ops), (op.name for op in a.ops)))
    _add_wanted(found, wanted)
    for leaf, twin, how in pair_leaves(a, b, {**known_leaves, **wanted}):
        if found.is_open(leaf) and found.is_open_b(twin):
            found.add(leaf, twin, how)
    if _is_same_structure(found):
        for op, other in zip(a.ops, b.ops, strict=True):
            is_open = found.is_open(op) and found.is_open_b(other)
            if is_open and op.name == found.as_in_a(other.name):
                found.add(op, other, "name")
        return found
    if not a.structure or not b.structure:
        _pair_by_file_name(found)
    for is_strict in (True, False):
        for _ in range(_ROUNDS):
            before = len(found.forward)
            _pair_by_flow(found, is_strict=is_strict)
            _pair_by_use(found, is_strict=is_strict)
            if len(found.forward) == before:
                break
    _pair_by_order(found)
    _pair_by_use(found, is_strict=False)
    found.places = list(find_places(found))
    collect_members(found)
    return found


def _is_same_structure(found: Alignment) -> bool:
    """Whether both sides ran the same ops on the same values, whatever the networks are called."""
    a, b = found.a, found.b
    if not a.structure or not b.structure or len(a.ops) != len(b.ops):
        return False
    if not found.as_in_a.renamed:
        return a.structure == b.structure
    return all(
        op.name == found.as_in_a(other.name)
        and op.type == other.type
        and op.phase == other.phase
        and op.inputs == tuple((found.as_in_a(name), slot) for name, slot in other.inputs)
        for op, other in zip(a.ops, b.ops, strict=True)
    )


def _add_wanted(found: Alignment, wanted: Mapping[str, str]) -> None:
    by_name_a, by_name_b = _named(found.a), _named(found.b)
    for name_a, name_b in wanted.items():
        for op in by_name_a.get(name_a, []):
            others = [each for each in by_name_b.get(name_b, []) if found.is_open_b(each)]
            if op.node_kind == "input":  # Inputs have other names in each step.
                others = [each for each in others if each.size == op.size]
            others.sort(key=lambda each: (each.kind != op.kind, each.size != op.size))
            if others:
                found.add(op, others[0], "map")


def _pair_by_file_name(found: Alignment) -> None:
    """Pair by file name if there is no graph; file names have no slashes."""
    others = {_file_name(found.as_in_a(op.name)): op for op in found.b.ops if not op.is_leaf}
    for op in found.a.ops:
        other = others.get(_file_name(op.name))
        if other is None or op.is_leaf or not found.is_open(op) or not found.is_open_b(other):
            continue
        if op.kind == other.kind and op.size == other.size:
            found.add(op, other, "name")


def _file_name(name: str) -> str:
    return name.replace("/", "_")


def _named(side: RunSide) -> dict[str, list[SideOp]]:
    named: dict[str, list[SideOp]] = defaultdict(list)
    for op in side.ops:
        named[op.name].append(op)
    return named


def _pair_by_flow(found: Alignment, *, is_strict: bool) -> None:
    """Pair each open op, in execution order, with the open op of its kind that has the best score;
    if strict, only with one whose inputs are not paired with something else."""
    named: dict[str, list[SideOp]] = defaultdict(list)
    for op in found.b.ops:
        named[found.as_in_a(op.name)].append(op)
    for op in found.a.ops:
        if op.is_leaf or not found.is_open(op):
            continue
        roots = found.a.roots(op)
        best, best_score = None, _ENOUGH
        for other in _candidates(found, op, roots, named):
            score = _score(found, op, roots, other, is_strict=is_strict)
            if score > best_score or (best is None and score == best_score):
                best, best_score = other, score
        if best is not None:
            _add_grown(found, op, best)


def _add_grown(found: Alignment, op: SideOp, other: SideOp) -> None:
    """Add a pair. If one op also reads a value that the only reader of the other op adds, pair it
    with that reader: a convolution with bias corresponds to a convolution and an addition."""
    same = found.has_same_name(op, other)
    if not same:
        roots, other_roots = found.a.roots(op), found.b.roots(other)
        extra = [twin for root in other_roots if (twin := found.values_back.get(root))]
        grown = _reader_that_adds(found.a, op, [twin for twin in extra if twin not in roots])
        if grown is not None and found.is_open(grown):
            found.add(grown, other, "flow")
            return
        extra = [twin for root in roots if (twin := found.values.get(root))]
        grown = _reader_that_adds(
            found.b, other, [twin for twin in extra if twin not in other_roots]
        )
        if grown is not None and found.is_open_b(grown):
            found.add(op, grown, "flow")
            return
    found.add(op, other, "name" if same else "flow")


def _reader_that_adds(side: RunSide, op: SideOp, missing: list[SideValue]) -> SideOp | None:
    """The op that reads this op's output and all missing values, if there is exactly one."""
    if not missing:
        return None
    readers = [
        each
        for each in side.readers(op.value)
        if each.size == op.size
        and each.phase == op.phase
        and all(value in side.roots(each) for value in missing)
    ]
    return readers[0] if len(readers) == 1 else None


def _candidates(
    found: Alignment, op: SideOp, roots: list[SideValue], named: Mapping[str, list[SideOp]]
) -> list[SideOp]:
    """Open ops of the same kind and phase that have the same name or a common input."""
    near: dict[int, SideOp] = {other.index: other for other in named.get(op.name, [])}
    for root in roots:
        twin = found.values.get(root)
        if twin is not None:
            near.update((other.index, other) for other in found.b.readers(twin))
    return [
        other for other in near.values() if found.is_open_b(other) and _may_pair(found, op, other)
    ]


def _may_pair(found: Alignment, op: SideOp, other: SideOp) -> bool:
    if other.is_leaf or op.kind != other.kind:
        return False
    if op.size != other.size and op.size >= 0 and other.size >= 0:
        return False
    if found.has_same_name(op, other):
        return True
    if op.kind == "identity":
        return False
    return (op.phase == "backward") == (other.phase == "backward")


def _score(
    found: Alignment, op: SideOp, roots: list[SideValue], other: SideOp, *, is_strict: bool
) -> float:
    """The score of a candidate: paired inputs count most; inputs that are paired with something
    else count against it. An input that comes through an op without a counterpart counts half: the
    other side may have fused that op."""
    other_roots = found.b.roots(other)
    matched, against = _evidence(roots, other_roots, found.values)
    _, against_b = _evidence(other_roots, roots, found.values_back)
    named = found.has_same_name(op, other)
    if roots and not matched and is_plumbing(op.type):
        return 0.0  # Such an op is paired by its input only.
    if not against and not against_b:
        if named:
            return 100.0 + matched
    elif is_strict:
        return 0.0
    indirect = 0
    if against and op.type != other.type:
        deep = _deep_roots(found.b, other_roots, found.backward)
        indirect, against = _evidence(
            [root for root in roots if found.values.get(root) not in other_roots],
            deep,
            found.values,
        )
    if against_b and op.type != other.type:
        deep = _deep_roots(found.a, roots, found.forward)
        left = [root for root in other_roots if found.values_back.get(root) not in roots]
        more, against_b = _evidence(left, deep, found.values_back)
        indirect += more
    if not matched and not indirect:
        return 0.0
    score = 3.0 * matched + 1.5 * indirect - 2.0 * (against + against_b) + 0.1 * named
    score += found.has_same_scope(op, other)
    score += 0.5 * (op.type == other.type)
    return score + 0.5 * (_shape(op) == _shape(other))


def _evidence(
    roots: list[SideValue], other_roots: Sequence[SideValue], pairs: Mapping[SideValue, SideValue]
) -> tuple[int, int]:
    """How many roots have their counterparts among ``other_roots``, and how many elsewhere."""
    twins = [twin for root in roots if (twin := pairs.get(root)) is not None]
    matched = sum(twin in other_roots for twin in twins)
    return matched, len(twins) - matched


def _deep_roots(
    side: RunSide, roots: list[SideValue], paired: Mapping[int, int]
) -> list[SideValue]:
    """The roots of the producers that have no counterpart."""
    deep: list[SideValue] = []
    for root in roots:
        producer = side.producer(root)
        if producer is not None and not producer.is_leaf and producer.index not in paired:
            deep += side.roots(producer)
    return deep


def _shape(op: SideOp) -> tuple[int, ...]:
    return op.outputs[0].spec.shape if op.outputs else ()


def _pair_by_use(found: Alignment, *, is_strict: bool) -> None:
    """Pair the producers of corresponding inputs of paired ops; if strict, only those of one
    kind."""
    for op, other, how in reversed(list(found.pairs())):
        if how == "order" or op.kind != other.kind:
            continue  # Pairs by order are guesses; ops of different kinds may end groups of ops.
        for value, twin in remaining_inputs(found, op, other):
            producer, source = found.a.producer(value), found.b.producer(twin)
            if producer is None or source is None:
                continue
            is_free = found.is_open(producer) and found.is_open_b(source)
            is_free = is_free and (producer.kind == source.kind or not is_strict)
            is_main = value == producer.value and twin == source.value
            if is_free and is_main and producer.is_leaf == source.is_leaf:
                same = found.has_same_name(producer, source)
                found.add(producer, source, "name" if same else "use")


def _pair_by_order(found: Alignment) -> None:
    """Pair the remaining ops of the same kinds and sizes in the same order."""
    for phase in ("forward", "backward", "optimizer"):
        left = [
            op for op in found.a.ops if op.phase == phase and not op.is_leaf and found.is_open(op)
        ]
        right = [
            op for op in found.b.ops if op.phase == phase and not op.is_leaf and found.is_open_b(op)
        ]
        for op, other in align_sequences(left, right, lambda x, y: _order_score(found, x, y)):
            found.add(op, other, "order")


def _order_score(found: Alignment, op: SideOp, other: SideOp) -> float:
    """A positive score if two open ops may be a pair, judged by kind, size, scope and shape."""
    if not _may_pair(found, op, other) or is_plumbing(op.type):
        return 0.0
    roots, other_roots = found.a.roots(op), found.b.roots(other)
    if any(
        (twin := found.values.get(root)) is not None and twin not in other_roots for root in roots
    ):
        return 0.0
    return 1.0 + found.has_same_scope(op, other) + (_shape(op) == _shape(other))
