"""The multi-node direction: collectives that do not overlap with computation."""

from __future__ import annotations

from collections import Counter

from sonde.core.finding import Finding
from sonde.core.text.number_text import duration, percent
from sonde.profile.analyse.event_matching import is_collective_type
from sonde.profile.analyse.intervals import length, union
from sonde.profile.rules.evidence import (
    LEAST_SHARE,
    LONG_WAIT_SHARE,
    How,
    ProfileEvidence,
)


def find_exposed_collectives(evidence: ProfileEvidence) -> list[Finding]:
    """Time in which a rank waits for others and computes nothing."""
    timings = evidence.timings
    long_wait = evidence.long_wait("collectives")
    exposed = max(timings.usual_part_seconds("collectives"), long_wait)
    gain, how, sent_as_one = _gain(evidence, exposed)
    advice = (
        "let DistributedDataParallel send gradients while backward runs; with it "
        "already, try other bucket sizes (sonde profile --try buckets)"
    )
    is_long = long_wait > 0 or evidence.share(exposed) >= LONG_WAIT_SHARE
    if is_long and evidence.share(gain) < LEAST_SHARE:
        # Backward is too short to hide the wait, which takes a large part of the step anyway.
        gain, how = exposed, "in the trace"
        advice = (
            "compute more between two exchanges (a larger batch, or several batches under "
            "no_sync()), and look for a rank that is slower than the others"
        )
    under_way = timings.mean_seconds(
        length(union(step.trace.collectives)) for step in timings.steps
    )
    hidden = timings.mean_seconds(step.split.overlapped for step in timings.steps)
    # DDP starts collectives inside backward: their source is the line that called backward.
    sources = [node.source for node in evidence.graph or () if is_collective_type(node.type)]
    total, nbytes = len(sources), evidence.collective_bytes
    lines = Counter(source for source in sources if source is not None)
    each = f", {nbytes / total / 1024:.0f} KiB each" if nbytes and total else ""
    return evidence.finding(
        "exposed-collectives",
        "multi-node",
        message=f"a rank waits {duration(exposed)} or {percent(evidence.share(exposed))} "
        f"of a step for {total} collective{'s' if total != 1 else ''}{each}, and only "
        f"{percent(hidden / under_way if under_way else 0.0)} of their time is hidden behind "
        f"backward{sent_as_one}",
        advice=advice,
        source=lines.most_common(1)[0][0] if lines else None,
        gain_seconds=gain,
        how=how,
        exposed_seconds=exposed,
        overlapped_seconds=hidden,
        collectives_a_step=total,
        bytes_a_step=nbytes,
    )


def _gain(evidence: ProfileEvidence, exposed: float) -> tuple[float, How, str]:
    """The larger of two gains, how it was measured, and words for the message.

    If each gradient is sent as soon as it is computed, backward hides at most its own length.
    Sending many small tensors as one saves what the replay of both shows.
    """
    overlap = min(exposed, evidence.timings.usual_part_seconds("backward"))
    if evidence.all_reduces is not None:
        parts, whole = evidence.all_reduces
        saved = exposed * (1 - whole / parts)
        if saved > overlap:
            words = f"{duration(exposed - saved)} instead of {duration(exposed)}"
            return saved, "replayed", f"; sent in one they would take {words}"
    return overlap, "in the trace", ""
