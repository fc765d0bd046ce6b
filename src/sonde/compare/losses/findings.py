"""The findings of a comparison of losses, and the sentences that explain them."""

from __future__ import annotations

import math
from typing import Final

from sonde.compare.losses.compare import LossComparison, Verdict
from sonde.core.finding import EvidenceStatus, Finding

_ADVICE: Final[dict[Verdict, str]] = {
    "first-step": "The first step already differs: the forward pass does not compute the same. "
    "Check that weights (sonde params A B), input data and their order, and hyper-parameters are "
    "the same; then let sonde compare name the first layer that differs.",
    "second-step": "The first step agrees, so weights, data and forward pass do. The second "
    "differs: look at the gradients of the first step and at the update: optimizer, learning rate, "
    "momentum, decay, clipping, loss scale (sonde compare on step 0; sonde ckpt diff on the "
    "weights after it).",
    "jump": "The curves agree up to step {step} and part there at once: look at what happens in "
    "that step. Another batch (shuffling, the end of an epoch), a change of the learning rate, a "
    "step skipped by loss scaling, or a branch that only some data take.",
    "drift": "The error grows bit by bit and passes the tolerance in step {step}. Rounding adds up "
    "like that; a small fault in gradients or update (an epsilon, a decay) does too. Run the same "
    "script twice (sonde repeat): if that differs as much, randomness is left (sonde run "
    "--deterministic), and the rest is rounding.",
    "aligned": "Differences of about one thousandth are usual, and grow with the steps.",
}
_STATUS: Final[dict[Verdict, EvidenceStatus]] = {"jump": "supported", "drift": "hypothesis"}
"""A difference in the first steps is established; rounding alone may cause a drift."""


def divergence(found: LossComparison) -> Finding | None:
    """The first step out of tolerance; None if there is none."""
    place = found.first_out
    if place is None:
        return None
    return Finding(
        found.verdict,
        "error",
        headline(found),
        status=_STATUS.get(found.verdict, "established"),
        evidence={
            "step": found.steps[place],
            "a": float(found.values_a[place]),
            "b": float(found.values_b[place]),
            "relative_error": float(found.errors[place]),
        },
        advice=_ADVICE[found.verdict].format(step=found.steps[place]),
    )


def non_finite(found: LossComparison) -> Finding | None:
    """The first steps whose losses are NaN or infinite; None if all losses are finite."""
    steps = {"a": found.first_bad_a, "b": found.first_bad_b}
    names = [f"{side} from step {step} on" for side, step in steps.items() if step is not None]
    if not names:
        return None
    return Finding(
        "non-finite",
        "error",
        f"The loss is NaN or infinite in {' and '.join(names)}",
        status="established",
        evidence=dict(steps),
        advice="sonde run --overflow names the op that made the first such value. With loss "
        "scaling, try a smaller scale; look at the data of that step.",
    )


def headline(found: LossComparison) -> str:
    """The result in one line."""
    count = len(found.steps)
    if found.verdict == "equal":
        return f"equal in all {count} steps"
    largest = _percent(float(found.errors.max()))
    if found.first_out is None:
        return f"within tolerance in all {count} steps; largest relative error {largest}"
    place = found.first_out
    a, b = found.values_a[place], found.values_b[place]
    return (
        f"out of tolerance from step {found.steps[place]} on: {a:.7g} against {b:.7g}, relative "
        f"error {_percent(float(found.errors[place]))} (allowed {_percent(found.rtol)})"
    )


def reasoning(found: LossComparison) -> tuple[str, ...]:
    """What the result says about the cause and what to do next, the most important first."""
    bad, first = non_finite(found), divergence(found)
    lines = [] if bad is None else [f"{bad.message}: {bad.advice}"]
    if first is not None:
        lines.append(first.advice)
    elif found.verdict == "aligned":
        lines.append(_ADVICE["aligned"])
    return (*lines, *_missing_steps(found), *_drift(found))


def _missing_steps(found: LossComparison) -> list[str]:
    """A remark if the verdict is about the first steps, but the curves begin later."""
    if found.verdict not in ("first-step", "second-step"):
        return []
    steps = found.steps[:2]
    from_start = steps[0] <= 1
    if from_start and (found.verdict == "first-step" or steps[1] - steps[0] == 1):
        return []
    shown = " and ".join(map(str, steps if found.verdict == "second-step" else steps[:1]))
    return [
        f"But these are steps {shown}, not the very first: compare every step from the beginning "
        "to tell the forward pass from the update."
    ]


def _drift(found: LossComparison) -> list[str]:
    drift = found.drift
    if found.verdict == "equal" or not math.isfinite(drift.early):
        return []
    text = (
        f"Mean relative error of the first third {_percent(drift.early)}, of the last third "
        f"{_percent(drift.late)}"
    )
    if math.isfinite(drift.per_100_steps):
        text += f", {drift.per_100_steps:+.2g} per 100 steps"
    mean = float(found.errors[found.errors < math.inf].mean())
    if mean > 0 and abs(drift.bias) > 0.9 * mean:
        text += f"; b is {'above' if drift.bias > 0 else 'below'} a nearly all the time"
    return [text + "."]


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %" if math.isfinite(value) else "infinite"
