"""Ops over rows: softmax, variance, norms, normalisation, attention and losses."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sonde.watch.explanations.cause import Cause, compare_places, number
from sonde.watch.explanations.op_facts import Mask, OpFacts, TensorFacts, is_kind
from sonde.watch.explanations.value_range import explain_range

_MASK_ADVICE: Final = (
    "Let each row keep at least one place: a mask that hides a whole row (padding only) gives NaN."
)


def explain_softmax(op: OpFacts) -> Cause | None:
    """A row that is -Inf everywhere, or has +Inf."""
    source, output = op.input(0), op.output
    if source is None or output is None or source.array is None or output.array is None:
        return None
    axes = op.dimensions(source.array.ndim)
    if axes is None or source.array.shape != output.array.shape:
        return None
    axis = axes[0] if len(axes) == 1 else -1
    rows = np.asarray(is_kind(output.array, "nan").any(axis=axis))
    hidden = (source.array == -np.inf).all(axis=axis)
    found = _rows_cause(hidden, rows, "hidden_row", "-Inf everywhere", _MASK_ADVICE)
    if found is not None:
        return found
    above = (source.array == np.inf).any(axis=axis)
    return _rows_cause(above, rows, "inf_in_row", "Inf somewhere", "")


def _rows_cause(cause: Mask, bad: Mask, detail: str, words: str, advice: str) -> Cause | None:
    places = compare_places(np.atleast_1d(cause), np.atleast_1d(bad), "nan")
    if places is None:
        return None
    count, total = int(cause.sum()), int(np.size(cause))
    has = "has" if count == 1 else "have"
    verb = (
        f"{has} {words}" if detail == "inf_in_row" else f"{'is' if count == 1 else 'are'} {words}"
    )
    first = int(np.flatnonzero(np.atleast_1d(cause).reshape(-1))[0])
    which = f" (row {first})" if count == 1 and total > 1 else ""
    return Cause(
        detail,
        f"{count} of its {total} rows {verb}{which}{places.text}",
        {"rows": total, "rows_at_fault": count, "first_row": first},
        places.status,
        advice,
    )


def explain_attention(op: OpFacts) -> Cause | None:
    """A mask that hides a whole row."""
    output = op.output
    masks = [each for each in op.inputs[3:] if each.array is not None and each.array.ndim >= 2]
    if output is None or not masks or masks[0].array is None or not output.count("nan"):
        return None
    mask = masks[0].array
    hidden = ~mask if mask.dtype == np.bool_ else mask == -np.inf
    count, rows = int(hidden.all(axis=-1).sum()), int(np.prod(mask.shape[:-1]))
    if not count:
        return None
    return Cause(
        "hidden_row",
        f"its mask hides {count} of {rows} rows completely",
        {"rows": rows, "rows_at_fault": count},
        "supported",
        _MASK_ADVICE,
    )


def explain_variance(op: OpFacts) -> Cause | None:
    """``var``, ``std``: fewer elements than the correction needs."""
    source, output = op.input(0), op.output
    axes = None if source is None else op.dimensions(len(source.shape))
    if source is None or output is None or axes is None or not output.count("nan"):
        return None
    if source.count("non-finite"):
        return None
    count = int(np.prod([source.shape[axis] for axis in axes], dtype=np.int64))
    correction = op.scalar("correction")
    needed = 1.0 if correction is None else correction
    if count - needed > 0:
        return None
    elements = "1 element" if count == 1 else f"{count} elements"
    return Cause(
        "too_few_elements",
        f"it is computed from {elements}, divided by {count} - {number(needed)} = "
        f"{number(count - needed)}",
        {"elements": count, "correction": needed},
        advice="Give it more elements (a larger batch), or correction=0.",
    )


def explain_mean(op: OpFacts) -> Cause | None:
    """``mean`` of nothing; else a sum out of range."""
    source, output = op.input(0), op.output
    if source is not None and output is not None and source.size == 0 and output.count("nan"):
        return Cause(
            "no_elements",
            "its input has no elements",
            {"elements": 0},
            advice="Look why nothing is selected: an empty batch, a mask that is False everywhere.",
        )
    return explain_range(op)


def explain_normalisation(op: OpFacts) -> Cause | None:
    """Layer, group and batch norm: a variance of 0 without eps; else values out of range."""
    source, eps = op.input(0), op.scalar("eps")
    values = None if source is None else source.array
    if source is None or values is None or eps is None or not np.isfinite(values).all():
        return explain_range(op)
    groups = _normalised_groups(op, source)
    if groups is None:
        return explain_range(op)
    constant = int((groups.max(axis=1) == groups.min(axis=1)).sum()) if groups.size else 0
    if eps == 0 and constant:
        return Cause(
            "zero_variance",
            f"{constant} of its {groups.shape[0]} rows {'has' if constant == 1 else 'have'} "
            "variance 0, and eps is 0",
            {"rows": groups.shape[0], "rows_constant": constant, "eps": eps},
            advice="Set eps above 0 (1e-5).",
        )
    return explain_range(op)


def _normalised_groups(op: OpFacts, source: TensorFacts) -> np.ndarray | None:
    """The values, one row for each variance."""
    values = source.array
    if values is None or not values.size:
        return None
    if op.kind in ("native_layer_norm", "layer_norm"):
        text = op.attributes.get("normalized_shape", "").strip("[]() ")
        sizes = [int(each) for each in text.split(",") if each.strip().isdecimal()]
        return values.reshape(-1, math.prod(sizes)) if sizes else None
    if op.kind in ("native_group_norm", "group_norm"):
        group = op.scalar("group")
        return None if not group else values.reshape(values.shape[0] * int(group), -1)
    return np.moveaxis(values, 1, 0).reshape(values.shape[1], -1) if values.ndim > 1 else None


def explain_nll_loss(op: OpFacts) -> Cause | None:
    """Cross entropy: no target counts, or the probability of a target is 0."""
    scores, target = op.input(0), op.input(1)
    if op.kind.endswith("backward"):
        scores, target = op.input(1), op.input(2)
    if scores is None or target is None or target.array is None or op.output is None:
        return None
    ignored = op.scalar("ignore_index")
    targets = target.array
    valid = targets != (-100 if ignored is None else ignored)
    if op.output.count("nan") and not valid.any():
        index = -100 if ignored is None else int(ignored)
        return Cause(
            "no_valid_target",
            f"all {targets.size} targets are {index}, which ignore_index leaves out: the mean is "
            "0 / 0",
            {"targets": int(targets.size), "ignore_index": index},
            advice="Skip batches without a valid target, or use reduction='sum' and divide.",
        )
    return _impossible_target(scores, targets, valid)


def _impossible_target(scores: TensorFacts, targets: np.ndarray, valid: np.ndarray) -> Cause | None:
    values = scores.array
    if values is None or values.ndim != targets.ndim + 1:
        return None
    # Classes are dimension 1, after which images have height and width.
    by_target = np.moveaxis(values, 1, -1) if values.ndim > 1 else values
    if by_target.shape[:-1] != targets.shape:
        return None
    by_target, chosen_classes = by_target.reshape(-1, by_target.shape[-1]), targets.reshape(-1)
    rows = np.flatnonzero(valid.reshape(-1))
    chosen = by_target[rows, chosen_classes[rows].astype(np.int64)]
    count = int((chosen == -np.inf).sum())
    if not count:
        return None
    return Cause(
        "impossible_target",
        f"the log-probability of {count} of {rows.size} targets is -Inf",
        {"targets": int(rows.size), "targets_impossible": count},
        "supported",
    )
