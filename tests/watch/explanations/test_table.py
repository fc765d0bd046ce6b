"""Real ops that make NaN or Inf, and the sentence that explains each from their values."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

from sonde import kernels
from sonde.core.statistics import Statistics
from sonde.watch.explanations import EXPLAINED_OPS, OpFacts, TensorFacts, explain

NAN, INF = float("nan"), float("inf")


def facts(tensor: torch.Tensor, slot: int, *, with_values: bool = True) -> TensorFacts:
    wide = tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()
    array = wide.numpy().copy()

    def measure() -> Statistics:
        return kernels.summarize_array(array)

    name = str(tensor.dtype).removeprefix("torch.")
    read = (lambda: array) if with_values else (lambda: None)
    return TensorFacts(slot, name, tuple(tensor.shape), read, measure)


class Case(NamedTuple):
    op: str
    run: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    says: str
    attributes: dict[str, str] = {}  # noqa: RUF012


def t(*values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


HALF = torch.float16
CASES = {
    "sqrt of negatives": Case(
        "sqrt",
        torch.sqrt,
        (t(1.0, -1.5, 4.0, -0.25),),
        "2 of its 4 inputs are negative (smallest -1.5), exactly where the NaN are",
    ),
    "sqrt in place": Case(
        "sqrt_",
        torch.sqrt,
        (t(-1.0, -2.0),),
        "all its 2 inputs are negative (smallest -2), exactly where the NaN are",
    ),
    "sqrt of one number": Case(
        "sqrt", torch.sqrt, (torch.tensor(-3.0),), "its input is negative (-3)"
    ),
    "log of zero": Case(
        "log", torch.log, (t(1.0, 0.0, 2.0),), "1 of its 3 inputs is 0, exactly where the Inf is"
    ),
    "log of a negative number": Case(
        "log",
        torch.log,
        (t(1.0, -1.0, 0.0),),
        "1 of its 3 inputs is negative (smallest -1), exactly where the NaN is",
    ),
    "log1p below -1": Case(
        "log1p",
        torch.log1p,
        (t(-2.0, 3.0),),
        "1 of its 2 inputs is below -1 (smallest -2), exactly where the NaN is",
    ),
    "ctc with a target that is too long": Case(
        "_ctc_loss",
        lambda scores, labels: torch.nn.functional.ctc_loss(
            scores, labels, (2, 4), (3, 2), reduction="none"
        ),
        (torch.zeros(4, 2, 4).log_softmax(-1), torch.tensor([[1, 2, 3], [1, 2, 0]])),
        "1 of 2 targets is too long: target 0 needs 3 time steps, its input has 2",
        {"input_lengths": "[2, 4]", "target_lengths": "[3, 2]"},
    ),
    "ctc with repeated labels": Case(
        "_ctc_loss",
        lambda scores, labels: torch.nn.functional.ctc_loss(
            scores, labels, (3, 3), (3, 3), reduction="none"
        ),
        (torch.zeros(3, 2, 4).log_softmax(-1), torch.tensor([[1, 1, 1], [1, 2, 3]])),
        "1 of 2 targets is too long: target 0 needs 5 time steps, its input has 3",
        {"input_lengths": "[3, 3]", "target_lengths": "[3, 3]"},
    ),
    "lgamma at a pole": Case(
        "lgamma",
        torch.lgamma,
        (t(1.5, 0.0, -2.0),),
        "2 of its 3 inputs are 0 or negative and whole (smallest -2), exactly where the Inf are",
    ),
    "digamma at a pole": Case(
        "digamma",
        torch.digamma,
        (t(1.5, -2.0),),
        "1 of its 2 inputs is 0 or negative and whole (smallest -2), exactly where the NaN is",
    ),
    "rsqrt of zero": Case(
        "rsqrt", torch.rsqrt, (t(0.0, 1.0),), "1 of its 2 inputs is 0, exactly where the Inf is"
    ),
    "reciprocal of zero": Case(
        "reciprocal",
        torch.reciprocal,
        (t(0.0, 2.0),),
        "1 of its 2 inputs is 0, exactly where the Inf is",
    ),
    "exp in float32": Case(
        "exp",
        torch.exp,
        (t(1.0, 90.0),),
        "1 of its 2 inputs is above 88.72 (up to 90), where exp overflows float32, "
        "exactly where the Inf is",
    ),
    "exp in float16": Case(
        "exp",
        torch.exp,
        (t(1.0, 12.0, dtype=HALF),),
        "1 of its 2 inputs is above 11.09 (up to 12), where exp overflows float16, "
        "exactly where the Inf is",
    ),
    "pow of a negative base": Case(
        "pow",
        lambda x: torch.pow(x, 0.5),
        (t(4.0, -4.0),),
        "1 of its 2 inputs is negative, and the exponent is not whole (smallest -4), exactly "
        "where the NaN is",
        {"exponent": "0.5"},
    ),
    "pow of zero": Case(
        "pow",
        lambda x: torch.pow(x, -0.5),
        (t(4.0, 0.0),),
        "1 of its 2 inputs is 0, and the exponent is negative, exactly where the Inf is",
        {"exponent": "-0.5"},
    ),
    "pow out of range": Case(
        "pow",
        lambda x: torch.pow(x, 2),
        (t(300.0, 2.0, dtype=HALF),),
        "1 of its 2 inputs is so large that the power leaves the range of its type (largest 300), "
        "exactly where the Inf is",
        {"exponent": "2"},
    ),
    "acos": Case(
        "acos",
        torch.acos,
        (t(0.5, 1.5),),
        "1 of its 2 inputs is outside of [-1, 1] (largest 1.5), exactly where the NaN is",
    ),
    "logit": Case(
        "logit",
        torch.logit,
        (t(0.5, 1.0),),
        "1 of its 2 inputs is 0 or 1, exactly where the Inf is",
    ),
    "remainder": Case(
        "remainder",
        torch.remainder,
        (t(1.0, 2.0), t(0.0, 1.0)),
        "1 of its 2 divisors is 0, exactly where the NaN is",
    ),
    "div by zero": Case(
        "div",
        torch.div,
        (t(1.0, 2.0, 3.0), t(0.0, 1.0, 0.0)),
        "2 of its 3 divisors are 0, exactly where the Inf are",
    ),
    "div by one zero": Case("div", torch.div, (t(1.0, 2.0), torch.tensor(0.0)), "the divisor is 0"),
    "zero by zero": Case(
        "div",
        torch.div,
        (t(0.0, 2.0), t(0.0, 1.0)),
        "0 is divided by 0 in 1 place, exactly where the NaN is",
    ),
    "div by a zero number": Case(
        "div", lambda x: x / 0, (t(1.0, 2.0),), "the divisor is 0", {"other": "0"}
    ),
    "div by a tiny number": Case(
        "div",
        torch.div,
        (t(1e30, 2.0), t(1e-20, 1.0)),
        "the quotient is beyond 3.403e+38, the largest float32: divisors are as small as 1e-20",
    ),
    "inf minus inf": Case(
        "sub",
        torch.sub,
        (t(INF, 1.0), t(INF, 1.0)),
        "Inf is subtracted from Inf in 1 place, exactly where the NaN is",
    ),
    "inf plus minus inf": Case(
        "add",
        torch.add,
        (t(INF, 1.0), t(-INF, 1.0)),
        "Inf is added to -Inf in 1 place, exactly where the NaN is",
    ),
    "zero times inf": Case(
        "mul",
        torch.mul,
        (t(0.0, 1.0), t(INF, 1.0)),
        "0 is multiplied by Inf in 1 place, exactly where the NaN is",
    ),
    "mul in float16": Case(
        "mul",
        torch.mul,
        (t(300.0, 1.0, dtype=HALF), t(400.0, 1.0, dtype=HALF)),
        "its result is beyond 65504, the largest float16: its inputs reach 300 and 400 in "
        "magnitude",
    ),
    "matmul of zero and inf": Case(
        "mm",
        torch.mm,
        (t([0.0, 1.0], [2.0, 1.0]), t([INF, 1.0], [1.0, 1.0])),
        "0 meets Inf in 1 product of its sums, exactly where the NaN is",
    ),
    "matmul in float16": Case(
        "mm",
        torch.mm,
        (torch.full((2, 2), 200.0, dtype=HALF), torch.full((2, 2), 200.0, dtype=HALF)),
        "its result is beyond 65504, the largest float16: its inputs reach 200 and 200 in "
        "magnitude",
    ),
    "softmax of a hidden row": Case(
        "_softmax",
        lambda x: torch.softmax(x, -1),
        (t([1.0, 2.0], [-INF, -INF]),),
        "1 of its 2 rows is -Inf everywhere (row 1), exactly where the NaN is",
        {"dim": "-1"},
    ),
    "softmax with inf": Case(
        "_softmax",
        lambda x: torch.softmax(x, -1),
        (t([1.0, 2.0], [INF, 1.0]),),
        "1 of its 2 rows has Inf somewhere (row 1), exactly where the NaN is",
        {"dim": "-1"},
    ),
    "std of one element": Case(
        "std",
        lambda x: x.std(0),
        (t([1.0, 2.0]),),
        "it is computed from 1 element, divided by 1 - 1 = 0",
        {"dim": "[0]"},
    ),
    "mean of nothing": Case("mean", torch.mean, (torch.zeros(0),), "its input has no elements"),
    "squared error of nothing": Case(
        "mse_loss",
        torch.nn.functional.mse_loss,
        (torch.zeros(0), torch.zeros(0)),
        "its input has no elements",
    ),
    "layer norm of a constant": Case(
        "native_layer_norm",
        lambda x: torch.nn.functional.layer_norm(x, (2,), eps=0.0),
        (t([1.0, 1.0], [1.0, 2.0]),),
        "1 of its 2 rows has variance 0, and eps is 0",
        {"normalized_shape": "[2]", "eps": "0.0"},
    ),
    "cross entropy without a target": Case(
        "nll_loss_forward",
        torch.nn.functional.nll_loss,
        (torch.zeros(2, 3), torch.tensor([-100, -100])),
        "all 2 targets are -100, which ignore_index leaves out: the mean is 0 / 0",
        {"ignore_index": "-100", "reduction": "1"},
    ),
    "cross entropy of an impossible target": Case(
        "nll_loss_forward",
        torch.nn.functional.nll_loss,
        (t([-INF, 0.0], [-1.0, -2.0]), torch.tensor([0, 1])),
        "the log-probability of 1 of 2 targets is -Inf",
        {"ignore_index": "-100"},
    ),
    "cross entropy of an impossible pixel": Case(
        "nll_loss2d_forward",
        torch.nn.functional.nll_loss,
        (t([0.0, -INF], [-1.0, -2.0]).T.reshape(1, 2, 2, 1), torch.tensor([[[1], [0]]])),
        "the log-probability of 1 of 2 targets is -Inf",
        {"ignore_index": "-100"},
    ),
    "cast to float16": Case(
        "_to_copy",
        lambda x: x.half(),
        (t(1.0, 7e4, -8e4),),
        "2 of its 3 inputs are beyond 65504, the largest float16 (largest magnitude 80000), "
        "exactly where the Inf are",
    ),
    "sum in float16": Case(
        "sum",
        lambda x: x.sum(),
        (torch.full((4,), 3e4, dtype=HALF),),
        "its result is beyond 65504, the largest float16: its input reaches 30000 in magnitude",
    ),
    "MindSpore's name": Case(
        "Log", torch.log, (t(1.0, 0.0),), "1 of its 2 inputs is 0, exactly where the Inf is"
    ),
}


def made(case: Case) -> list[torch.Tensor]:
    found = case.run(*case.inputs)
    return [found] if isinstance(found, torch.Tensor) else list(found)


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize("name", CASES)
def test_the_values_explain_the_op(name: str) -> None:
    case = CASES[name]
    inputs = [facts(each, slot) for slot, each in enumerate(case.inputs)]
    outputs = [facts(each, slot) for slot, each in enumerate(made(case))]
    found = explain(OpFacts(case.op, inputs, outputs, case.attributes))
    assert found is not None
    assert found.message == case.says
    assert found.rule == "non_finite_cause"
    assert found.evidence


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize("name", CASES)
def test_without_values_nothing_is_said_of_places(name: str) -> None:
    case = CASES[name]
    inputs = [facts(each, slot, with_values=False) for slot, each in enumerate(case.inputs)]
    outputs = [facts(each, slot, with_values=False) for slot, each in enumerate(made(case))]
    found = explain(OpFacts(case.op, inputs, outputs, case.attributes))
    if found is not None:
        assert "exactly" not in found.message
        assert " there" not in found.message


def test_statistics_count_the_inputs_at_fault() -> None:
    case = CASES["sqrt of negatives"]
    inputs = [facts(case.inputs[0], 0, with_values=False)]
    found = explain(OpFacts("sqrt", inputs, [facts(made(case)[0], 0, with_values=False)]))
    assert found is not None
    assert found.message == "2 of its 4 inputs are negative (smallest -1.5)"
    assert found.status == "supported"


def test_a_cause_elsewhere_than_the_nan_explains_nothing() -> None:
    inputs = [facts(t(-1.0, 4.0), 0)]
    assert explain(OpFacts("sqrt", inputs, [facts(t(1.0, NAN), 0)])) is None


def test_a_cause_of_some_of_the_nan_is_said_to_be_one() -> None:
    found = explain(OpFacts("sqrt", [facts(t(-1.0, 4.0), 0)], [facts(t(NAN, NAN), 0)]))
    assert found is not None
    assert found.message == "1 of its 2 inputs is negative (smallest -1), 1 of the 2 NaN are there"
    assert found.status == "supported"


def test_an_op_on_lists_is_explained_by_its_first_bad_tensor() -> None:
    one, two = t(1.0, 4.0), t(-1.0, 4.0)
    inputs = [facts(one, 0), facts(two, 1)]
    outputs = [facts(one.sqrt(), 0), facts(two.sqrt(), 1)]
    found = explain(OpFacts("_foreach_sqrt_", inputs, outputs))
    assert found is not None
    assert found.message.startswith("1 of its 2 inputs is negative")


@pytest.mark.parametrize("op", sorted(EXPLAINED_OPS))
def test_no_input_of_any_shape_fails(op: str) -> None:
    awkward = [facts(each, 0) for each in (torch.zeros(0), torch.tensor(NAN), t([INF, 0.0]))]
    awkward.append(TensorFacts(0, "complex64", (2, 3)))
    outputs = [t(NAN, 1.0), torch.tensor(-INF), t([NAN, INF], [1.0, 2.0], dtype=HALF)]
    attributes = {"dim": "[1, 2]", "eps": "0", "group": "2"}
    for one, count, output in itertools.product(awkward, range(4), outputs):
        inputs = [TensorFacts(slot, one.dtype, one.shape, one.read) for slot in range(count)]
        explain(OpFacts(op, inputs, [facts(output, 0)], attributes))


def test_unknown_ops_are_not_explained() -> None:
    assert explain(OpFacts("mystery", [facts(t(1.0), 0)], [facts(t(NAN), 0)])) is None


def test_about_25_kinds_of_ops_are_explained() -> None:
    assert len(EXPLAINED_OPS) >= 25
