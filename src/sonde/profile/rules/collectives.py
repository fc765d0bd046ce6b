"""The multi-node direction: collectives that nothing hides."""

from __future__ import annotations

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.core.number_text import percent
from sonde.profile.analyse.event_matching import is_collective_type
from sonde.profile.analyse.intervals import length, union
from sonde.profile.rules.evidence import How, ProfileEvidence, judgement, milliseconds


def find_exposed_collectives(evidence: ProfileEvidence) -> list[Finding]:
    """Time in which a rank waits for others and computes nothing.

    Backward can hide as much of it as it takes itself, when each gradient is sent as soon as it is
    there; sending many small tensors as one saves what a replay of both shows. The gain is the
    greater of the two.
    """
    timings = evidence.timings
    exposed = timings.usual_part_seconds("collectives")
    backward = timings.usual_part_seconds("backward")
    how: How
    gain, how = min(exposed, backward), "in the trace"
    sent_in_one = ""
    if evidence.all_reduces is not None:
        parts, whole = evidence.all_reduces
        if exposed * (1 - whole / parts) > gain:
            gain, how = exposed * (1 - whole / parts), "replayed"
            sent_in_one = (
                f"; sent in one they take {milliseconds(whole)} instead of {milliseconds(parts)}"
            )
    if not evidence.is_worth(gain):
        return []
    under_way = timings.mean_seconds(
        length(union(step.trace.collectives)) for step in timings.steps
    )
    hidden = timings.mean_seconds(step.split.overlapped for step in timings.steps)
    source, total = _launches(evidence)
    each = (
        f", {evidence.collective_bytes / total / 1024:.0f} KiB each"
        if (evidence.collective_bytes and total)
        else ""
    )
    return [
        judgement(
            evidence,
            "exposed-collectives",
            "multi-node",
            message=f"a rank waits {milliseconds(exposed)} or {percent(evidence.share(exposed))} "
            f"of a step for {total} collective{'s' if total != 1 else ''}{each}, and only "
            f"{percent(hidden / under_way if under_way else 0.0)} of their time is hidden behind "
            f"backward{sent_in_one}",
            advice="let DistributedDataParallel send gradients while backward runs; with it "
            "already, try other bucket sizes (sonde profile --try buckets)",
            source=source,
            gain_seconds=gain,
            how=how,
            exposed_seconds=exposed,
            overlapped_seconds=hidden,
            collectives_a_step=total,
            bytes_a_step=evidence.collective_bytes,
        )
    ]


def _launches(evidence: ProfileEvidence) -> tuple[Source | None, int]:
    """The line that starts most collectives, and how many are started in all."""
    lines: dict[Source, int] = {}
    total = 0
    nodes = evidence.graph or ()
    for node in nodes:
        if node.kind == "op" and is_collective_type(node.type):
            total += 1
            # DDP starts them from inside backward: the line is the one that called it.
            source = node.source
            if source is not None:
                lines[source] = lines.get(source, 0) + 1
    return max(lines, key=lambda each: lines[each], default=None), total
