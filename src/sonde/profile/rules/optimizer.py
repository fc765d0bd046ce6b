"""The optimizer: parameters updated one by one where one call could do all."""

from __future__ import annotations

from sonde.core.finding import Finding
from sonde.core.number_text import percent
from sonde.profile.replay.optimizers import AS_IT_IS, replay_optimizer
from sonde.profile.rules.evidence import LEAST_SHARE, ProfileEvidence, judgement, milliseconds


def find_unfused_optimizer(evidence: ProfileEvidence) -> list[Finding]:
    """What a fused or grouped update brings, by running both on parameters of the same shapes."""
    part = evidence.timings.usual_part_seconds("optimizer")
    if evidence.share(part) < LEAST_SHARE or not evidence.optimizers:
        return []
    seen = max(evidence.optimizers, key=lambda each: len(each.parameters))
    taken = replay_optimizer(seen)
    if not taken:
        return []
    way = min((name for name in taken if name != AS_IT_IS), key=lambda name: taken[name])
    # The share saved is what carries over; zero_grad and hooks in the part do not get faster.
    gain = min(part, taken[AS_IT_IS]) * (1 - taken[way] / taken[AS_IT_IS])
    if not evidence.is_worth(gain):
        return []
    return [
        judgement(
            evidence,
            "unfused-optimizer",
            "framework",
            message=f"{seen.kind.__name__} updates {len(seen.parameters)} parameters one after "
            f"the other, which takes {percent(evidence.share(part))} of a step; with {way} its "
            f"step takes {milliseconds(taken[way])} instead of {milliseconds(taken[AS_IT_IS])}",
            advice=f"torch.optim.{seen.kind.__name__}(..., {way})",
            source=seen.source,
            gain_seconds=gain,
            how="replayed",
            parameters=len(seen.parameters),
            optimizer_seconds=part,
            replayed_seconds=taken,
        )
    ]
