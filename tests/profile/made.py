"""Made-up steps, events and profiles for tests, with round numbers."""

import dataclasses
from collections.abc import Sequence

from sonde.core.graph import Edge, Graph, OpNode, Phase, Source, TensorSpec
from sonde.profile.analyse.intervals import Interval
from sonde.profile.analyse.split import PARTS
from sonde.profile.analyse.traces import StepTrace
from sonde.profile.document import (
    FORMAT,
    FoundItem,
    Gain,
    Machine,
    ModuleItem,
    OpItem,
    Profile,
    ProfileSummary,
    StepItem,
    TimelineItem,
)
from sonde.profile.record.events import MemoryEvent, TraceEvent, nest

MACHINE = Machine("a machine", 1, {"float32": 1e11, "float64": 5e10, "bfloat16": 2e11}, 1e10)
"""100 GFLOP/s and 10 GB/s."""


def event(
    name: str, start: int, end: int, *, is_range: bool = False, thread: int = 1
) -> TraceEvent:
    return TraceEvent(name, start, end, thread, is_range)


def trace(
    events: Sequence[TraceEvent],
    *,
    begin: int = 0,
    end: int = 1000,
    number: int = 6,
    optimizers: Sequence[Interval] = (),
    backwards: Sequence[Interval] = (),
    collectives: Sequence[Interval] = (),
    compiling: Sequence[Interval] = (),
    memory: Sequence[tuple[int, int]] = (),
) -> StepTrace:
    return StepTrace(
        number=number,
        begin=begin,
        end=end,
        main=nest(events),
        others=(),
        optimizers=tuple(optimizers),
        backwards=tuple(backwards),
        collectives=tuple(collectives),
        compiling=tuple(compiling),
        memory=tuple(MemoryEvent(time, nbytes) for time, nbytes in memory),
        clock_offset=0,
    )


def line(number: int, code: str = "x = f(x)") -> Source:
    return Source("/home/me/train.py", number, "forward", code)


def node(
    op_type: str,
    name: str,
    *,
    inputs: Sequence[tuple[str | None, str, tuple[int, ...]]] = (),
    outputs: Sequence[tuple[str, tuple[int, ...]]] = (("float32", (64, 64)),),
    phase: Phase = "forward",
    scope: str = "Default/network-Net",
    source: Source | None = None,
    attributes: Sequence[tuple[str, str]] = (),
) -> OpNode:
    """An op; inputs are (producer, dtype, shape)."""
    return OpNode(
        name=name,
        type=op_type,
        scope=scope,
        phase=phase,
        inputs=tuple(Edge(p, 0, TensorSpec(dtype, shape)) for p, dtype, shape in inputs),
        outputs=tuple(TensorSpec(dtype, shape) for dtype, shape in outputs),
        attributes=tuple(attributes),
        sources=(source,) if source is not None else (),
    )


def graph(nodes: Sequence[OpNode]) -> Graph:
    return Graph(id=0, name="made", nodes=tuple(nodes))


def profile(step: float = 0.1, *, findings: int = 0, ops: Sequence[OpItem] = ()) -> Profile:
    """A profile of ten bare and ten profiled steps that all take ``step`` seconds."""
    parts = dict.fromkeys(PARTS, 0.0) | {"forward": 0.4 * step, "backward": 0.6 * step}
    steps = [StepItem(n, step, "bare") for n in range(10)]
    steps += [StepItem(n, step, "timed", parts=parts) for n in range(10, 20)]
    return Profile(
        format=FORMAT,
        program=("train.py", "--epochs", "1"),
        created="2026-01-02T03:04:05+00:00",
        versions={"sonde": "0", "torch": "2", "python": "3"},
        rank=0,
        ranks=1,
        machine=MACHINE,
        summary=ProfileSummary(step, step, parts, 0.0, 0, 20, 1 << 20, 1.0),
        steps=tuple(steps),
        timeline=TimelineItem(
            10, (("forward", 0.0, step),), (("addmm", "Default/n-Net", 0.0, step),)
        ),
        ops=tuple(ops),
        modules=ModuleItem("step", "", 0.4 * step, 0.6 * step, step),
        lines=(),
        memory=None,
        collectives=None,
        loaders=(),
        compilations=(),
        findings=tuple(
            FoundItem(
                "needless-cast",
                "framework",
                "info",
                "casts <b>",
                "none",
                Gain(0.01, 0.1, "in the trace"),
                Source("/home/me/train.py", 3, "f", "x.float()"),
            )
            for _ in range(findings)
        ),
        worth_trying=(),
    )


def op_item(op: str, seconds: float, *, module: str = "Default/network-Net") -> OpItem:
    return OpItem(op, module, "forward", None, "", 1.0, seconds, 0.0, None, None, None)


def renamed(made: OpNode, name: str) -> OpNode:
    return dataclasses.replace(made, name=name)
