"""Suggests variants for ``--try`` from how the time is spent; their gain is not measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection

from sonde.core.text.number_text import percent
from sonde.profile.analyse import cost
from sonde.profile.analyse.timings import OpTimes
from sonde.profile.rules.evidence import ProfileEvidence
from sonde.profile.rules.flow import is_pointwise

_LEAST = 0.15
_FASTER = 1.3
_WORKERS = frozenset({"data-wait", "too-few-workers", "slow-dataset"})


def worth_trying(evidence: ProfileEvidence, ranks: int, found: Collection[str]) -> tuple[str, ...]:
    """Variants of ``--try`` with the reason, as ``"compile: ..."``.

    Variants whose gain a rule in ``found`` has measured are left out.
    """
    hints: list[str] = []
    between = _share(evidence, lambda times: True, before=True)
    light = _share(evidence, lambda times: is_pointwise(times.node.type))
    if evidence.graph is not None and max(between, light) >= _LEAST:
        hints.append(
            f"compile: elementwise ops take {percent(light)} of a step, Python between ops "
            f"{percent(between)}"
        )
    products = _share(evidence, _is_float32_product)
    flops = evidence.machine.flops
    if products >= _LEAST and flops.get("bfloat16", 0) > _FASTER * flops.get("float32", 0):
        hints.append(
            f"amp: matrix products and convolutions in float32 take {percent(products)} of a step"
        )
    convolutions = _share(evidence, lambda times: times.node.type.startswith("convolution"))
    if convolutions >= _LEAST:
        hints.append(f"channels_last: convolutions take {percent(convolutions)} of a step")
    waited, busy = evidence.waits()
    data = waited / (waited + busy) if waited > 0 else 0.0
    if data >= _LEAST and evidence.loaders and _WORKERS.isdisjoint(found):
        hints.append(f"workers: {percent(data)} of a step is waiting for data")
    optimizer = evidence.share(evidence.timings.usual_part_seconds("optimizer"))
    has_unfused = any(each.options.get("fused", True) is not True for each in evidence.optimizers)
    if optimizer >= _LEAST and has_unfused and "unfused-optimizer" not in found:
        hints.append(f"fused: the optimizer takes {percent(optimizer)} of a step")
    if ranks > 1 and evidence.share(evidence.timings.usual_part_seconds("collectives")) >= _LEAST:
        hints.append("buckets: ranks wait for each other")
    return tuple(hints)


def _share(
    evidence: ProfileEvidence, chosen: Callable[[OpTimes], bool], *, before: bool = False
) -> float:
    seconds = sum(
        statistics.median(times.before if before else times.own)
        for times in evidence.timings.network
        if chosen(times)
    )
    return evidence.share(seconds / 1e9)


def _is_float32_product(times: OpTimes) -> bool:
    return cost.is_product(times.node.type) and cost.compute_dtype(times.node) == "float32"
