"""Why a CTC loss is infinite: a target that does not fit into its input."""

from __future__ import annotations

import numpy as np

from sonde.watch.explanations.cause import Cause, verb
from sonde.watch.explanations.op_facts import OpFacts


def explain_ctc_loss(op: OpFacts) -> Cause | None:
    """Targets that need more time steps than their inputs have: one for each label, and one between
    two equal labels. Repetitions are counted where the targets are a matrix."""
    if op.output is None or not op.output.count("inf"):
        return None
    given, wanted = _lengths(op, "input_lengths", 2), _lengths(op, "target_lengths", 3)
    if given is None or wanted is None or given.size != wanted.size:
        return None
    needed = wanted + _repetitions(op, wanted)
    count = int((needed > given).sum())
    if not count:
        return None
    worst = int(np.argmax(needed - given))
    return Cause(
        "target_too_long",
        f"{count} of {given.size} targets {verb(count)} too long: target {worst} needs "
        f"{int(needed[worst])} time steps, its input has {int(given[worst])}",
        {
            "targets": int(given.size),
            "targets_too_long": count,
            "needed": int(needed[worst]),
            "input_length": int(given[worst]),
        },
        advice="Leave such samples out, use zero_infinity=True, or reduce the time less.",
    )


def _lengths(op: OpFacts, name: str, slot: int) -> np.ndarray | None:
    """An argument that is a list of numbers, or a tensor."""
    listed = [each.strip() for each in op.attributes.get(name, "").strip("[]() ").split(",")]
    numbers = [int(each) for each in listed if each.isdecimal()]
    if numbers:
        return np.asarray(numbers, np.int64)
    tensor = op.input(slot)
    array = None if tensor is None else tensor.array
    return None if array is None or array.ndim != 1 or array.dtype.kind not in "iu" else array


def _repetitions(op: OpFacts, lengths: np.ndarray) -> np.ndarray:
    """For each target the number of labels that equal the one before."""
    target = op.input(1)
    labels = None if target is None else target.array
    if labels is None or labels.ndim != 2 or len(labels) != lengths.size or not labels.size:
        return np.zeros(lengths.size, np.int64)
    inside = np.arange(1, labels.shape[1])[None] < lengths[:, None]
    return np.asarray(((labels[:, 1:] == labels[:, :-1]) & inside).sum(1))
