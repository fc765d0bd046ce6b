"""What a rank reports about itself: its layout once, then its steps and collectives.

A report has hashes and a few numbers, never the values of a tensor. Reports of different ranks
may arrive in any order and at any time: nothing here makes one rank wait for another.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from sonde.core.errors import SondeError

TensorKind = Literal["parameter", "buffer", "state", "copy"]
"""``copy``: a parameter that no optimizer changes, of a network that has the same parameters as a
trained one, such as a moving average."""
GroupRole = Literal["data", "tensor", "pipeline"]
CollectiveSource = Literal["calls", "recorder"]
"""Who reported a collective: the function that the program called, or torch's flight recorder,
which also has those that C++ code starts. Each counts the collectives of a group by itself."""
PlacementKind = Literal["replicated", "sharded", "partial"]
EVAL_MODE: Final = "network in eval mode"
MODULES_IN_EVAL: Final = "modules in eval mode"
STEPS_BEFORE: Final = "steps made before this run"
"""Names in ``StepReport.decisions``."""
PROJECTIONS: Final = 4
"""The number of projections of a gradient (``RankGradient``)."""


class ReportError(SondeError):
    """A report cannot be read."""


class Placement(msgspec.Struct, frozen=True, array_like=True):
    """How a tensor is laid out over the ranks of one group; ``dim`` is that of a shard."""

    group: str
    kind: PlacementKind
    dim: int = 0


class RankTensor(msgspec.Struct, frozen=True, array_like=True):
    """A tensor that every step reports. ``placements`` has one entry for each group that the tensor
    is laid out over. ``is_inferred``: nobody declared the placement. ``owner``: the parameter that
    a state of an optimizer belongs to, or that it is a copy of."""

    name: str
    kind: TensorKind
    shape: tuple[int, ...]
    dtype: str
    placements: tuple[Placement, ...] = ()
    is_trainable: bool = True
    is_inferred: bool = False
    owner: str = ""


class RankDescription(msgspec.Struct, frozen=True, array_like=True, tag="description"):
    """A rank at its first step. ``groups``: the ranks of each group that this rank is in, by name;
    ``roles``: what the group is for, where that is known. ``environment``: facts that must be the
    same on all ranks, by name. ``arguments`` of the program, which may have one of ``own_numbers``
    of the rank in them."""

    rank: int
    world_size: int
    groups: dict[str, tuple[int, ...]]
    roles: dict[str, GroupRole]
    tensors: tuple[RankTensor, ...]
    environment: dict[str, str]
    arguments: tuple[str, ...] = ()
    own_numbers: tuple[int, ...] = ()


class RankGradient(msgspec.Struct, frozen=True, array_like=True):
    """The gradient of one parameter in one step.

    ``digest`` is the hash of the gradient that the optimizer used, ``local_digest`` of what this
    rank's backward passes computed, before any exchange. ``used``, ``local`` and ``last`` are
    projections: products with fixed vectors of +1 and -1, the same on all ranks. They are linear,
    so the projection of a mean is the mean of the projections. ``last``: of the last backward
    pass alone. ``reductions``: how many reducing collectives it was in; None: unknown. ``left``: as
    the last backward pass has left the gradient, where the program has changed it since then.
    ``is_shard``: ``used`` and ``left`` are of the shard that this rank has, ``local`` and ``last``
    of the whole parameter: the sum of ``used`` over the shards is that of the whole.
    """

    name: str
    digest: int
    local_digest: int
    used: tuple[float, ...] = ()
    local: tuple[float, ...] = ()
    last: tuple[float, ...] = ()
    is_finite: bool = True
    is_local_finite: bool = True
    reductions: int | None = None
    left: tuple[float, ...] = ()
    is_shard: bool = False


class ClipReport(msgspec.Struct, frozen=True, array_like=True):
    """A call that clipped gradients: where, the norm that it used (NaN: it has none that is known),
    and the limit. In sampled steps also ``squares``, the sum of the squares of this rank's
    gradients by the group that shards them (empty name: none), and ``factor``, by which the call
    has multiplied them; a factor of 0: these are not known."""

    source: str
    norm: float
    limit: float
    squares: dict[str, float] = {}
    factor: float = 0.0


class RankOp(msgspec.Struct, frozen=True, array_like=True):
    """An op that the gradients of a step go through, as the graph of the loss has it; ``parameter``
    that it uses, if any. From a dump: an op of the backward pass, with its line."""

    op: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    parameter: str = ""
    source: str = ""


class RankActivation(msgspec.Struct, frozen=True, array_like=True):
    """The output of a module in one step: hashes of its values and of its gradient, 0 for unknown.
    ``is_declared``: the program says that all ranks of ``group`` have the same. Of dropout also the
    hashes of its input and of the random state before it, and its line where it is a function."""

    name: str
    digest: int
    gradient: int = 0
    group: str = ""
    is_declared: bool = False
    input_digest: int = 0
    random_digest: int = 0
    source: str = ""


class OutputStatistic(msgspec.Struct, frozen=True, array_like=True):
    """The output of a module in a sampled step: its root mean square and its largest magnitude,
    NaN if it has a NaN."""

    name: str
    root_mean_square: float
    largest: float


class MicroBatch(msgspec.Struct, frozen=True, array_like=True):
    """A backward pass of a sampled step: its line, over how many targets its loss is a mean (None:
    unknown), and what the program divides the loss by."""

    source: str
    targets: int | None
    divisor: float


class LoadedSamples(msgspec.Struct, frozen=True, array_like=True):
    """Hashes of the samples of a batch, and the epoch of the DataLoader that gave them."""

    epoch: int
    hashes: tuple[int, ...]


class GradientBucket(msgspec.Struct, frozen=True, array_like=True):
    """What a collective of DistributedDataParallel exchanges: the number of the bucket, the names
    of its first parameters, and how many it has."""

    number: int
    names: tuple[str, ...]
    size: int


class OriginOnRank(msgspec.Struct, frozen=True, array_like=True):
    """Where NaN or Inf of a step come from on one rank, as executing the step again has shown. An
    empty ``op``: what this rank computed is finite, so that the exchange brought them: the
    collective ``sequence`` of ``group`` (-1: unknown), called ``collective``, with ``bucket``.
    ``order``: of the test that has found them, where calls of modules were screened; -1: not so.
    ``is_backward``: such a test was one of a backward pass."""

    op: str = ""
    source: str = ""
    group: str = ""
    sequence: int = -1
    collective: str = ""
    order: int = -1
    is_backward: bool = False
    bucket: GradientBucket | None = None


class ReportedLoss(msgspec.Struct, frozen=True, array_like=True):
    """A loss that the program reduced over ranks: the mean that it has got, the line, and what this
    rank gave: its loss, and of how many targets that is the mean (None: unknown)."""

    value: float
    source: str
    loss: float
    tokens: int | None


class StepReport(msgspec.Struct, frozen=True, array_like=True, tag="step"):
    """One step of one rank.

    ``digests``: hashes of the tensors of the description after the step, in their order, 0 for one
    without values; empty in a step that is not sampled. ``constants``: the indexes of tensors whose
    elements are all the same. ``gradients``: in sampled steps only. ``decisions``: what must be
    the same on all ranks, by name (learning rate, loss scale, whether the step was skipped).
    ``tokens``: how many targets the loss is the mean of. ``is_loss_scaled``: the program divides
    the loss before backward. ``source``: the line of the optimizer's step. ``ops`` and
    ``activations``: of sampled steps, in their order; activations only in tensor parallelism.
    ``origin``: in a step with NaN or Inf. ``reported``: the loss that the program reduced.
    ``ops_step``: the step of the ops, where it is another one (in dumps); -1: the same. ``entry``:
    the first input that a sharded module has got; it is declared if the ranks replicate it.

    ``unfinished``: the lines of asynchronous reductions that still run when the optimizer begins.
    ``outputs``: of the modules in a sampled step, in their order, where there are enough ranks.
    ``micro_batches``: the backward passes of a sampled step; ``samples``: of its first batch, where
    a DataLoader has given it.

    ``step`` is -1 for the state before the first step, ``first`` the number of the first step of
    this run: ranks are compared by how many steps they have made since then.
    """

    rank: int
    step: int
    digests: tuple[int, ...] = ()
    constants: tuple[int, ...] = ()
    gradients: tuple[RankGradient, ...] = ()
    without_gradient: tuple[str, ...] = ()
    decisions: dict[str, str] = {}
    clips: tuple[ClipReport, ...] = ()
    loss: float | None = None
    loss_source: str = ""
    tokens: int | None = None
    grad_norm: float | None = None
    backward_passes: int = 0
    batch_digest: int = 0
    is_loss_scaled: bool = False
    source: str = ""
    ops: tuple[RankOp, ...] = ()
    activations: tuple[RankActivation, ...] = ()
    origin: OriginOnRank | None = None
    reported: ReportedLoss | None = None
    ops_step: int = -1
    entry: RankActivation | None = None
    first: int = 0
    unfinished: tuple[str, ...] = ()
    outputs: tuple[OutputStatistic, ...] = ()
    micro_batches: tuple[MicroBatch, ...] = ()
    samples: LoadedSamples | None = None


class SpotDigests(msgspec.Struct, frozen=True, array_like=True):
    """Hashes of a few elements of each replicated parameter after a step: 8 bytes each, the lowest
    first, in the order of the description; 0 for a parameter without values."""

    step: int
    digests: bytes


class SpotReport(msgspec.Struct, frozen=True, array_like=True, tag="spots"):
    """The hashes of the steps of one rank since its last such report, in their order. Steps are
    counted from the first of this run."""

    rank: int
    steps: tuple[SpotDigests, ...]


class EpochReport(msgspec.Struct, frozen=True, array_like=True, tag="epoch"):
    """A sampler that begins to choose samples. ``order``: the hash of the indexes it will give."""

    rank: int
    sampler: str
    epoch: int
    is_shuffled: bool
    order: int
    source: str = ""


class CollectiveReport(msgspec.Struct, frozen=True, array_like=True, tag="collective"):
    """One collective that a rank begins. ``sequence`` counts those of the group on this rank.
    ``peer``: the root; -1 for none. ``bucket``: of DistributedDataParallel."""

    rank: int
    group: str
    sequence: int
    kind: str
    dtype: str
    count: int
    reduce: str
    peer: int
    source: str
    step: int
    by: CollectiveSource = "calls"
    bucket: GradientBucket | None = None


class CollectiveResult(msgspec.Struct, frozen=True, array_like=True, tag="result"):
    """The result of a collective on one rank: hashes of its inputs and outputs, in their order; of
    an all_to_all those of the parts for and from each rank. Of a reduction of floating-point
    numbers also ``given`` and ``got``: projections as of a `RankGradient`, then the norm; of a
    reduce_scatter ``given`` has these of each part, and there are no ``inputs``; of a reduce only
    the root has ``got``."""

    rank: int
    group: str
    sequence: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    given: tuple[float, ...] = ()
    got: tuple[float, ...] = ()


class MessageReport(msgspec.Struct, frozen=True, array_like=True, tag="message"):
    """What one rank sends to another, reported by either. ``sequence`` counts the messages of the
    group from ``source`` to ``target`` with this ``tag``; ``digest`` is the hash of what was sent
    or received, ``line`` that of the call."""

    rank: int
    group: str
    source: int
    target: int
    tag: int
    sequence: int
    digest: int
    line: str
    step: int

    def with_digest(self, digest: int) -> MessageReport:
        return msgspec.structs.replace(self, digest=digest)


class NonFiniteReport(msgspec.Struct, frozen=True, array_like=True, tag="nonfinite"):
    """NaN or Inf that a rank found first in a step: the op that made it and its line. ``group`` and
    ``sequence`` (-1: unknown) of the collective that brought it; an empty group: it was made
    here."""

    rank: int
    step: int
    op: str
    source: str
    group: str = ""
    sequence: int = -1


class LoopReport(msgspec.Struct, frozen=True, array_like=True, tag="loop"):
    """The end of a rank's training: the line of its last step, that of the innermost loop around
    it, and the first lines that leave that loop or one around it, if there are any."""

    rank: int
    step_line: str
    loop: str
    exits: tuple[str, ...] = ()


class StackReport(msgspec.Struct, frozen=True, array_like=True, tag="stack"):
    """Where a rank stands: the user's innermost line, and the Python stack of its main thread."""

    rank: int
    source: str
    stack: tuple[str, ...]


RankReport = (
    RankDescription
    | StepReport
    | SpotReport
    | EpochReport
    | CollectiveReport
    | CollectiveResult
    | MessageReport
    | NonFiniteReport
    | StackReport
    | LoopReport
)
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(tuple[RankReport, ...])


def encode(reports: tuple[RankReport, ...]) -> bytes:
    return _encoder.encode(reports)


def decode(data: bytes) -> tuple[RankReport, ...]:
    """The reports in ``data``; ReportError if it is something else."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ReportError(
            f"a report of a rank cannot be read: {error}", slug="rank-report"
        ) from None
