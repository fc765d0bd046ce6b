"""The operator direction: dtypes, sizes and batches with which this machine is slow."""

from __future__ import annotations

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.core.text.number_text import count_text, duration
from sonde.profile.analyse import cost
from sonde.profile.analyse.tables import shapes_text
from sonde.profile.analyse.timings import OpTimes
from sonde.profile.record.stopwatch import AS_IT_IS, fastest_alternative
from sonde.profile.replay.batches import replay_batch
from sonde.profile.replay.operators import replay_operator
from sonde.profile.rules.evidence import LEAST_SHARE, ProfileEvidence

_MOST_REPLAYS = 4
_SMALL_BATCH = 16
_LARGER = 8
_LEAST_SPEEDUP = 1.5
_BUSY_MACHINE = 0.3


def find_slow_products(evidence: ProfileEvidence) -> list[Finding]:
    """Matrix products and convolutions that are faster with another dtype or aligned sizes."""
    groups: dict[tuple[str, str], list[OpTimes]] = {}
    for times in evidence.timings.network:
        if cost.is_product(times.node.type):
            key = (times.node.type, shapes_text(times.node))
            groups.setdefault(key, []).append(times)
    slowest = sorted(groups.values(), key=lambda group: -_usual(group))[:_MOST_REPLAYS]
    found: list[Finding] = []
    for group in slowest:
        if evidence.share(_usual(group)) >= LEAST_SHARE:
            found.extend(_judge_product(evidence, group))
    return found


def _judge_product(evidence: ProfileEvidence, group: list[OpTimes]) -> list[Finding]:
    node = group[0].node
    taken = replay_operator(node)
    if not taken:
        return []
    way = fastest_alternative(taken)
    if way == "float32":
        rule, problem = "float64", "computes in float64, float32 is faster"
        advice = "use float32 here unless the loss needs the digits"
    else:
        rule, problem = "unaligned", "has sizes that are no multiples of 16"
        advice = "round the sizes of the layer up to multiples of 16 (or of 8)"
    # The replay measures a ratio. Its own times are not those of the training, which runs the op
    # with other memory and other load, so they are not shown beside the times of the trace.
    before = _usual(group)
    after = before * taken[way] / taken[AS_IT_IS]
    calls = f"{count_text(len(group), 'call')} a step take{'s' if len(group) == 1 else ''}"
    return evidence.finding(
        rule,
        "operator",
        message=f"{node.type} {shapes_text(node)} {problem}: {calls} {duration(before)}, and "
        f"would take {duration(after)}",
        advice=advice,
        source=node.source,
        gain_seconds=before - after,
        how="replayed",
        op=node.type,
        shapes=shapes_text(node),
        replayed_seconds=taken,
    )


def _usual(group: list[OpTimes]) -> float:
    return sum(times.usual_seconds for times in group)


def find_small_batch(evidence: ProfileEvidence) -> list[Finding]:
    """A batch so small that a step consists mostly of the fixed cost of its ops."""
    used = _machine_use(evidence)
    network = evidence.network_seconds()
    if evidence.call is None or used > _BUSY_MACHINE or evidence.share(network) < LEAST_SHARE:
        return []
    replayed = replay_batch(evidence.call, _LARGER)
    if replayed is None:
        return []
    size, replayed_before, replayed_after = replayed
    if size > _SMALL_BATCH or replayed_before < _LEAST_SPEEDUP * replayed_after:
        return []
    before = network / size
    after = before * replayed_after / replayed_before
    return evidence.finding(
        "small-batch",
        "operator",
        message=f"with {count_text(size, 'sample')} a step the network takes "
        f"{duration(before)} a sample, with {size * _LARGER} it would take "
        f"{duration(after)}: most of it is the fixed cost of "
        f"{count_text(len(evidence.timings.network), 'op')}",
        advice="use a larger batch (and adapt the learning rate), or torch.compile; to keep "
        "the updates as they are, take several samples at once where that is possible",
        source=_batch_line(evidence),
        gain_seconds=network - size * after,
        how="replayed",
        batch_size=size,
        seconds_a_sample=before,
        seconds_a_sample_in_a_larger_batch=after,
        replayed_seconds_a_sample=(replayed_before, replayed_after),
        share_of_machine=used,
    )


def _machine_use(evidence: ProfileEvidence) -> float:
    """The share of forward and backward that they would take at the machine's peak."""
    least = sum(
        cost.attainable_seconds(times.node, evidence.machine) for times in evidence.timings.network
    )
    spent = evidence.network_seconds()
    return least / spent if spent > 0 else 1.0


def _batch_line(evidence: ProfileEvidence) -> Source | None:
    """The line of the loader, which has the batch size, else the outermost of the forward pass."""
    if evidence.loaders:
        seen, _ = evidence.loaders[-1]
        return seen.source or seen.looped_at
    for times in evidence.timings.ops.values():
        if times.part == "forward" and times.node.sources:
            return times.node.sources[-1]
    return None
