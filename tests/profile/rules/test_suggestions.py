"""Suggestions that are worth a trial, each made once."""

from collections.abc import Sequence

import torch
from tests.profile.made import MACHINE, event, graph, node, trace

from sonde.profile.analyse.timings import time_steps
from sonde.profile.places import Places
from sonde.profile.record.object_tracking import SeenOptimizer
from sonde.profile.rules.evidence import ProfileEvidence
from sonde.profile.rules.suggestions import worth_trying


def evidence(op: str, *, fused: bool) -> ProfileEvidence:
    """A step of 1 ms: 500 us in one op, 400 us in the optimizer."""
    events = [event(f"aten::{op}", 0, 500_000)]
    steps = [
        trace(
            events,
            end=1_000_000,
            backwards=[(510_000, 520_000)],
            optimizers=[(600_000, 1_000_000)],
        )
    ]
    made = graph([node(op, "op0", inputs=[("x", "float32", (64, 64))])])
    optimizer = SeenOptimizer(torch.optim.SGD, {"lr": 0.1, "fused": fused}, (), None)
    return ProfileEvidence(
        time_steps(steps, made), MACHINE, Places(lambda _: True), made, optimizers=[optimizer]
    )


def names(hints: Sequence[str]) -> list[str]:
    return [hint.partition(":")[0] for hint in hints]


def test_a_large_share_of_a_step_is_worth_a_trial() -> None:
    assert names(worth_trying(evidence("relu", fused=False), 1, ())) == ["compile", "fused"]
    assert names(worth_trying(evidence("mm", fused=False), 1, ())) == ["amp", "fused"]
    assert names(worth_trying(evidence("convolution", fused=True), 1, ())) == [
        "amp",
        "channels_last",
    ]


def test_an_optimizer_that_is_fused_or_was_measured_is_not_worth_a_trial() -> None:
    assert names(worth_trying(evidence("relu", fused=True), 1, ())) == ["compile"]
    measured = worth_trying(evidence("relu", fused=False), 1, {"unfused-optimizer"})
    assert names(measured) == ["compile"]
