"""Which explanation belongs to which op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sonde.core.finding import Finding
from sonde.watch.explanations.arithmetic import (
    explain_matrix_product,
    explain_quotient,
    explain_sum_or_product,
)
from sonde.watch.explanations.cause import Cause
from sonde.watch.explanations.ctc_loss import explain_ctc_loss
from sonde.watch.explanations.derivatives import explain_derivative
from sonde.watch.explanations.elementwise import (
    POINT_RULES,
    explain_exponential_result,
    explain_points,
)
from sonde.watch.explanations.op_facts import OpFacts
from sonde.watch.explanations.reductions import (
    explain_attention,
    explain_mean,
    explain_nll_loss,
    explain_normalisation,
    explain_softmax,
    explain_variance,
)
from sonde.watch.explanations.value_range import explain_cast, explain_range

Explainer = Callable[[OpFacts], Cause | None]


def _explain_point(op: OpFacts) -> Cause | None:
    if op.kind == "exp" and not op.inputs:
        return explain_exponential_result(op)
    return explain_points(op, POINT_RULES[op.kind])


def _alike(explainer: Explainer, names: str) -> dict[str, Explainer]:
    return dict.fromkeys(names.split(), explainer)


_TABLE: Final[dict[str, Explainer]] = {
    **_alike(_explain_point, " ".join(POINT_RULES)),
    **_alike(explain_sum_or_product, "add sub rsub mul"),
    **_alike(explain_quotient, "div true_divide floor_divide addcdiv"),
    **_alike(
        explain_matrix_product,
        "mm bmm matmul addmm baddbmm addbmm linear mv addmv dot convolution _convolution conv",
    ),
    **_alike(explain_softmax, "_softmax softmax _log_softmax log_softmax _safe_softmax logsumexp"),
    **_alike(
        explain_attention,
        "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_attention_math attention",
    ),
    **_alike(explain_variance, "var std var_mean std_mean"),
    **_alike(
        explain_mean,
        "mean nanmean mse_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy",
    ),
    **_alike(
        explain_normalisation,
        "native_layer_norm layer_norm native_group_norm group_norm native_batch_norm batch_norm "
        "_native_batch_norm_legit _batch_norm_with_update _native_batch_norm_legit_no_training",
    ),
    **_alike(
        explain_nll_loss,
        "nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward cross_entropy",
    ),
    **_alike(explain_ctc_loss, "_ctc_loss ctc_loss _cudnn_ctc_loss"),
    **_alike(explain_cast, "_to_copy to copy cast"),
    **_alike(
        explain_range,
        "sum cumsum prod cumprod square linalg_vector_norm norm cosh sinh addcmul lerp "
        "embedding_dense_backward convolution_backward native_layer_norm_backward gelu silu "
        "softplus exp2 dist cdist",
    ),
}
EXPLAINED_OPS: Final = frozenset(_TABLE)
"""The names of the operators in the table."""


def explain(op: OpFacts) -> Finding | None:
    """Why the op made NaN or Inf, as far as the values show it; None if they do not."""
    op = op.of_one_tensor()
    if op.output is None:
        return None
    explainer = _TABLE.get(op.kind)
    cause = explain_derivative(op) or (None if explainer is None else explainer(op))
    return None if cause is None else cause.finding()
