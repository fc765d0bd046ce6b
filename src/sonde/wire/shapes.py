"""Types used in messages to ranks and to browsers: ops, tensors, watchpoints, hits.

All are frozen; they are sent to the browser as JSON and between processes as MessagePack.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from sonde.wire.numbers import Integer, Number

Io = Literal["input", "output"]
Phase = Literal["forward", "backward", "optimizer"]
NodeKind = Literal["op", "parameter", "input", "constant"]
Category = Literal["weight", "gradient", "activation", "tensor"]
State = Literal["waiting", "running", "paused", "ended", "lost"]
PauseReason = Literal["start", "pause", "step", "op", "missed", "hit", "breakpoint"]
GraphBasis = Literal["run", "trace", "modules"]
GraphDetail = Literal["model", "step", "everything"]
BoxStatistic = Literal["l2norm", "max", "zeros", "non-finite", "distance", "time"]
"""What boxes of a graph are coloured by: the norm, the largest magnitude, the share of zeros, the
number of NaN and Inf, the relative error to the other dump."""
Verdict = Literal["hit", "undecided"]
Part = Literal["producer", "carrier", "other"]
EvidenceStatus = Literal["established", "supported", "hypothesis"]


class Plain(msgspec.Struct, frozen=True, omit_defaults=False, gc=False):
    """Base of every wire type. They have no cycles: with ``gc=False`` the garbage collector skips
    them, which matters for a hundred thousand nodes."""


class SourceLine(Plain, frozen=True):
    """A line of the user's code. ``library``: where in a library the op ran, such as
    ``in transformers/pytorch_utils.py:119``, if this line called the library; else empty."""

    file: str
    line: Integer
    function: str
    code: str
    library: str = ""


class TensorType(Plain, frozen=True):
    dtype: str
    shape: tuple[Integer, ...]


class InputEdge(Plain, frozen=True):
    """The producer of an input: a full op name, or None if unknown."""

    producer: str | None
    slot: Integer
    type: TensorType


class Node(Plain, frozen=True):
    """One op or leaf of a graph; ``order`` is its position in the execution, leaves included.

    ``categories``: a watch condition applies to nodes of one category (every node is a "tensor").
    """

    name: str
    type: str
    scope: str
    phase: Phase
    kind: NodeKind
    order: Integer
    inputs: tuple[InputEdge, ...] = ()
    outputs: tuple[TensorType, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    sources: tuple[SourceLine, ...] = ()
    categories: tuple[Category, ...] = ("tensor",)


class TensorName(Plain, frozen=True):
    """One tensor of a rank; ``step`` None: the latest step."""

    op: str
    io: Io = "output"
    slot: Integer = 0
    step: Integer | None = None


class StatisticNumbers(Plain, frozen=True):
    """``core.statistics.Statistics`` on the wire. None: unknown, because a dump has only some of
    the numbers; if such a dump has no counts of NaN and Inf, 1 means "some"."""

    count: Integer
    nan_count: Integer
    positive_inf_count: Integer
    negative_inf_count: Integer
    zero_count: Integer | None
    negative_count: Integer | None
    positive_count: Integer | None
    max: Number | None
    min: Number | None
    finite_max: Number | None
    finite_min: Number | None
    avg: Number | None
    l2norm: Number | None
    std: Number | None
    abs_mean: Number | None


class ConditionSpec(Plain, frozen=True):
    """A condition by its id and the parameters that are set; an expression has ``expression``."""

    id: str
    parameters: dict[str, float] = {}
    expression: str = ""


class WatchpointSpec(Plain, frozen=True):
    """Which tensors to watch, with which conditions, and when to pause.

    ``ops``: patterns as in ``kernels``, or a scope that ends with ``/``; empty: every tensor to
    which the conditions apply. ``!`` before a pattern excludes the ops that it matches; the last
    pattern that matches an op decides, and if the first excludes, all other ops are included.
    ``join``: whether one condition suffices ("any") or all must hold. The training pauses at every
    ``break_after``-th hit; 0: never, hits are only listed.
    """

    id: Integer
    name: str
    conditions: tuple[ConditionSpec, ...]
    ops: tuple[str, ...] = ()
    join: Literal["any", "all"] = "any"
    enabled: bool = True
    break_after: Integer = 1
    ranks: tuple[Integer, ...] = ()


class ParameterValue(Plain, frozen=True):
    """One parameter of a condition: its configured value (``preset``) and the measured one."""

    name: str
    preset: Number | None
    actual: Number | None


class TracebackFrame(Plain, frozen=True):
    """A frame of the traceback of a failed program; ``is_own``: of the user's own code."""

    line: SourceLine
    is_own: bool


class NamedTensor(Plain, frozen=True):
    """A tensor as the program calls it: ``self.weight``."""

    name: str
    type: TensorType


class FailedCall(Plain, frozen=True):
    """The call that raised the error of a failed program. ``operator``: the function or method,
    empty if it is not known; ``module``: the innermost one that ran, by its path in the outermost
    one, which has none, and its class, empty outside of modules; ``tensors``: what was passed."""

    operator: str
    module: str
    module_class: str
    tensors: tuple[NamedTensor, ...]


class HeadlineText(Plain, frozen=True):
    """What is wrong: ``title`` in a few words; ``text`` is the whole sentence and begins with it.
    Code is between backticks. ``source``: the line that it names."""

    title: str
    text: str
    source: SourceLine | None = None


class Hit(Plain, frozen=True):
    """A tensor on which a watchpoint was met. The verdict "undecided" never pauses a training;
    ``why`` gives the reason.

    ``part``: whether the op produced the non-finite values from finite ones, or passed them on.
    ``origin`` is the op that produced them, ``chain`` the ops from there to this one, both
    included. ``number`` counts the hits of a rank, from 0. ``status``: how certain the hit is.
    ``headline``: the sentence about the origin, or about the number found; None if undecided.
    ``advice``: what to do. ``is_harmless``: undecided because NaN or Inf reached neither the loss
    nor an update of weights.
    """

    number: Integer
    watchpoint: Integer
    condition: str
    rank: Integer
    step: Integer
    order: Integer
    op: str
    io: Io
    slot: Integer
    type: TensorType
    verdict: Verdict
    why: str
    values: tuple[ParameterValue, ...]
    part: Part = "other"
    origin: str | None = None
    chain: tuple[str, ...] = ()
    source: SourceLine | None = None
    count: Integer = 1
    status: EvidenceStatus = "supported"
    headline: HeadlineText | None = None
    advice: str = ""
    is_harmless: bool = False


class HitRef(Plain, frozen=True):
    """The hit at which a training stopped: its watchpoint (with its name at that time), the
    condition that was met, the tensor, the sentence about it, and the op that produced NaN or
    Inf."""

    watchpoint: Integer
    name: str
    condition: str
    step: Integer
    op: str
    io: Io
    slot: Integer
    headline: HeadlineText | None = None
    origin: str | None = None


class EvidenceText(Plain, frozen=True):
    """One measured fact of a finding, as it is shown."""

    name: str
    value: str


class FindingView(Plain, frozen=True):
    """What a diagnosis found. ``kind`` is the rule, a page of ``docs/rules``; ``detail`` a more
    precise kind, or empty. ``where``: lines, modules, parameters, functions, the most exact first;
    ``lines`` are the source lines among them. ``step``: from which on it holds. ``explains``: the
    symptoms that this cause explains."""

    kind: str
    detail: str
    status: EvidenceStatus
    message: str
    where: tuple[str, ...]
    step: Integer | None
    evidence: tuple[EvidenceText, ...]
    explains: tuple[str, ...]
    advice: str
    lines: tuple[SourceLine, ...] = ()


class DiagnosisView(Plain, frozen=True):
    """What the diagnosis of a training has found in its first ``steps`` steps, causes first.
    ``is_over``: the training has ended, and the list has the final word."""

    steps: Integer
    is_over: bool
    findings: tuple[FindingView, ...]


class KeptOp(Plain, frozen=True):
    """Values that are kept on request: those of the ops that ``pattern`` matches, of the last
    ``steps`` steps; they take ``nbytes`` now."""

    pattern: str
    steps: Integer
    nbytes: Integer


class Metadata(Plain, frozen=True):
    """Facts about a training process. ``extra`` is shown unchanged."""

    host: str
    pid: Integer
    rank: Integer
    world_size: Integer
    device: str
    framework: str
    framework_version: str
    sonde_version: str
    python_version: str
    script: str
    arguments: tuple[str, ...]
    working_directory: str
    started: float
    extra: dict[str, str] = {}


class LossPoint(Plain, frozen=True):
    """A step that has ended. ``seconds``: its duration without pauses. ``bare_seconds``: the same
    without Sonde's own work at its end, known only if neither ops nor gradients were observed.
    ``observed``: its ops were observed. ``optimizer``: the optimizer whose step ended it, such as
    ``Adam of Generator``; empty if there was none."""

    step: Integer
    loss: Number | None
    seconds: float
    bare_seconds: float | None
    observed: bool
    optimizer: str = ""
