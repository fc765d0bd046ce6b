"""The one table of the names of operators in PyTorch and MindSpore.

``core.operators.kinds`` reads it. An entry of ``KINDS`` has the names of the operators of a kind.
Names with capitals are MindSpore's, the others are types of ATen and functions of torch. The names
of one operator stand together; ``|`` divides operators.
"""

from __future__ import annotations

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

KINDS: Final[dict[Behaviour, dict[str, str]]] = {
    "identity": {
        "identity": "detach alias lift_fresh lift Load Depend UpdateState MakeTuple TupleGetItem "
        "Identity StopGradient stop_gradient",
    },
    "movement": {
        "reshape": "view reshape _unsafe_view flatten unflatten Reshape Flatten view_as "
        "_reshape_alias | unsqueeze ExpandDims | squeeze Squeeze",
        "transpose": "t transpose permute Transpose TransposeExt numpy_T movedim",
        "cast": "_to_copy to Cast type_as _autocast",
        "copy": "clone contiguous copy_ TensorMove Assign",
        "expand": "expand BroadcastTo expand_as",
    },
    "elementwise": {
        "relu": "relu ReLU | hardtanh relu6 ReLU6",
        "gelu": "gelu GeLU GeLUExt Gelu",
        "silu": "silu SiLU Swish",
        "sigmoid": "sigmoid Sigmoid",
        "tanh": "tanh Tanh",
        "max_pool": "max_pool2d_with_indices max_pool2d max_pool1d MaxPool MaxPoolWithArgmax "
        "MaxPoolWithArgmaxV2 | max_pool3d_with_indices MaxPool3D MaxPool3DWithArgmax",
        "mul": "mul multiply Mul Muls",
        "div": "div divide RealDiv Div DivExt true_divide",
        "neg": "neg negative Neg",
        "sqrt": "sqrt Sqrt",
        "rsqrt": "rsqrt Rsqrt",
        "pow": "pow Pow Square square",
        "abs": "abs absolute Abs",
        "masked_fill": "masked_fill MaskedFill",
        "where": "where Select",
        "embedding": "embedding EmbeddingLookup Embedding | Gather index_select | gather GatherD",
        "concat": "cat Concat concat concatenate | stack Stack",
        "slice": "slice Slice StridedSlice narrow | select | split Split SplitV chunk "
        "split_with_sizes | unbind Unstack",
        "gelu_backward": "gelu_backward GeLUGrad",
        "silu_backward": "silu_backward SiLUGrad",
        "sigmoid_backward": "sigmoid_backward SigmoidGrad",
        "tanh_backward": "tanh_backward TanhGrad",
    },
    "sum": {
        "add": "add Add AddExt TensorAdd AddN Adds AssignAdd InplaceAdd | BiasAdd",
        "sub": "sub subtract Sub rsub SubExt AssignSub InplaceSub",
    },
    "product": {
        "matmul": "mm addmm bmm baddbmm matmul linear MatMul MatMulExt BatchMatMul Dense "
        "MatMulV2 dot mv einsum Einsum inner bilinear",
        "conv": "convolution conv2d conv1d conv3d _convolution mkldnn_convolution "
        "cudnn_convolution Conv2D Conv3D DepthwiseConv2dNative Convolution conv_transpose1d "
        "conv_transpose2d conv_transpose3d Conv2DTranspose Conv3DTranspose",
        "conv_grad_input": "Conv2DBackpropInput Conv3DBackpropInput",
        "conv_grad_filter": "Conv2DBackpropFilter Conv3DBackpropFilter",
        "conv_backward": "convolution_backward",
        "attention": "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu "
        "_scaled_dot_product_flash_attention _scaled_dot_product_cudnn_attention "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_attention_math "
        "FlashAttentionScore PromptFlashAttention",
        "lstm": "lstm LSTM _thnn_fused_lstm_cell lstm_cell DynamicRNN mkldnn_rnn_layer | "
        "gru GRU gru_cell _thnn_fused_gru_cell DynamicGRUV2",
    },
    "reduction": {
        "sum": "sum ReduceSum SumExt | BiasAddGrad",
        "mean": "mean ReduceMean MeanExt | avg_pool2d avg_pool1d AvgPool AvgPool2D | "
        "adaptive_avg_pool2d _adaptive_avg_pool2d AdaptiveAvgPool2D | avg_pool3d AvgPool3D | "
        "_adaptive_avg_pool3d adaptive_avg_pool3d AdaptiveAvgPool3D",
        "norm": "linalg_vector_norm norm LpNorm",
        "embedding_backward": "embedding_dense_backward EmbeddingDenseBackward | "
        "UnsortedSegmentSum index_add IndexAdd | scatter_add ScatterAdd",
    },
    "normalisation": {
        "batch_norm": "native_batch_norm _native_batch_norm_legit batch_norm BatchNorm "
        "cudnn_batch_norm miopen_batch_norm _batch_norm_with_update BatchNormExt "
        "_native_batch_norm_legit_no_training instance_norm InstanceNorm",
        "layer_norm": "native_layer_norm layer_norm LayerNorm LayerNormExt",
        "group_norm": "native_group_norm group_norm GroupNorm",
        "rms_norm": "rms_norm _fused_rms_norm RmsNorm",
    },
    "exponential": {
        "softmax": "_softmax softmax Softmax",
        "log_softmax": "_log_softmax log_softmax LogSoftmax",
        "exp": "exp Exp",
        "log": "log Log",
    },
    "loss": {
        "cross_entropy": "nll_loss_forward nll_loss2d_forward nll_loss cross_entropy "
        "SparseSoftmaxCrossEntropyWithLogits SoftmaxCrossEntropyWithLogits NLLLoss",
        "mse_loss": "mse_loss MSELoss",
        "binary_cross_entropy": "binary_cross_entropy BinaryCrossEntropy | "
        "binary_cross_entropy_with_logits BCEWithLogitsLoss SigmoidCrossEntropyWithLogits",
        "smooth_l1_loss": "smooth_l1_loss SmoothL1Loss | huber_loss",
    },
    "mask": {
        "relu_backward": "threshold_backward ReluGrad ReLUGrad relu_backward | "
        "hardtanh_backward ReLU6Grad",
        "max_pool_backward": "max_pool2d_with_indices_backward MaxPoolGrad "
        "MaxPoolGradWithArgmax MaxPoolGradWithArgmaxV2 | max_pool3d_with_indices_backward "
        "MaxPool3DGrad",
        "compare": "gt greater Greater | lt less Less | ge greater_equal GreaterEqual | "
        "le less_equal LessEqual | eq Equal | ne not_equal NotEqual | sign Sign | "
        "argmax Argmax | max amax ReduceMax ArgMaxWithValue | min amin ReduceMin ArgMinWithValue | "
        "topk TopK | sort Sort | clamp clip ClipByValue",
    },
    "normalisation backward": {
        "batch_norm_backward": "native_batch_norm_backward batch_norm_backward BatchNormGrad "
        "cudnn_batch_norm_backward InstanceNormGrad",
        "layer_norm_backward": "native_layer_norm_backward LayerNormGrad LayerNormGradExt",
        "group_norm_backward": "native_group_norm_backward GroupNormGrad",
        "softmax_backward": "_softmax_backward_data SoftmaxGrad | _log_softmax_backward_data "
        "LogSoftmaxGrad | nll_loss_backward nll_loss2d_backward NLLLossGrad",
        "attention_backward": "_scaled_dot_product_flash_attention_for_cpu_backward "
        "_scaled_dot_product_flash_attention_backward FlashAttentionScoreGrad",
    },
    "random": {
        "random": "native_dropout dropout Dropout DropoutGenMask DropoutDoMask DropoutExt | "
        "rand rand_like uniform uniform_ UniformReal | "
        "randn randn_like normal normal_ StandardNormal | bernoulli bernoulli_ Bernoulli | "
        "randint UniformInt | randperm Randperm | multinomial Multinomial | exponential_",
    },
    "uninitialised": {
        "empty": "empty empty_like new_empty empty_strided new_empty_strided",
    },
    "other": {
        "leaky_relu": "leaky_relu LeakyReLU",
        "prelu": "_prelu_kernel prelu PReLU",
        "elu": "elu Elu EluExt selu SeLU celu CeLU",
        "hardswish": "hardswish HSwish",
        "hardsigmoid": "hardsigmoid HSigmoid",
        "hardshrink": "hardshrink HShrink",
        "softshrink": "softshrink SoftShrink",
        "floor_divide": "floor_divide FloorDiv",
        "remainder": "remainder FloorMod Mod | fmod TruncateMod",
        "reciprocal": "reciprocal Inv Reciprocal",
        "bitwise_not": "bitwise_not Invert",
        "all": "all ReduceAll | any ReduceAny | prod ReduceProd | std std_mean ReduceStd",
        "det": "_linalg_det MatrixDeterminant | _linalg_slogdet LogMatrixDeterminant",
        "linalg": "linalg_inv_ex MatrixInverse | _linalg_solve_ex MatrixSolve | "
        "linalg_cholesky_ex Cholesky | _linalg_svd Svd | linalg_qr Qr | linalg_eig Eig",
        "diagonal": "diagonal DiagPart",
        "flip": "flip ReverseV2",
        "repeat": "repeat Tile",
        "arange": "arange Range",
        "full": "fill full full_like Fill FillV2 Fills",
        "scatter": "scatter OneHot | scatter_reduce",
        "index": "index GatherNd | index_put ScatterNdUpdate",
        "shift": "bitwise_left_shift LeftShift | bitwise_right_shift RightShift",
        "pad": "constant_pad_nd Pad PadV3 | reflection_pad1d reflection_pad2d MirrorPad",
        "upsample": "upsample_bilinear2d ResizeBilinear ResizeBilinearV2 | upsample_nearest2d "
        "ResizeNearestNeighbor ResizeNearestNeighborV2 | upsample_nearest3d UpsampleNearest3D | "
        "upsample_trilinear3d UpsampleTrilinear3D | upsample_linear1d ResizeLinear1D",
        "grid_sampler": "grid_sampler_2d GridSampler2D | grid_sampler_3d GridSampler3D",
        "adaptive_max_pool": "adaptive_max_pool2d AdaptiveMaxPool2D | adaptive_max_pool3d "
        "AdaptiveMaxPool3D",
        "ctc_loss": "_ctc_loss CTCLoss CTCLossV2",
        "all_reduce": "allreduce_ all_reduce AllReduce",
        "all_gather": "allgather_ _allgather_base_ all_gather_into_tensor AllGather",
        "reduce_scatter": "reduce_scatter_ _reduce_scatter_base_ reduce_scatter_tensor "
        "ReduceScatter",
        "broadcast": "broadcast_ Broadcast",
        "all_to_all": "alltoall_ alltoall_base_ AlltoAll",
        "optimizer": "_fused_sgd_ SGD ApplyMomentum | _fused_adam_ Adam | _fused_adamw_ "
        "AdamWeightDecay | _fused_adagrad_ ApplyAdagrad ApplyAdagradV2",
    },
}
SAME_WORD: Final = (
    "ACos Asin Asinh Acosh Atan Atan2 Atanh Cos Cosh Sin Sinh Tan Erf Erfc Erfinv Expm1 Log1p "
    "Floor Ceil Round Trunc Frac Lerp Xlogy Hypot Heaviside Digamma Lgamma Logit Gcd Lcm NextAfter "
    "LogicalAnd LogicalOr LogicalNot LogicalXor BitwiseAnd BitwiseOr BitwiseXor Maximum Minimum "
    "IsNan IsInf IsFinite IsClose CumSum CumProd Cummax Cummin Cdist Cross Ger Renorm Trace Roll "
    "Addcdiv Addcmul IndexFill MaskedSelect NonZero SearchSorted Bucketize "
    "Bincount Histogram Unique UniqueConsecutive Argmin Diag Eye Ones Zeros OnesLike ZerosLike "
    "Tril Triu TrilIndices TriuIndices LinSpace LogSpace Meshgrid Im2Col Col2Im FillDiagonal "
    "Conj Real Imag Complex MatrixExp MatrixPower CholeskyInverse CholeskySolve Orgqr Mvlgamma "
    "Mish Softplus Poisson Cauchy BartlettWindow BlackmanWindow HammingWindow Rad2Deg"
)
"""MindSpore's names of operators whose type in ATen is the same word, but for case and ``_``."""
_TORCH_CLASSES_TEXT: Final = (
    "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss "
    "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d "
    "AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d BatchNorm3d Bilinear CELU "
    "CTCLoss ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d "
    "ConstantPad2d ConstantPad3d Container Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d "
    "ConvTranspose3d CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss CrossMapLRN2d "
    "DataParallel Dropout Dropout1d Dropout2d Dropout3d ELU Embedding EmbeddingBag "
    "FeatureAlphaDropout Flatten Fold FractionalMaxPool2d FractionalMaxPool3d GELU GLU GRU "
    "GRUCell GaussianNLLLoss GroupNorm Hardshrink Hardsigmoid Hardswish Hardtanh "
    "HingeEmbeddingLoss HuberLoss Identity InstanceNorm1d InstanceNorm2d InstanceNorm3d "
    "KLDivLoss L1Loss LPPool1d LPPool2d LPPool3d LSTM LSTMCell LayerNorm LazyBatchNorm1d "
    "LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d "
    "LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d "
    "LazyInstanceNorm3d LazyLinear LeakyReLU Linear LinearCrossEntropyLoss LocalResponseNorm "
    "LogSigmoid LogSoftmax MSELoss MarginRankingLoss MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d "
    "MaxUnpool2d MaxUnpool3d Mish Module ModuleDict ModuleList MultiLabelMarginLoss "
    "MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention NLLLoss NLLLoss2d PReLU "
    "PairwiseDistance ParameterDict ParameterList PixelShuffle PixelUnshuffle PoissonNLLLoss "
    "RMSNorm RNN RNNBase RNNCell RNNCellBase RReLU ReLU ReLU6 ReflectionPad1d ReflectionPad2d "
    "ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d SELU Sequential SiLU "
    "Sigmoid SmoothL1Loss SoftMarginLoss Softmax Softmax2d Softmin Softplus Softshrink Softsign "
    "SyncBatchNorm Tanh Tanhshrink Threshold Transformer TransformerDecoder "
    "TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss "
    "TripletMarginWithDistanceLoss Unflatten Unfold Upsample UpsamplingBilinear2d "
    "UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d"
)
TORCH_CLASSES: Final = frozenset(_TORCH_CLASSES_TEXT.split())
"""The module classes of ``torch.nn``."""
_COMPOSED_TEXT: Final = (
    "linear matmul einsum inner bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
    "conv_transpose3d reshape flatten unflatten view_as square true_divide divide multiply "
    "subtract negative absolute concat concatenate relu6 batch_norm instance_norm group_norm "
    "cross_entropy nll_loss scaled_dot_product_attention dropout max_pool1d contiguous type_as "
    "expand_as chunk movedim greater less greater_equal less_equal not_equal clip selu celu "
    "prelu normal"
)
COMPOSED: Final = frozenset(_COMPOSED_TEXT.split())
"""Functions of torch that ATen computes with ops of other names, those of the same operator."""
ALSO: Final = {
    "cross_entropy": "log_softmax",
    "SparseSoftmaxCrossEntropyWithLogits": "log_softmax",
    "SoftmaxCrossEntropyWithLogits": "log_softmax",
    "BiasAdd": "add",
    "BiasAddGrad": "sum",
}
"""Operators that torch computes, partly or wholly, with a more general one."""
GRADIENT_ENDS: Final = (
    *("Grad", "_backward", "_backward_data", "BackpropInput", "BackpropFilter"),
    *("GradWithArgmax", "GradExt"),
)
