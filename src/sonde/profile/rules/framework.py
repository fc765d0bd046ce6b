"""The framework direction: waits for values, needless casts and copies, Python code, compiling,
the optimizer."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from sonde.core.finding import Finding
from sonde.core.graph import OpNode, Source
from sonde.core.text.number_text import count_text, duration, percent
from sonde.profile.analyse.event_matching import is_collective_type
from sonde.profile.places import source_at
from sonde.profile.record.private import Compilation
from sonde.profile.record.stopwatch import AS_IT_IS, fastest_alternative
from sonde.profile.replay.optimizers import replay_optimizer
from sonde.profile.rules.evidence import LEAST_SECONDS, LEAST_SHARE, ProfileEvidence
from sonde.profile.rules.flow import Flow

_READS = frozenset({"_local_scalar_dense", "is_nonzero", "equal", "nonzero"})
_COPIES = frozenset({"clone", "_to_copy", "copy_", "contiguous"})
_LEAST_COPIED = 1024
_LONG_GAP_SECONDS = 5e-4
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def find_synchronisations(evidence: ProfileEvidence) -> list[Finding]:
    """Values that Python waits for: ``.item()``, ``float(t)``, ``if t:`` in every step.

    Their cost includes the ops whose results only they need.
    """
    flow = Flow(evidence.graph)
    reads = [n for n in _network_ops(evidence, flow) if n.type in _READS and n.phase == "forward"]
    needed_only = flow.only_for(reads)
    seconds = evidence.cost(needed_only)
    source, calls = _heaviest_line(evidence, reads, needed_only)
    return evidence.finding(
        "synchronisation",
        "framework",
        message=f"Python waits for {count_text(len(reads), 'value')} a step (.item(), float(), "
        f"if): {percent(evidence.share(seconds))} of a step goes into computing and fetching them",
        advice="keep such values as tensors (.detach()), and read them once in many steps, "
        "or not at all",
        source=source,
        gain_seconds=seconds,
        reads_a_step=len(reads),
        reads_at_this_line=calls,
        ops_only_for_them=len(needed_only),
    )


def find_casts(evidence: ProfileEvidence) -> list[Finding]:
    """Conversions between floating-point types in the user's code.

    Under autocast, which converts by itself, only conversions that are undone at once count.
    """
    flow = Flow(evidence.graph)
    casts = [node for node in _network_ops(evidence, flow) if _is_cast(node)]
    back = _there_and_back(flow, casts)
    if evidence.call is not None and evidence.call.is_autocast:
        casts = back
    seconds = evidence.cost(casts)
    source, calls = _heaviest_line(evidence, casts, casts)
    pairs = {f"{n.inputs[0].spec.dtype} to {n.outputs[0].dtype}" for n in casts}
    return evidence.finding(
        "needless-cast",
        "framework",
        message=f"{count_text(len(casts), 'conversion')} a step ({', '.join(sorted(pairs))}) "
        f"take{'s' if len(casts) == 1 else ''} {percent(evidence.share(seconds))} of it",
        advice="keep one type from end to end, or leave conversions to torch.autocast",
        source=source,
        gain_seconds=seconds,
        casts_a_step=len(casts),
        casts_at_this_line=calls,
        straight_there_and_back=len(back),
    )


def find_layout_flips(evidence: ProfileEvidence) -> list[Finding]:
    """Copies into another memory layout that the next copy undoes."""
    flow = Flow(evidence.graph)
    copies = [node for node in _network_ops(evidence, flow) if _is_copy(node)]
    names = {node.name for node in copies}
    lines: set[Source | None] = set()
    for node in copies:
        for after in flow.next_through_light_ops(node, names):
            if math.prod(after.outputs[0].shape) == math.prod(node.outputs[0].shape):
                lines |= {node.source, after.source}
    flips = [node for node in copies if node.source in lines]
    seconds = evidence.cost(flips)
    source, calls = _heaviest_line(evidence, flips, flips)
    return evidence.finding(
        "layout-flip",
        "framework",
        message=f"tensors are copied from one memory layout to another and back "
        f"{count_text(len(flips), 'time')} a step, which takes "
        f"{percent(evidence.share(seconds))} of it",
        advice="choose one layout for the whole network (channels_last for convolutions: "
        "model.to(memory_format=torch.channels_last)) and drop the calls between",
        source=source,
        gain_seconds=seconds,
        copies_a_step=len(flips),
        copies_at_this_line=calls,
    )


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
    line, seconds = max(spent.items(), key=lambda item: item[1], default=(None, 0.0))
    if seconds < LEAST_SECONDS:
        return []
    return evidence.finding(
        "python-time",
        "framework",
        message=f"the training thread is at this line for {duration(seconds)} a step "
        "while no op runs",
        advice="move this work out of the training loop, into the workers of a DataLoader, or "
        "do it less often",
        source=line,
        gain_seconds=seconds,
    )


def find_recompilations(evidence: ProfileEvidence) -> list[Finding]:
    """Time that torch.compile spends compiling in profiled steps, with the guard that failed."""
    by_function: dict[tuple[str, int, str], list[Compilation]] = {}
    for each in evidence.compilations:
        by_function.setdefault((each.file, each.line, each.function), []).append(each)
    if not by_function:
        return []
    group = max(by_function.values(), key=lambda each: sum(c.seconds for c in each))
    seconds = sum(each.seconds for each in group) / evidence.timings.count
    worst = next((each for each in reversed(group) if each.reason), group[-1])
    reason = worst.reason.partition("\n")[0].partition("#")[0].strip()
    # The line of the failed guard, else that of the compiled function.
    frames = _FRAME.findall(worst.reason)
    file, line, function = frames[-1] if frames else (worst.file, worst.line, worst.function)
    return evidence.finding(
        "recompilation",
        "framework",
        message=f"torch.compile compiled {worst.function}() {count_text(len(group), 'time')} in "
        f"{count_text(evidence.timings.count, 'step')}, {duration(seconds)} or "
        f"{percent(evidence.share(seconds))} of each" + (f": {reason}" if reason else ""),
        advice="keep what the guard names the same from step to step: pass changing numbers as "
        "tensors, pad changing shapes, or torch.compile(..., dynamic=True)",
        source=source_at(file, int(line), function),
        gain_seconds=seconds,
        compilations=len(group),
        function=f"{worst.file}:{worst.line}",
        reason=worst.reason,
    )


def find_unfused_optimizer(evidence: ProfileEvidence) -> list[Finding]:
    """An optimizer that updates parameters one by one; fused and grouped updates are replayed."""
    part = evidence.timings.usual_part_seconds("optimizer")
    if evidence.share(part) < LEAST_SHARE or not evidence.optimizers:
        return []
    seen = max(evidence.optimizers, key=lambda each: len(each.parameters))
    taken = replay_optimizer(seen)
    if not taken:
        return []
    way = fastest_alternative(taken)
    kind = seen.kind.__name__
    # zero_grad and hooks, which are in this part, too, do not get faster.
    gain = min(part, taken[AS_IT_IS]) * (1 - taken[way] / taken[AS_IT_IS])
    return evidence.finding(
        "unfused-optimizer",
        "framework",
        message=f"{kind} updates {count_text(len(seen.parameters), 'parameter')} one after "
        f"the other, which takes {duration(part)} or {percent(evidence.share(part))} of a step; "
        f"with {way} it would take {duration(part - gain)}",
        advice=f"torch.optim.{kind}(..., {way})",
        source=seen.source,
        gain_seconds=gain,
        how="replayed",
        parameters=len(seen.parameters),
        optimizer_seconds=part,
        replayed_seconds=taken,
    )


def _network_ops(evidence: ProfileEvidence, flow: Flow) -> list[OpNode]:
    """The ops that neither load data nor belong to the optimizer."""
    times = evidence.timings.ops
    return [
        node
        for node in flow.ops
        if node.phase != "optimizer"
        and node.name in times
        and times[node.name].part not in ("data", "optimizer")
    ]


def _is_cast(node: OpNode) -> bool:
    if node.type not in _COPIES or not node.inputs or not node.outputs:
        return False
    before, after = node.inputs[0].spec.dtype, node.outputs[0].dtype
    return "float" in before and "float" in after and before != after


def _is_copy(node: OpNode) -> bool:
    return (
        node.type in _COPIES
        and bool(node.inputs and node.outputs)
        and node.inputs[0].spec.dtype == node.outputs[0].dtype
        and math.prod(node.outputs[0].shape) >= _LEAST_COPIED
    )


def _there_and_back(flow: Flow, casts: list[OpNode]) -> list[OpNode]:
    """The casts whose result the next cast converts back, and those that convert back."""
    names = {node.name for node in casts}
    found: dict[str, OpNode] = {}
    for node in casts:
        for after in flow.consumers(node):
            if after.name in names and after.outputs[0].dtype == node.inputs[0].spec.dtype:
                found.update({node.name: node, after.name: after})
    return list(found.values())


def _heaviest_line(
    evidence: ProfileEvidence, counted: Collection[OpNode], weighed: Collection[OpNode]
) -> tuple[Source | None, int]:
    """The line with the greatest cost of ``weighed``, and how many of ``counted`` are at it.

    Lines with an op of ``counted`` are preferred.
    """
    spent: dict[Source, float] = {}
    for node in weighed:
        if node.source is not None:
            spent[node.source] = spent.get(node.source, 0.0) + evidence.cost([node])
    at = {node.source for node in counted}
    candidates = {source: cost for source, cost in spent.items() if source in at} or spent
    if not candidates:
        return None, 0
    line = max(candidates, key=candidates.__getitem__)
    return line, sum(node.source == line for node in counted)
