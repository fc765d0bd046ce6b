"""The framework's direction: waits for values, needless casts and copies, Python in the loop."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sonde.core.finding import Finding
from sonde.core.graph import OpNode, Source
from sonde.core.number_text import percent
from sonde.profile.analyse.event_matching import is_collective_type
from sonde.profile.rules.evidence import LEAST_SECONDS, ProfileEvidence, judgement, milliseconds
from sonde.profile.rules.flow import Flow

_READS = frozenset({"_local_scalar_dense", "is_nonzero", "equal", "nonzero"})
_COPIES = frozenset({"clone", "_to_copy", "copy_", "contiguous"})
_LEAST_COPIED = 1024
_LONG_GAP_SECONDS = 5e-4


def find_synchronisations(evidence: ProfileEvidence) -> list[Finding]:
    """Values that Python waits for: ``.item()``, ``float(t)``, ``if t:`` in every step.

    Their cost is that of the ops whose results only they need, which would go with them.
    """
    if evidence.graph is None:
        return []
    flow = Flow(evidence.graph)
    reads = [node for node in _in_forward(evidence, flow) if node.type in _READS]
    if not reads:
        return []
    needed_only = flow.only_for(reads)
    seconds = evidence.cost(needed_only)
    if not evidence.is_worth(seconds):
        return []
    source, calls = _heaviest_line(evidence, reads, needed_only)
    return [
        judgement(
            evidence,
            "synchronisation",
            "framework",
            message=f"Python waits for {len(reads)} values a step (.item(), float(), if): "
            f"{percent(evidence.share(seconds))} of a step goes into computing and fetching them",
            advice="keep such values as tensors (.detach()), and read them once in many steps, "
            "or not at all",
            source=source,
            gain_seconds=seconds,
            how="in the trace",
            reads_a_step=len(reads),
            reads_at_this_line=calls,
            ops_only_for_them=len(needed_only),
        )
    ]


def find_casts(evidence: ProfileEvidence) -> list[Finding]:
    """Conversions between floating-point types made by hand.

    Under autocast conversions are its work; there only those count that lead back at once.
    """
    if evidence.graph is None:
        return []
    flow = Flow(evidence.graph)
    casts = [node for node in flow.ops if _is_cast(node) and not _is_apart(evidence, node)]
    back = _there_and_back(flow, casts)
    if evidence.call is not None and evidence.call.is_autocast:
        casts = back
    seconds = evidence.cost(casts)
    if not casts or not evidence.is_worth(seconds):
        return []
    source, calls = _heaviest_line(evidence, casts, casts)
    pairs = sorted({f"{n.inputs[0].spec.dtype} to {n.outputs[0].dtype}" for n in casts})
    return [
        judgement(
            evidence,
            "needless-cast",
            "framework",
            message=f"converting between {', '.join(pairs)} {len(casts)} times a step takes "
            f"{percent(evidence.share(seconds))} of it",
            advice="keep one type from end to end, or leave conversions to torch.autocast",
            source=source,
            gain_seconds=seconds,
            how="in the trace",
            casts_a_step=len(casts),
            casts_at_this_line=calls,
            straight_there_and_back=len(back),
        )
    ]


def find_layout_flips(evidence: ProfileEvidence) -> list[Finding]:
    """Copies into another memory layout that the next copy undoes."""
    if evidence.graph is None:
        return []
    flow = Flow(evidence.graph)
    copies = [node for node in flow.ops if _is_copy(node) and not _is_apart(evidence, node)]
    names = {node.name for node in copies}
    flips: dict[str, OpNode] = {}
    for node in copies:
        for after in flow.next_through_light_ops(node, names):
            if math.prod(after.outputs[0].shape) == math.prod(node.outputs[0].shape):
                flips.update({node.name: node, after.name: after})
    lines = {node.source for node in flips.values()}
    flips.update({node.name: node for node in copies if node.source in lines})
    seconds = evidence.cost(list(flips.values()))
    if not flips or not evidence.is_worth(seconds):
        return []
    source, calls = _heaviest_line(evidence, flips.values(), flips.values())
    return [
        judgement(
            evidence,
            "layout-flip",
            "framework",
            message=f"tensors are copied from one memory layout to another and back "
            f"{len(flips)} times a step, which takes {percent(evidence.share(seconds))} of it",
            advice="choose one layout for the whole network (channels_last for convolutions: "
            "model.to(memory_format=torch.channels_last)) and drop the calls between",
            source=source,
            gain_seconds=seconds,
            how="in the trace",
            copies_a_step=len(flips),
            copies_at_this_line=calls,
        )
    ]


def find_python_time(evidence: ProfileEvidence) -> list[Finding]:
    """The user's own Python code between ops, in the loop or in the network."""
    spent = dict(evidence.rest_lines)
    for times in evidence.timings.ops.values():
        waited = sorted(times.before)[len(times.before) // 2] / 1e9
        source = times.node.source
        if times.part in ("data", "collectives") or is_collective_type(times.node.type):
            continue
        if source is not None and waited > _LONG_GAP_SECONDS:
            spent[source] = max(spent.get(source, 0.0), waited)
    if not spent:
        return []
    source, seconds = max(spent.items(), key=lambda item: item[1])
    if not evidence.is_worth(seconds) or seconds < LEAST_SECONDS:
        return []
    return [
        judgement(
            evidence,
            "python-time",
            "framework",
            message=f"the training thread is at this line for {milliseconds(seconds)} a step "
            "while no op runs",
            advice="move this work out of the training loop, into the workers of a DataLoader, or "
            "do it less often",
            source=source,
            gain_seconds=seconds,
            how="in the trace",
        )
    ]


def _in_forward(evidence: ProfileEvidence, flow: Flow) -> list[OpNode]:
    return [n for n in flow.ops if n.phase == "forward" and not _is_apart(evidence, n)]


def _is_apart(evidence: ProfileEvidence, node: OpNode) -> bool:
    """Whether an op belongs to loading data or to the optimizer, not to the network."""
    times = evidence.timings.ops.get(node.name)
    return node.phase == "optimizer" or times is None or times.part in ("data", "optimizer")


def _is_cast(node: OpNode) -> bool:
    return (
        node.type in _COPIES
        and bool(node.inputs and node.outputs)
        and "float" in node.inputs[0].spec.dtype
        and "float" in node.outputs[0].dtype
        and node.inputs[0].spec.dtype != node.outputs[0].dtype
    )


def _is_copy(node: OpNode) -> bool:
    return (
        node.type in _COPIES
        and bool(node.inputs and node.outputs)
        and node.inputs[0].spec.dtype == node.outputs[0].dtype
        and math.prod(node.outputs[0].shape) >= _LEAST_COPIED
    )


def _there_and_back(flow: Flow, casts: list[OpNode]) -> list[OpNode]:
    names = {node.name for node in casts}
    found: dict[str, OpNode] = {}
    for node in casts:
        for after in flow.consumers(node):
            if after.name in names and after.outputs[0].dtype == node.inputs[0].spec.dtype:
                found.update({node.name: node, after.name: after})
    return list(found.values())


def _heaviest_line(
    evidence: ProfileEvidence, counted: Iterable[OpNode], weighed: Iterable[OpNode]
) -> tuple[Source | None, int]:
    """The line with the greatest cost of ``weighed``, and how many of ``counted`` are at it."""
    counted = list(counted)
    spent: dict[Source, float] = {}
    for node in weighed:
        if node.source is not None:
            spent[node.source] = spent.get(node.source, 0.0) + evidence.cost([node])
    at = {node.source for node in counted}
    candidates = {source: cost for source, cost in spent.items() if source in at} or spent
    if not candidates:
        return None, 0
    source = max(candidates, key=lambda each: candidates[each])
    return source, sum(node.source == source for node in counted)
