"""Gradients of real ops where the derivative is infinite, and the sentence about them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.watch.explanations.test_table import facts, t

from sonde.core.graph import OpNode, Source
from sonde.watch.explanations import OpFacts, explain
from sonde.watch.explanations.made_values import MadeValues, made_values
from sonde.watch.headline import origin_headline
from sonde.watch.origins import Origin

ZERO = t(0.0, 4.0, 0.0, 1.0)
ONE = t(1.0, 1.0, 1.0, 1.0)


def divided(result: torch.Tensor, gradient: torch.Tensor) -> OpFacts:
    """What torch computes for the gradient of a square root with this ``result``."""
    twice = 2 * result
    inputs = [facts(gradient, 0), facts(twice, 1)]
    return OpFacts("div", inputs, [facts(gradient / twice, 0)], gradient_of="sqrt")


def test_the_derivative_of_a_square_root_at_zero() -> None:
    found = explain(divided(ZERO.sqrt(), ONE))
    assert found is not None
    assert found.message == (
        "2 of the 4 inputs of sqrt are 0, where its derivative, 1 / (2 * sqrt(x)), is infinite, "
        "exactly where the Inf are"
    )
    assert (found.detail, found.status) == ("infinite_derivative", "established")
    assert found.evidence["inputs_at_fault"] == 2
    assert found.advice.startswith("Add a small eps to its input")


def test_a_gradient_of_zero_that_meets_an_infinite_derivative() -> None:
    found = explain(divided(ZERO.sqrt(), 0 * ONE))
    assert found is not None
    assert found.message.endswith("is infinite, exactly where the NaN are")


def test_one_number() -> None:
    found = explain(divided(torch.tensor(0.0), torch.tensor(1.0)))
    assert found is not None
    assert found.message == (
        "the input of sqrt is 0, where its derivative, 1 / (2 * sqrt(x)), is infinite"
    )


@pytest.mark.parametrize(
    ("forward", "op", "given", "made", "attributes", "says"),
    [
        (
            "pow",
            "pow",
            ZERO,
            ZERO.pow(-0.5),
            {"exponent": "-0.5"},
            "2 of the 4 inputs of pow are 0, where its derivative, p * x^(p - 1) with p = 0.5, is "
            "infinite, exactly where the Inf are",
        ),
        (
            "acos",
            "rsqrt",
            t(0.0, 0.5),
            t(0.0, 0.5).rsqrt(),
            {},
            "1 of the 2 inputs of acos is -1 or 1, where its derivative, 1 / sqrt(1 - x^2), is "
            "infinite, exactly where the Inf is",
        ),
    ],
)
def test_other_derivatives(
    forward: str,
    op: str,
    given: torch.Tensor,
    made: torch.Tensor,
    attributes: dict[str, str],
    says: str,
) -> None:
    run = OpFacts(op, [facts(given, 0)], [facts(made, 0)], attributes, gradient_of=forward)
    found = explain(run)
    assert found is not None
    assert found.message == says


def test_zeros_elsewhere_than_the_nan_and_other_ops_are_left_to_the_table() -> None:
    finite = OpFacts(
        "div",
        [facts(t(1.0, float("nan")), 0), facts(t(0.0, 1.0), 1)],
        [facts(t(1.0, float("nan")), 0)],
        gradient_of="sqrt",
    )
    assert explain(finite) is None
    own = OpFacts("div", [facts(ONE, 0), facts(ZERO, 1)], [facts(ONE / ZERO, 0)], gradient_of="abs")
    found = explain(own)
    assert found is not None
    assert found.detail == "zero_divisor"


def node(**more: Any) -> OpNode:
    return OpNode("Gradients/Default/div-op1", "div", "Gradients/Default", "backward", **more)


def made(facts_of_op: OpFacts, forward: str) -> MadeValues:
    found = made_values(node(attributes=(("forward", f"Default/{forward}-op0"),)), facts_of_op)
    assert found is not None
    return found


def test_the_sentence_is_about_the_op_of_the_line() -> None:
    line = Source("/a/net.py", 21, "forward", "return torch.sqrt(squares)")
    origin = Origin(1, "op", 3, "Gradients/Default/div-op1", "div", line, phase="backward")
    origin.made = made(divided(ZERO.sqrt(), ONE), "sqrt_")
    assert origin_headline(origin).text == (
        "the gradient of sqrt has 2 Inf of 4 values in step 3, backward of sqrt, at net.py:21 "
        "`return torch.sqrt(squares)` (Backward/div-op1): 2 of the 4 inputs of sqrt are 0, where "
        "its derivative, 1 / (2 * sqrt(x)), is infinite, exactly where the Inf are."
    )
    origin.made = made(divided(ZERO.sqrt(), ONE), "abs")
    assert origin_headline(origin).text.startswith(
        "div made 2 Inf of 4 values in step 3, backward of abs, at net.py:21 "
    )
