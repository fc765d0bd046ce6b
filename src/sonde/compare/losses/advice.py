"""What a comparison of losses says about the cause, in sentences."""

from __future__ import annotations

import math

from sonde.compare.losses.compare import LossComparison


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
    """What to think and what to do next, the most telling first."""
    lines: list[str] = list(_not_finite(found))
    step = found.steps[found.first_out] if found.first_out is not None else None
    if found.verdict == "first-step":
        lines.append(
            "The first step already differs: the forward pass does not compute the same. Check "
            "that weights (sonde params A B), input data and their order, and hyper-parameters are "
            "the same; then let sonde compare name the first layer that differs."
        )
    elif found.verdict == "second-step":
        lines.append(
            "The first step agrees, so weights, data and forward pass do. The second differs: look "
            "at the gradients of the first step and at the update: optimizer, learning rate, "
            "momentum, decay, clipping, loss scale (sonde compare on step 0; sonde ckpt diff "
            "on the weights after it)."
        )
    elif found.verdict == "jump":
        lines.append(
            f"The curves agree up to step {step} and part there at once: look at what happens in "
            "that step. Another batch (shuffling, the end of an epoch), a change of the learning "
            "rate, a step skipped by loss scaling, or a branch that only some data take."
        )
    elif found.verdict == "drift":
        lines.append(
            f"The error grows bit by bit and passes the tolerance in step {step}. Rounding adds up "
            "like that; a small fault in gradients or update (an epsilon, a decay) does too. Run "
            "the same script twice (sonde repeat): if that differs as much, randomness is left "
            "(sonde run --deterministic), and the rest is rounding."
        )
    elif found.verdict == "aligned":
        lines.append("Differences of about one thousandth are usual, and grow with the steps.")
    lines += _gap(found)
    lines += _drift(found)
    return tuple(lines)


def _gap(found: LossComparison) -> list[str]:
    """A verdict on the first steps needs the first steps."""
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


def _not_finite(found: LossComparison) -> list[str]:
    bad_a, bad_b = found.first_bad_a, found.first_bad_b
    if bad_a is None and bad_b is None:
        return []
    told = " and ".join(
        f"{name} from step {step} on"
        for name, step in (("a", bad_a), ("b", bad_b))
        if step is not None
    )
    return [
        f"The loss is NaN or infinite in {told}: sonde run --overflow names the op that made the "
        "first such value. With loss scaling, try a smaller scale; look at the data of that step."
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
    if not math.isfinite(value):
        return "infinite"
    return f"{100 * value:.3g} %"
