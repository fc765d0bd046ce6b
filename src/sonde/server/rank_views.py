"""Views of all ranks together: the table of checks, and one tensor on all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sonde.core.finding import Finding
from sonde.debugger.values import answers
from sonde.debugger.values.answers import Values
from sonde.ranks.checks import STEP_CHECKS
from sonde.ranks.job import RankJob
from sonde.wire import ranks as wire
from sonde.wire.shapes import TensorName

_OTHER_CHECKS: Final = (
    ("collectives-differ", ("collectives-differ",)),
    ("collective-result-wrong", ("collective-result-wrong",)),
    ("same-samples-on-ranks", ("same-samples-on-ranks",)),
    ("sampler-same-order", ("sampler-same-order",)),
    ("first-non-finite", ("first-non-finite",)),
    ("rank-stopped", ("rank-stopped",)),
    ("no-progress", ("no-progress",)),
)
_MOST_PLACEMENTS: Final = 5000
_UNDATED: Final = frozenset(
    {"environment-differs", "no-progress", "rank-stopped", "sampler-same-order"}
)


def ranks_view(job: RankJob, *, is_compared: bool) -> wire.RanksView:
    """The comparison of a run so far."""
    found = [(each, _finding(each)) for each in job.findings]
    rows = []
    for name, kinds in (*((e.kind, e.kinds) for e in STEP_CHECKS), *_OTHER_CHECKS):
        own = tuple(view for each, view in found if each.rule in kinds)
        rows.append(wire.RankCheckRow(name, kinds, own))
    steps = [
        -1 if each.rule == "ranks-differ-at-init" else each.step
        for each in job.findings
        if each.step is not None and each.rule not in _UNDATED
    ]
    return wire.RanksView(
        is_compared=is_compared,
        world_size=job.world_size,
        ranks=job.ranks,
        last_steps=tuple(job.last_steps.get(rank, -1) for rank in job.ranks),
        judged_steps=job.judged_steps,
        parted_step=min(steps, default=None),
        checks=tuple(rows),
        groups=tuple(_groups(job)),
        placements=tuple(_placements(job)),
    )


def _finding(found: Finding) -> wire.RankFinding:
    ranks = found.evidence.get("ranks")
    return wire.RankFinding(
        found.rule,
        found.status,
        found.severity,
        found.message,
        found.advice,
        found.step,
        tuple(int(each) for each in ranks) if isinstance(ranks, (list, tuple)) else (),
        found.places,
    )


def _groups(job: RankJob) -> Iterator[wire.RankGroup]:
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for description in job.descriptions.values():
        for name, ranks in description.groups.items():
            if len(ranks) > 1 and (name, ranks) not in seen:
                seen.add((name, ranks))
                yield wire.RankGroup(name, description.roles.get(name, ""), ranks)


def _placements(job: RankJob) -> list[wire.RankPlacement]:
    """Of the lowest rank that has a tensor."""
    found: dict[tuple[str, str], wire.RankPlacement] = {}
    for description in job.descriptions.values():
        for tensor in description.tensors:
            for each in tensor.placements if tensor.kind == "parameter" else ():
                found.setdefault(
                    (tensor.name, each.group),
                    wire.RankPlacement(
                        tensor.name, each.group, each.kind, each.dim, tensor.is_inferred
                    ),
                )
        if len(found) >= _MOST_PLACEMENTS:
            break
    return list(found.values())[:_MOST_PLACEMENTS]


@dataclass(frozen=True, slots=True)
class Merge:
    """How the values of ranks are put together."""

    kind: wire.MergeKind
    dim: int = 0
    is_by_placement: bool = False


def placed_merge(job: RankJob | None, name: str) -> Merge | None:
    """As the placement of a parameter says; None if it is not known. ``name`` may have the scope of
    a module in front."""
    for description in () if job is None else job.descriptions.values():
        for tensor in description.tensors:
            if tensor.name != name and not name.endswith(f"/{tensor.name}"):
                continue
            shard = next((each for each in tensor.placements if each.kind == "sharded"), None)
            if shard is not None:
                return Merge("concatenate", shard.dim, is_by_placement=True)
            is_partial = any(each.kind == "partial" for each in tensor.placements)
            return Merge("sum" if is_partial else "one", is_by_placement=not tensor.is_inferred)
    return None


def tensor_of_ranks(
    tensor: TensorName,
    values: Mapping[int, Values],
    missing: Mapping[int, str],
    merge: Merge | None,
    *,
    cells: int,
) -> wire.TensorOfRanks:
    """One tensor side by side. ``missing``: why ranks have no values. ``merge`` None: guessed."""
    known = [values[rank] for rank in sorted(values)]
    merged, why_not = None, "no rank has values"
    if known:
        chosen = merge or _guessed(known)
        merged, why_not = _merged(known, chosen, cells)
    rows = [*_rows(values), *(_absent(rank, why) for rank, why in missing.items())]
    rows.sort(key=lambda each: each.rank)
    return wire.TensorOfRanks(tensor, tuple(rows), merged, why_not)


def _rows(values: Mapping[int, Values]) -> Iterator[wire.RankValues]:
    first: Values | None = None
    lowest: dict[bytes, int] = {}
    for rank in sorted(values):
        value = values[rank]
        first = first or value
        array = np.ascontiguousarray(value.array)
        key = hashlib.blake2b(array.tobytes(), digest_size=16)
        key.update(f"{value.type}".encode())
        is_alike = value.array.shape == first.array.shape
        yield wire.RankValues(
            rank,
            value.type,
            answers.summarize(value, 1).statistics,
            lowest.setdefault(key.digest(), rank),
            answers.distances_of(value, first) if is_alike else None,
            "",
        )


def _absent(rank: int, why: str) -> wire.RankValues:
    return wire.RankValues(rank, None, None, None, None, why)


def _guessed(known: Sequence[Values]) -> Merge:
    is_same = all(np.array_equal(each.array, known[0].array) for each in known)
    return Merge("one" if is_same or not known[0].array.ndim else "concatenate")


def _merged(
    known: Sequence[Values], merge: Merge, cells: int
) -> tuple[wire.MergedTensor | None, str]:
    arrays = [each.array for each in known]
    shapes = sorted({each.shape for each in arrays})
    if merge.kind == "concatenate":
        dim = merge.dim
        rests = {each.shape[:dim] + each.shape[dim + 1 :] for each in arrays}
        if len(rests) > 1 or any(each.ndim <= dim for each in arrays):
            return None, f"shapes {shapes} cannot be concatenated along dimension {dim}"
        whole = np.concatenate(arrays, axis=dim)
    elif len(shapes) > 1:
        return None, f"shapes {shapes} differ, so that there is no {merge.kind}"
    elif merge.kind == "one":
        whole = arrays[0]
    elif arrays[0].dtype.kind not in "fiub":
        return None, f"there is no {merge.kind} of {arrays[0].dtype}"
    else:
        total = np.sum([each.astype(np.float64) for each in arrays], axis=0)
        whole = total / len(arrays) if merge.kind == "mean" else total
    value = replace(known[0], array=whole)
    return (
        wire.MergedTensor(
            merge.kind,
            merge.dim,
            merge.is_by_placement,
            value.type,
            answers.summarize(value, 1).statistics,
            answers.draw_heat(value, "", cells, cells),
        ),
        "",
    )
