"""The recommended watchpoints, for users who have not set their own."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, tanh

from sonde.watch.conditions.contract import Target


@dataclass(frozen=True, slots=True)
class Recommended:
    """A recommended watchpoint.

    ``functions``: the activation functions that it applies to, by the name of the op or module, in
    lower case and without underscores; empty for all tensors of the target. ``names``: a regular
    expression of the whole names that it applies to; elsewhere the condition is normal.
    """

    name: str
    condition: str
    parameters: tuple[tuple[str, float], ...]
    target: Target
    functions: tuple[str, ...] = ()
    names: str = ""


def _sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def _range(
    name: str, functions: tuple[str, ...], start: float, end: float, check: str, limit: float
) -> Recommended:
    parameters = (
        ("range_start_inclusive", start),
        ("range_end_inclusive", end),
        (check, limit),
        *LASTING,
    )
    return Recommended(name, "activation_range", parameters, "activation", functions)


# Beyond these arguments the functions are constant in float32: their gradient is zero.
_TANH_EDGE, _SIGMOID_EDGE = tanh(8.8), _sigmoid(16.2)

# Biases usually start as zeros, so their first update is large compared with their size. A bias
# before a normalisation has no effect: its gradient is only rounding error.
_NOT_BIASES = r"(?!(.*[./_])?(bias|beta)[^./]*(\.grad)?$).*"

# Ops whose output has only elements of their inputs.
_PASSING_ON = (
    "alias",
    "as_strided",
    "cat",
    "clone",
    "contiguous",
    "copy_?",
    "detach_?",
    "expand",
    "flip",
    "gather",
    "index",
    "index_select",
    "lift_fresh",
    "masked_select",
    "narrow",
    "permute",
    "repeat",
    "reshape",
    "_reshape_alias",
    "roll",
    "select",
    "slice",
    "split(_with_sizes)?",
    "squeeze",
    "stack",
    "t",
    "_to_copy",
    "transpose",
    "unbind",
    "unfold",
    "unsqueeze",
    "(_unsafe_)?view",
)

# Ops that test or count: zero is often the expected result.
_TESTING = (
    "_amp_\\w+",
    "all",
    "any",
    "arg(max|min|sort)",
    "bitwise_\\w+",
    "(eq|ne|lt|le|gt|ge)_?",
    "is(finite|inf|nan|neginf|posinf)",
    "logical_\\w+",
)

# Beside their output they have statistics, which are zeros in eval mode.
_NORMALISING = ("_?(native_|cudnn_)?batch_norm\\w*",)

# Their first state is zero, and so are products with it, in the backward pass, too.
_RECURRENT = r"(?!.*-(LSTM|GRU|RNN)(Cell)?/)"

# A healthy training meets these conditions for a moment: a residual branch that starts as zeros, a
# batch without a class, a unit that rests.
LASTING = (("steps_in_a_row", 5.0),)
# What vanishes later has usually converged.
FROM_START = (*LASTING, ("from_start", 1.0))

RECOMMENDED = (
    Recommended(
        # The last layer of a residual branch starts as zeros and leaves them at once.
        "weights stay zeros",
        "weight_too_small",
        (("abs_mean_lt", 1e-40), *LASTING),
        "weight",
        names=_NOT_BIASES,
    ),
    Recommended(
        "weights move too far",
        "weight_change_too_large",
        (("abs_mean_update_ratio_gt", 1.0), *LASTING),
        "weight",
        names=_NOT_BIASES,
    ),
    Recommended(
        "weights do not move",
        "weight_not_changed",
        # Not by a bit: a rate that decays makes small steps.
        (("rtol", 0.0), ("atol", 0.0), *LASTING),
        "weight",
        names=_NOT_BIASES,
    ),
    Recommended(
        "gradients vanish",
        "gradient_vanishing",
        (("abs_mean_lt", 1e-9), *FROM_START),
        "gradient",
        names=_NOT_BIASES,
    ),
    Recommended("gradients are not finite", "gradient_exploding", (), "gradient"),
    Recommended("weights are not finite", "weight_overflow", (), "weight"),
    Recommended("tensors are not finite", "tensor_overflow", (), "tensor"),
    Recommended(
        "tensors of zeros",
        "tensor_all_zero",
        (("floats_only", 1.0), ("steps_in_a_row", 10.0), ("from_start", 1.0)),
        "tensor",
        # Counters and inputs may be zero, an optimizer's state starts as zeros, some ops create
        # zeros, others pass them on.
        names=(
            rf"(?!.*/optimizer-){_RECURRENT}"
            r"(?!(.*/)?((new_)?(zeros|full|empty)(_like)?|scalar_tensor|zero_|fill_|_foreach_zero_)"
            rf"-op[^/]*$)(?!(.*/)?({'|'.join((*_PASSING_ON, *_TESTING, *_NORMALISING))})-op[^/]*$)"
            r"(.*/)?[^/]+-op\d+"
        ),
    ),
    _range("tanh is saturated", ("tanh",), -_TANH_EDGE, _TANH_EDGE, "range_percentage_lt", 0.1),
    _range(
        "sigmoid is saturated",
        ("sigmoid",),
        _sigmoid(-16.2),
        _SIGMOID_EDGE,
        "range_percentage_lt",
        0.1,
    ),
    _range("relu is dead", ("relu", "relu6"), -1.0, 0.0, "range_percentage_gt", 99.9),
)
