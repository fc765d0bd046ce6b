"""The operators' direction: types, sizes and batches this machine is slow with."""

from __future__ import annotations

from sonde.core.finding import Finding
from sonde.core.graph import OpNode, Source
from sonde.profile.analyse import cost
from sonde.profile.analyse.tables import shapes_text
from sonde.profile.analyse.timings import OpTimes
from sonde.profile.machine import attainable_seconds
from sonde.profile.replay.batches import replay_batch
from sonde.profile.replay.operators import AS_IT_IS, replay_operator
from sonde.profile.rules.evidence import LEAST_SHARE, ProfileEvidence, judgement, milliseconds

_MOST_REPLAYS = 4
_SMALL_BATCH = 16
_LARGER = 8
_LEAST_SPEEDUP = 1.5
_BUSY_MACHINE = 0.3


def find_slow_products(evidence: ProfileEvidence) -> list[Finding]:
    """Matrix products and convolutions that another type or aligned sizes make faster here."""
    groups: dict[tuple[str, str], list[OpTimes]] = {}
    for times in evidence.timings.ops.values():
        if cost.is_product(times.node.type) and times.part in ("forward", "backward"):
            key = (times.node.type, shapes_text(times.node))
            groups.setdefault(key, []).append(times)
    heavy = sorted(groups.values(), key=lambda group: -_usual(group))[:_MOST_REPLAYS]
    found: list[Finding] = []
    for group in heavy:
        if evidence.share(_usual(group)) < LEAST_SHARE:
            break
        found.extend(_judge_product(evidence, group))
    return found


def find_small_batch(evidence: ProfileEvidence) -> list[Finding]:
    """A batch so small that a step is mostly the fixed cost of its ops."""
    call = evidence.call
    if call is None or _machine_use(evidence) > _BUSY_MACHINE:
        return []
    network = sum(evidence.timings.usual_part_seconds(part) for part in ("forward", "backward"))
    if evidence.share(network) < LEAST_SHARE:
        return []
    replayed = replay_batch(call, _LARGER)
    if replayed is None:
        return []
    size, before, after = replayed
    if size > _SMALL_BATCH or before < _LEAST_SPEEDUP * after:
        return []
    gain = network * (1 - after / before)
    if not evidence.is_worth(gain):
        return []
    seen = evidence.loaders[-1][0] if evidence.loaders else None
    source = (seen.source or seen.looped_at) if seen is not None else _first_line(evidence)
    return [
        judgement(
            evidence,
            "small-batch",
            "operator",
            message=f"with {size} sample{'s' if size > 1 else ''} a step the network takes "
            f"{milliseconds(before)} a sample, with {size * _LARGER} it takes "
            f"{milliseconds(after)}: most of it is the fixed cost of {_ops(evidence)} ops",
            advice="use a larger batch (and adapt the learning rate), or torch.compile; to keep "
            "the updates as they are, take several samples at once where that is possible",
            source=source,
            gain_seconds=gain,
            how="replayed",
            batch_size=size,
            seconds_a_sample=before,
            seconds_a_sample_in_a_larger_batch=after,
            share_of_machine=_machine_use(evidence),
        )
    ]


def _judge_product(evidence: ProfileEvidence, group: list[OpTimes]) -> list[Finding]:
    node = group[0].node
    taken = replay_operator(node)
    if not taken:
        return []
    way = min((name for name in taken if name != AS_IT_IS), key=lambda name: taken[name])
    gain = _usual(group) * (1 - taken[way] / taken[AS_IT_IS])
    if not evidence.is_worth(gain):
        return []
    message, advice = _words(node, way)
    return [
        judgement(
            evidence,
            "float64" if way == "float32" else "unaligned",
            "operator",
            message=f"{message}: {len(group)} calls a step take {milliseconds(_usual(group))}; "
            f"one takes {milliseconds(taken[way])} instead of {milliseconds(taken[AS_IT_IS])}",
            advice=advice,
            source=node.source,
            gain_seconds=gain,
            how="replayed",
            op=node.type,
            shapes=shapes_text(node),
            replayed_seconds=taken,
        )
    ]


def _words(node: OpNode, way: str) -> tuple[str, str]:
    shapes = shapes_text(node)
    if way == "float32":
        return (
            f"{node.type} {shapes} computes in float64, float32 is faster",
            "use float32 here unless the loss needs the digits",
        )
    return (
        f"{node.type} {shapes} has sizes that are no multiples of 16",
        "round the sizes of the layer up to multiples of 16 (or of 8)",
    )


def _usual(group: list[OpTimes]) -> float:
    return sum(times.usual_seconds for times in group)


def _machine_use(evidence: ProfileEvidence) -> float:
    """The share of the time in the network in which the machine does what it can."""
    least = 0.0
    for times in evidence.timings.ops.values():
        if times.part in ("forward", "backward"):
            node = times.node
            least += attainable_seconds(
                evidence.machine, cost.flops(node), cost.nbytes(node), cost.compute_dtype(node)
            )
    spent = sum(evidence.timings.usual_part_seconds(part) for part in ("forward", "backward"))
    return least / spent if spent > 0 else 1.0


def _ops(evidence: ProfileEvidence) -> int:
    return sum(times.part in ("forward", "backward") for times in evidence.timings.ops.values())


def _first_line(evidence: ProfileEvidence) -> Source | None:
    for times in evidence.timings.ops.values():
        if times.part == "forward" and times.node.sources:
            return times.node.sources[-1]
    return None
