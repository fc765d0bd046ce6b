"""Which ops a pattern selects, op by op."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sonde.core.errors import SondeError
from sonde.core.operators import kinds
from sonde.core.operators.names import COMPOSED, KINDS, SAME_WORD, TORCH_CLASSES
from sonde.core.operators.patterns import NamedOp, OpPattern, parse_all, selects
from sonde.core.operators.suggestions import suggestion

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
        ("name-regex(Default/relu-op3)", "; did you mean 'Default/relu_-op3'"),
    ],
)
def test_a_suggestion_is_of_the_kind_that_the_user_meant(text: str, hint: str) -> None:
    assert suggestion(OpPattern.parse(text), OPS).startswith(hint)


def test_nothing_is_suggested_without_ops() -> None:
    assert suggestion(OpPattern.parse("Linear"), ()) == ""


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
        if not any(kinds.computes(name, each) for each in known)
    ]
    only_in_mindspore = {
        *("Load", "Depend", "UpdateState", "MakeTuple", "TupleGetItem", "StopGradient"),
        *("Conv2DBackpropInput", "Conv3DBackpropInput"),
        *("Conv2DBackpropFilter", "Conv3DBackpropFilter"),
    }
    assert set(without) <= only_in_mindspore


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
