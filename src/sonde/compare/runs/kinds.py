"""The kind and the behaviour of an op type, whatever its name in a framework.

Ops of the same *kind* may correspond to each other; the *behaviour* is how an op propagates the
errors of its inputs, which `compare.runs.tolerance` needs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

Behaviour = Literal[
    "identity",  # the same values, the same shape
    "movement",  # the same values, placed or typed differently
    "elementwise",
    "sum",  # a sum of its inputs, element by element
    "product",  # linear in each of two inputs: matrix products, convolutions
    "reduction",  # sums over elements of one input
    "normalisation",
    "exponential",  # an absolute error of the input is a relative one of the output
    "loss",
    "mask",  # passes or drops elements by a comparison, which rounding can flip
    "normalisation backward",
    "update",  # the optimizer's arithmetic
    "random",
    "uninitialised",
    "other",
]

_KINDS: Final[dict[Behaviour, dict[str, str]]] = {
    "identity": {
        "identity": "detach alias lift_fresh lift Load Depend UpdateState MakeTuple TupleGetItem "
        "Identity StopGradient stop_gradient",
    },
    "movement": {
        "reshape": "view reshape _unsafe_view flatten unflatten Reshape Flatten ExpandDims Squeeze "
        "squeeze unsqueeze view_as _reshape_alias",
        "transpose": "t transpose permute Transpose TransposeExt numpy_T movedim",
        "cast": "_to_copy to Cast type_as _autocast",
        "copy": "clone contiguous copy_ TensorMove",
        "expand": "expand BroadcastTo expand_as",
    },
    "elementwise": {
        "relu": "relu ReLU ReLU6 hardtanh relu6",
        "gelu": "gelu GeLU GeLUExt",
        "silu": "silu SiLU Swish",
        "sigmoid": "sigmoid Sigmoid",
        "tanh": "tanh Tanh",
        "max_pool": "max_pool2d_with_indices max_pool2d MaxPool MaxPoolWithArgmax "
        "MaxPoolWithArgmaxV2 max_pool1d max_pool3d_with_indices MaxPool3D",
        "mul": "mul Mul Muls",
        "div": "div RealDiv Div DivExt true_divide",
        "neg": "neg Neg",
        "sqrt": "sqrt Sqrt",
        "rsqrt": "rsqrt Rsqrt",
        "pow": "pow Pow Square square",
        "abs": "abs Abs",
        "masked_fill": "masked_fill MaskedFill",
        "where": "where Select",
        "embedding": "embedding Gather EmbeddingLookup Embedding index_select gather",
        "concat": "cat Concat concat stack Stack",
        "slice": "split slice select Slice StridedSlice Split unbind chunk split_with_sizes narrow",
        "gelu_backward": "gelu_backward GeLUGrad",
        "silu_backward": "silu_backward SiLUGrad",
        "sigmoid_backward": "sigmoid_backward SigmoidGrad",
        "tanh_backward": "tanh_backward TanhGrad",
    },
    "sum": {
        "add": "add Add AddExt TensorAdd BiasAdd AddN Adds",
        "sub": "sub Sub rsub SubExt",
    },
    "product": {
        "matmul": "mm addmm bmm baddbmm matmul linear MatMul MatMulExt BatchMatMul Dense "
        "MatMulV2 dot mv",
        "conv": "convolution conv2d conv1d conv3d _convolution mkldnn_convolution "
        "cudnn_convolution Conv2D Conv3D DepthwiseConv2dNative Convolution",
        "conv_grad_input": "Conv2DBackpropInput Conv3DBackpropInput",
        "conv_grad_filter": "Conv2DBackpropFilter Conv3DBackpropFilter",
        "conv_backward": "convolution_backward",
        "attention": "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_attention_math "
        "FlashAttentionScore",
        "lstm": "lstm LSTM _thnn_fused_lstm_cell gru GRU mkldnn_rnn_layer",
    },
    "reduction": {
        "sum": "sum ReduceSum SumExt BiasAddGrad",
        "mean": "mean ReduceMean MeanExt avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool2d "
        "AvgPool AdaptiveAvgPool2D AvgPool2D",
        "norm": "linalg_vector_norm norm LpNorm",
        "embedding_backward": "embedding_dense_backward EmbeddingDenseBackward UnsortedSegmentSum "
        "index_add scatter_add",
    },
    "normalisation": {
        "batch_norm": "native_batch_norm _native_batch_norm_legit batch_norm BatchNorm "
        "cudnn_batch_norm miopen_batch_norm _batch_norm_with_update BatchNormExt",
        "layer_norm": "native_layer_norm layer_norm LayerNorm LayerNormExt",
        "group_norm": "native_group_norm GroupNorm",
        "rms_norm": "rms_norm _fused_rms_norm RmsNorm",
    },
    "exponential": {
        "softmax": "_softmax softmax Softmax",
        "log_softmax": "_log_softmax log_softmax LogSoftmax",
        "exp": "exp Exp",
        "log": "log Log",
    },
    "loss": {
        "cross_entropy": "nll_loss_forward nll_loss2d_forward SparseSoftmaxCrossEntropyWithLogits "
        "SoftmaxCrossEntropyWithLogits NLLLoss",
        "mse_loss": "mse_loss MSELoss",
        "binary_cross_entropy": "binary_cross_entropy binary_cross_entropy_with_logits "
        "BCEWithLogitsLoss BinaryCrossEntropy",
        "smooth_l1_loss": "smooth_l1_loss SmoothL1Loss huber_loss",
    },
    "mask": {
        "relu_backward": "threshold_backward ReluGrad ReLUGrad hardtanh_backward ReLU6Grad",
        "max_pool_backward": "max_pool2d_with_indices_backward MaxPoolGrad "
        "MaxPoolGradWithArgmax MaxPoolGradWithArgmaxV2",
        "compare": "gt lt ge le eq ne Greater Less Equal sign argmax max min topk sort clamp",
    },
    "normalisation backward": {
        "batch_norm_backward": "native_batch_norm_backward BatchNormGrad cudnn_batch_norm_backward",
        "layer_norm_backward": "native_layer_norm_backward LayerNormGrad LayerNormGradExt",
        "group_norm_backward": "native_group_norm_backward GroupNormGrad",
        "softmax_backward": "_softmax_backward_data SoftmaxGrad _log_softmax_backward_data "
        "LogSoftmaxGrad nll_loss_backward nll_loss2d_backward",
        "attention_backward": "_scaled_dot_product_flash_attention_for_cpu_backward "
        "FlashAttentionScoreGrad",
    },
    "random": {
        "random": "rand randn bernoulli normal uniform native_dropout dropout Dropout "
        "randint randperm multinomial DropoutGenMask DropoutDoMask DropoutExt rand_like "
        "randn_like exponential_ uniform_ normal_ bernoulli_",
    },
    "uninitialised": {
        "empty": "empty empty_like new_empty empty_strided new_empty_strided",
    },
}

_TABLE: Final[dict[str, tuple[str, Behaviour]]] = {
    op_type: (kind, behaviour)
    for behaviour, kinds in _KINDS.items()
    for kind, types in kinds.items()
    for op_type in types.split()
}
_PLUMBING: Final = frozenset({"identity", "movement"})


@lru_cache(maxsize=4096)
def kind_of(op_type: str) -> str:
    """The kind of an op type; an unknown type is its own kind, without underscores and case."""
    found = _find(op_type)
    if found is not None:
        return found[0]
    return re.sub(r"grad$", "backward", op_type.strip("_").lower())


@lru_cache(maxsize=4096)
def behaviour_of(op_type: str) -> Behaviour:
    found = _find(op_type)
    return "other" if found is None else found[1]


def is_plumbing(op_type: str) -> bool:
    """Whether the op only passes values on: names, shapes and types change, numbers do not."""
    return behaviour_of(op_type) in _PLUMBING


def is_heavy(op_type: str) -> bool:
    """Whether the op is a matrix product or a convolution, which mixed precision is for."""
    return behaviour_of(op_type) == "product"


def _find(op_type: str) -> tuple[str, Behaviour] | None:
    return _TABLE.get(op_type) or _TABLE.get(op_type.rstrip("_"))
