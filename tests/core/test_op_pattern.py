"""Which ops a pattern selects, op by op."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sonde.core.errors import SondeError
from sonde.core.operators import kinds
from sonde.core.operators.names import COMPOSED, KINDS, OPTIMIZERS, SAME_WORD, TORCH_CLASSES
from sonde.core.operators.patterns import NamedOp, OpPattern, parse_all, selects
from sonde.core.operators.suggestions import suggestion
from sonde.core.text.terminal_text import quoted

NET = "Default/network-Net"
CONV = NamedOp(f"{NET}/conv1-Conv2d/convolution-op0", "convolution", f"{NET}/conv1-Conv2d", False)
BACK = NamedOp(
    f"Gradients/{NET}/conv1-Conv2d/convolution_backward-op0",
    "convolution_backward",
    f"Gradients/{NET}/conv1-Conv2d",
    False,
)
ATTN = NamedOp(
    f"{NET}/layers-ModuleList/0-Block/attn-Linear/addmm-op0",
    "addmm",
    f"{NET}/layers-ModuleList/0-Block/attn-Linear",
    False,
)
RELU = NamedOp("Default/relu_-op3", "relu_", "Default", False)
EXPAND = NamedOp("Default/expand-op0", "expand", "Default", False)
BILINEAR = NamedOp("Default/upsample_bilinear2d-op0", "upsample_bilinear2d", "Default", False)
SGD = NamedOp("Default/optimizer-SGD/add_-op0", "add_", "Default/optimizer-SGD", False)
WEIGHT = NamedOp("layers.0.attn.weight", "Parameter", ATTN.scope, True)
GRAD = NamedOp("layers.0.attn.weight.grad", "Parameter", ATTN.scope, True)
TENTH = NamedOp("fc10.weight", "Parameter", f"{NET}/fc10-Linear", True)
OPS = (CONV, BACK, ATTN, RELU, EXPAND, BILINEAR, SGD, WEIGHT, GRAD, TENTH)
IN_ATTN = (ATTN, WEIGHT, GRAD)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        (CONV.name, [CONV]),
        ("convolution-op0", [CONV]),
        ("conv1-Conv2d/convolution-op0", [CONV]),
        ("conv1-Conv2d/convolution-op1", []),
        (f"{NET}/conv1-Conv2d/", [CONV]),
        (f"{NET}/conv1-Conv2d", [CONV]),
        ("Gradients/", [BACK]),
        ("conv1-Conv2d/", [CONV, BACK]),
        ("conv1-Conv2d", [CONV, BACK]),
        ("layers/0/", IN_ATTN),
        ("0-Block/attn-Linear/", IN_ATTN),
        ("conv1", [CONV, BACK]),
        ("Conv1", []),
        ("fc1", []),
        ("layers.0.attn", IN_ATTN),
        ("0.attn", IN_ATTN),
        ("model.layers.0", IN_ATTN),
        ("layers.attn", []),
        ("net", [CONV, BACK, *IN_ATTN, TENTH]),
        ("Conv2d", [CONV, BACK]),
        ("Block", IN_ATTN),
        ("Linear", [*IN_ATTN, TENTH]),
        ("nn.Linear", [*IN_ATTN, TENTH]),
        ("linear", [ATTN, BILINEAR]),
        ("SGD", [SGD]),
        ("optimizer", [SGD]),
        ("layers.0.attn.weight", [WEIGHT]),
        ("weight", [WEIGHT, TENTH]),
        ("grad", [GRAD]),
        ("parameter", [WEIGHT, GRAD, TENTH]),
        ("Conv2D", [CONV, BACK]),
        ("ops.Conv2D", [CONV, BACK]),
        ("MatMul", [ATTN]),
        ("Dense", [ATTN]),
        ("ReLU", [RELU]),
        ("Add", [SGD]),
        ("add", [ATTN, SGD]),
        ("Exp", []),
        ("exp", [EXPAND]),
        ("ELU", []),
        ("conv", [CONV, BACK]),
        ("CONV", [CONV, BACK]),
        ("Conv", [CONV, BACK]),
        ("F.linear", [ATTN]),
        ("torch.relu", [RELU]),
        ("torch.nn.functional.relu", [RELU]),
        ("torch.Tensor.add_", [SGD]),
        ("F.conv2d", [CONV, BACK]),
        ("aten.convolution", [CONV]),
        ("aten::relu", [RELU]),
        ("torch.ops.aten.addmm.default", [ATTN]),
        ("name-regex(.*conv1.*)", [CONV, BACK]),
        ("name-regex(conv1)", []),
    ],
)
def test_a_pattern_selects_its_ops(text: str, selected: list[NamedOp]) -> None:
    pattern = OpPattern.parse(text)
    assert [op.name for op in OPS if pattern.matches(*op)] == [op.name for op in selected]


@pytest.mark.parametrize(
    ("texts", "selected"),
    [
        (["Conv2d", "!Gradients/"], [CONV]),
        (["! name-regex(.*)", "relu"], [RELU]),
        (["!parameter"], [CONV, BACK, ATTN, RELU, EXPAND, BILINEAR, SGD]),
    ],
)
def test_the_last_pattern_of_a_list_that_matches_decides(
    texts: list[str], selected: list[NamedOp]
) -> None:
    patterns = parse_all(texts)
    assert [op for op in OPS if selects(patterns, *op)] == selected
    assert [str(pattern) for pattern in patterns] == [text.replace("! ", "!") for text in texts]


def test_leaves_without_a_scope_are_found_by_their_names() -> None:
    assert OpPattern.parse("fc1").matches("fc1.weight", "Parameter", "", True)
    assert not OpPattern.parse("fc1").matches("fc10.weight", "Parameter", "", True)


@pytest.mark.parametrize(
    "text", ["", "  ", "!", "name-regex(()", "name-regex(.*fc1", "name-regex(("]
)
def test_a_pattern_that_can_match_nothing_is_refused(text: str) -> None:
    with pytest.raises(SondeError):
        OpPattern.parse(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Lineer", "; did you mean 'Linear'?"),
        ("MatMull", "; did you mean 'MatMul'?"),
        ("Conv2", "; did you mean 'Conv2d' or 'Conv2D'?"),
        ("Transformer", "; the module classes are Net, Conv2d, ModuleList, Block, Linear, SGD"),
        ("convolutoin", "; did you mean 'convolution'"),
        ("layers.0.atn", "; did you mean 'layers.0.attn'"),
        ("qqqqqq", "; the op types are convolution, convolution_backward, addmm, relu_, expand, "),
        (f"{NET}/conv1-Conv2d/convolution-op9", f"; did you mean {CONV.name!r}"),
        (f"{NET}/conv1-Conv/", f"; did you mean '{NET}/conv1-Conv2d/'"),
        ("Default/Conv-op12", f"; 'Conv' matches {CONV.name} and 1 more"),
        ("Default/MatMul-op3", f"; 'MatMul' matches {ATTN.name}"),
        ("Default/attn-Dense/", "; 'Dense' matches"),
        ("layers/0/atn/", "; did you mean 'layers/0/attn/'"),
        ("0-Block/atn-Linear/", "; did you mean '0-Block/attn-Linear/'"),
        ("conv1-Conv2d/convolutoin-op0", "; did you mean 'conv1-Conv2d/convolution-op0'"),
        ("Default/Lineer-op0", "; did you mean 'Linear'"),
        ("name-regex(Default/relu-op3)", "; did you mean 'Default/relu_-op3'"),
        ("conv*", "; a pattern has no wildcards; 'name-regex(.*conv.*.*)' matches "),
        ("*.weight", "; a pattern has no wildcards; 'name-regex(.*\\.weight)' matches layers.0"),
        ("conv1, Linear", "; give each pattern by itself: 'conv1', 'Linear'"),
        ("conv1|relu", "; give each pattern by itself: 'conv1', 'relu'"),
        ("Default", "; did you mean 'Default/'?"),
        ("name_regex(conv1)", "; a regular expression is written name-regex(...)"),
        ("conv1.forward", f"; 'conv1' matches {CONV.name} and 1 more"),
        ("self.relu", "; 'relu' matches Default/relu_-op3"),
        ("F.convolutoin", "; did you mean 'convolution'"),
        ("name-regex(conv1)", "; it must match the whole name: 'name-regex(.*conv1.*)'"),
        (
            "name-regex(nope|conv1)",
            "; it must match the whole name: 'name-regex(.*(nope|conv1).*)'",
        ),
        ("name-regex(.*conv9.*)", "; no name contains 'conv9'; did you mean 'conv1'"),
    ],
)
def test_a_suggestion_is_of_the_kind_that_the_user_meant(text: str, hint: str) -> None:
    assert suggestion(OpPattern.parse(text), OPS).startswith(hint)


@pytest.mark.parametrize(
    "text",
    [
        *("Default/nothing-op0", "Default/zzz/", "a/b/c", "/", "name-regex(.*[0-9]{9}.*)"),
        *("x" * 5000, "Default/" + "x" * 5000, f"name-regex({'x' * 1900})"),
    ],
)
def test_no_name_is_suggested_that_is_only_a_little_similar(text: str) -> None:
    assert suggestion(OpPattern.parse(text), OPS) == ""


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("grad", ""),
        ("Gradients", ""),
        ("name-regex(.*conv1.*grad.*)", ""),
        ("conv1.grad", f", 'Gradients/{NET}/conv1-Conv2d/' those of conv1"),
        ("conv1.weight.grad", f", 'Gradients/{NET}/conv1-Conv2d/' those of conv1"),
    ],
)
def test_where_gradients_are_is_said_where_they_have_no_names(text: str, more: str) -> None:
    ops = [op for op in OPS if op != GRAD]
    hint = suggestion(OpPattern.parse(text), ops)
    where = "a gradient is an output of the op that computes it, in the backward pass"
    assert hint.endswith(f"{where}: 'Gradients/' selects all of them{more}")


def test_a_word_with_some_common_letters_is_not_suggested() -> None:
    ops = [NamedOp("Default/slice-op0", "slice", "Default", False)]
    assert suggestion(OpPattern.parse("Liner"), ops) == ""
    assert suggestion(OpPattern.parse("Slise"), ops) == "; did you mean 'Slice'?"


def test_nothing_is_suggested_without_ops() -> None:
    assert suggestion(OpPattern.parse("Linear"), ()) == ""


def test_a_very_long_text_is_shortened_in_messages() -> None:
    assert quoted("fc1") == "'fc1'"
    assert quoted("it's\\d\n") == '"it\'s\\d\\n"'
    assert len(quoted("x" * 5000)) < 250
    assert "5,000 characters" in quoted("x" * 5000)
    with pytest.raises(SondeError) as raised:
        OpPattern.parse(f"name-regex({'x' * 5000}")
    assert len(str(raised.value)) < 400


# ------------------------------------------------------------------------------ the table


def test_each_name_is_in_the_table_once() -> None:
    names = [
        name
        for by_kind in KINDS.values()
        for operators_of_kind in by_kind.values()
        for name in operators_of_kind.replace("|", " ").split()
    ]
    assert len(names) == len(set(names))
    assert set(SAME_WORD.split()).isdisjoint(names)


def test_each_operator_of_mindspore_has_an_op_of_torch_that_exists() -> None:
    known = {
        name.partition("::")[2].partition(".")[0] for name in torch._C._dispatch_get_all_op_names()
    }
    without = [
        name
        for name in sorted(kinds.MINDSPORE_NAMES)
        if kinds.optimizer_class(name) is None
        and not any(
            kinds.computes(name, each, phase) for each in known for phase in ("forward", "backward")
        )
    ]
    only_in_mindspore = {
        *("Load", "Depend", "UpdateState", "MakeTuple", "TupleGetItem", "StopGradient"),
    }
    assert set(without) <= only_in_mindspore


def test_optimizers_of_mindspore_have_one_of_torch() -> None:
    assert [name for name in OPTIMIZERS if not hasattr(torch.optim, name)] == []


def _op(scope: str, op_type: str) -> NamedOp:
    return NamedOp(f"{scope}/{op_type}-op0", op_type, scope, False)


FC = f"{NET}/fc1-Linear"
CONV3D = f"{NET}/conv3-Conv3d"
STEP = (
    _op("Default", "add"),
    _op(FC, "addmm"),
    _op(FC, "add"),
    _op(CONV3D, "convolution"),
    _op("Default/loss-Loss", "sum"),
    _op(f"Gradients/{CONV3D}", "convolution_backward"),
    _op(f"Gradients/{FC}", "sum"),
    _op(f"Gradients/{NET}/pool-AvgPool2d", "avg_pool2d_backward"),
    _op(f"Gradients/{NET}/act-LeakyReLU", "leaky_relu_backward"),
    _op(f"Gradients/{NET}/act-PReLU", "_prelu_kernel_backward"),
    _op(f"Gradients/{NET}/drop-Dropout", "native_dropout_backward"),
    _op(f"Gradients/{NET}/drop-Dropout", "mul"),
    _op(f"Gradients/{NET}/up-Upsample", "upsample_bilinear2d_backward"),
    _op(f"Gradients/{NET}/rows-Embedding", "embedding_dense_backward"),
    _op(f"Gradients/{NET}/loss-MSELoss", "mse_loss_backward"),
    _op(f"Gradients/{NET}", "slice_backward"),
    _op(f"Gradients/{NET}", "select_backward"),
    _op("Default/optimizer-SGD", "mul_"),
    _op("Default/optimizer-SGD", "add_"),
    _op("Default/optimizer-SGD", "_fused_sgd_"),
    _op("Default/optimizer-RMSprop", "addcmul_"),
    _op("Default/optimizer-AdamW_1", "lerp_"),
)


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("Conv2DBackpropInput", "convolution_backward"),
        ("Conv2DBackpropFilter", "convolution_backward"),
        ("Conv3DBackpropInput", "convolution_backward"),
        ("Conv3DBackpropFilter", "convolution_backward"),
        ("BiasAdd", "addmm fc1-Linear/add convolution convolution_backward fc1-Linear/sum"),
        ("BiasAddGrad", "convolution_backward fc1-Linear/sum"),
        ("Momentum", "mul_ add_ _fused_sgd_"),
        ("ApplyMomentum", "mul_ add_ _fused_sgd_"),
        ("ops.ApplyMomentum", "mul_ add_ _fused_sgd_"),
        ("SGD", "mul_ add_ _fused_sgd_"),
        ("ApplyRMSProp", "addcmul_"),
        ("AdamWeightDecay", "lerp_"),
        ("Adam", ""),
        ("AvgPool", "avg_pool2d_backward"),
        ("AvgPoolGrad", "avg_pool2d_backward"),
        ("LeakyReLUGrad", "leaky_relu_backward"),
        ("PReLUGrad", "_prelu_kernel_backward"),
        ("DropoutGrad", "native_dropout_backward drop-Dropout/mul"),
        ("ResizeBilinearGrad", "upsample_bilinear2d_backward"),
        ("EmbeddingLookup", "embedding_dense_backward"),
        ("MSELoss", "mse_loss_backward"),
        ("StridedSliceGrad", "slice_backward select_backward"),
        ("SliceGrad", "slice_backward"),
        ("Gather", "embedding_dense_backward"),
        ("DropoutDoMask", "native_dropout_backward drop-Dropout/mul"),
        ("Select", ""),
    ],
)
def test_a_name_of_mindspore_selects_the_ops_that_do_its_work(name: str, types: str) -> None:
    pattern = OpPattern.parse(name)
    found = [op.name for op in STEP if pattern.matches(*op)]
    assert len(found) == len(types.split())
    for wanted in types.split():
        assert any(f"/{each}".endswith(f"/{wanted}-op0") for each in found), found


def test_composed_functions_are_functions_of_torch() -> None:
    places = (torch, nn.functional, torch.Tensor)
    assert [name for name in COMPOSED if not any(hasattr(place, name) for place in places)] == []


def test_the_classes_of_torch_are_those_of_torch_nn() -> None:
    there = {
        name
        for name, value in vars(nn).items()
        if isinstance(value, type) and issubclass(value, nn.Module) and not name.startswith("_")
    }
    assert there == TORCH_CLASSES
