"""What is known of the step that runs on this rank."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sonde.ranks.report import (
    ClipReport,
    LoadedSamples,
    MicroBatch,
    OriginOnRank,
    RankGradient,
    RankOp,
    ReportedLoss,
    StepReport,
)


@dataclass(slots=True)
class RunningStep:
    """Collected between two steps of the optimizer; a new one for each. ``divisor``: what the
    program divides the loss by. ``backward_ns``: when the first backward pass began. ``in_eval``:
    the trained network that ran last, with gradients, if that was in eval mode;
    ``modules_in_eval``: those inside it, if it was not. ``unfinished``: as of a `StepReport`."""

    gradients: dict[str, RankGradient] = field(default_factory=dict)
    without: list[str] = field(default_factory=list)
    clips: list[ClipReport] = field(default_factory=list)
    ops: tuple[RankOp, ...] = ()
    passes: int = 0
    batch: int = 0
    loss_source: str = ""
    source: str = ""
    divisor: float = 1.0
    tokens: int | None = None
    norm: float | None = None
    is_skipped: bool = False
    origin: OriginOnRank | None = None
    reported: ReportedLoss | None = None
    backward_ns: int = 0
    in_eval: str = ""
    modules_in_eval: str = ""
    unfinished: tuple[str, ...] = ()
    micro_batches: list[MicroBatch] = field(default_factory=list)
    samples: LoadedSamples | None = None

    def is_scaled(self, world_size: int) -> bool:
        """Whether the program weighs the loss of this rank: divides it by the number of ranks or a
        multiple of it, or by its share of the targets, which is no whole number."""
        parts = self.divisor / world_size
        is_multiple = math.isclose(parts, max(round(parts), 1), rel_tol=1e-6)
        is_share = not math.isclose(self.divisor, round(self.divisor), rel_tol=1e-6)
        return self.divisor > 1 and (is_multiple or is_share)

    def report(self, rank: int, step: int, world_size: int, loss: float | None) -> StepReport:
        """The step without hashes, activations and decisions."""
        return StepReport(
            rank,
            step,
            gradients=tuple(self.gradients.values()),
            without_gradient=tuple(self.without),
            clips=tuple(self.clips),
            loss=loss,
            loss_source=self.loss_source,
            tokens=self.tokens,
            grad_norm=self.norm,
            backward_passes=self.passes,
            batch_digest=self.batch,
            is_loss_scaled=self.is_scaled(world_size),
            source=self.source,
            ops=self.ops,
            origin=self.origin,
            reported=self.reported,
            unfinished=self.unfinished,
            micro_batches=tuple(self.micro_batches),
            samples=self.samples,
        )
