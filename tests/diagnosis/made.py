"""Evidence made by hand."""

from __future__ import annotations

from sonde.core.graph import Source
from sonde.diagnosis.evidence import OptimizerEvidence, TrainingEvidence

LINE = Source("/home/me/train.py", 7, "main", "loss.backward()")


def uncleared(steps: int, count: int) -> TrainingEvidence:
    """A training whose optimizer stepped ``count`` times with gradients of the step before."""
    seen = OptimizerEvidence("SGD", "SGD", backward=LINE, steps=steps, uncleared=count)
    return TrainingEvidence(steps=steps, losses=[1.0] * steps, optimizers=[seen])
