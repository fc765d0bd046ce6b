"""The rules by which compiled code agrees, with numbers worked by hand."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan, nan

import pytest

from sonde.adapters.torch.compile_check.agreement import (
    CompileVerdict,
    GraphVerdict,
    OpErrors,
    ResultComparison,
    WrongOp,
    relative,
    totals,
)

FINE = ResultComparison(
    kind="gradient",
    name="fc.weight",
    dtype="float32",
    norm=2.0,
    group_norm=4.0,
    epsilon=0.001,
    eager=0.01,
    interpreted=0.01,
    compiled=0.02,
    shift=0.005,
)
WRONG = WrongOp(
    "aten.gelu.default", "forward", "", None, "float32", (2,), 1.0, 0.1, 0.5, 0, "lowering"
)


def test_ten_times_the_error_of_eager_and_eight_roundings_are_allowed() -> None:
    assert FINE.allowed == pytest.approx(10 * 0.01 + 8 * 0.001 * 2.0)
    assert replace(FINE, compiled=0.116).agrees
    assert not replace(FINE, compiled=0.117).agrees


def test_a_result_that_jumps_when_its_inputs_last_bits_move_is_allowed_more() -> None:
    shaky = replace(FINE, shift=0.5, compiled=5.0)
    assert shaky.agrees
    assert not replace(shaky, compiled=5.1).agrees


def test_a_result_tiny_among_its_kind_is_allowed_the_rounding_of_a_thousandth_of_it() -> None:
    noise = replace(FINE, norm=1e-9, eager=0.0, shift=0.0, group_norm=4.0, compiled=3e-5)
    assert noise.allowed == pytest.approx(8 * 0.001 * 4e-3)
    assert noise.agrees
    assert not replace(noise, group_norm=1e-9).agrees


def test_elements_that_are_not_finite_in_compiled_code_alone_are_never_right() -> None:
    assert not replace(FINE, broken=1).agrees


def test_a_way_that_was_not_run_does_not_count_as_wrong() -> None:
    assert replace(FINE, interpreted=nan).interpreted_agrees
    assert not replace(FINE, interpreted=9.0).interpreted_agrees


def test_totals_are_relative_and_say_which_way_is_closer() -> None:
    other = replace(FINE, norm=0.0, eager=0.0, compiled=0.0, interpreted=nan)
    (total,) = totals([FINE, other])
    assert (total.kind, total.count, total.agreeing) == ("gradient", 2, 2)
    assert (total.eager, total.compiled) == (0.005, 0.01)
    assert isnan(total.interpreted)
    assert total.closer == "eager"
    assert totals([replace(FINE, compiled=0.001)])[0].closer == "compiled"
    assert totals([replace(FINE, compiled=0.012)])[0].closer == "both alike"
    assert totals([]) == ()


def test_a_relative_error_without_a_size_is_infinite() -> None:
    assert (relative(0.0, 0.0), relative(1.0, 0.0), relative(1.0, 4.0)) == (0.0, inf, 0.25)


def op(**changes: object) -> OpErrors:
    errors = OpErrors(
        norm=(1.0, 1.0),
        epsilon=0.001,
        length=1.0,
        compiled=(0.0, 0.0),
        eager=(0.0, 0.0),
        shift=(0.0, 0.0),
    )
    return replace(errors, **changes)  # type: ignore[arg-type]


def test_an_op_is_judged_by_norm_and_by_its_worst_element() -> None:
    assert op().allowed == (pytest.approx(0.009), pytest.approx(0.009))
    assert op(compiled=(0.008, 0.008)).is_right
    assert not op(compiled=(0.010, 0.0)).is_right
    assert not op(compiled=(0.0, 0.010)).is_right
    assert op(compiled=(0.05, 0.0), eager=(0.0045, 0.0)).is_right
    assert not op(broken=1).is_right


def test_a_sum_of_many_may_be_added_up_in_another_order() -> None:
    assert op(length=64.0, compiled=(0.0159, 0.0)).is_right
    assert not op(length=64.0, compiled=(0.0161, 0.0)).is_right


def test_an_op_of_low_precision_is_suspicious_beyond_two_roundings_of_its_result() -> None:
    low = {"epsilon": 2**-7, "norm": (10.0, 1.0)}
    assert op(**low).allowed_alone == pytest.approx(2 * 10 * 2**-8)
    assert op(**low, eager=(0.05, 0.0)).allowed_alone == pytest.approx(0.1)
    assert op(**low, shift=(1.0, 0.0)).allowed_alone == pytest.approx(2 * (10 * 2**-8 + 0.001))
    assert op(**low, compiled=(0.08, 0.0)).is_suspicious
    assert op(**low, compiled=(0.08, 0.0)).is_right
    assert not op(**low, compiled=(0.07, 0.0)).is_suspicious
    assert not op(**low, compiled=(0.08, 0.0), eager=(inf, 0.0)).is_suspicious
    assert not op(epsilon=2**-23, compiled=(1.0, 0.0)).is_suspicious


def graph(**changes: object) -> GraphVerdict:
    made = GraphVerdict("Net", "inductor", 5, 5, (FINE,), None)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_step_agrees_when_results_weights_and_ops_do() -> None:
    off = replace(FINE, compiled=1.0)
    assert CompileVerdict(0, (graph(),), (FINE,)).agrees
    assert not CompileVerdict(0, (graph(), graph(comparisons=(off,)))).agrees
    assert not CompileVerdict(0, (graph(),), (off,)).agrees
    assert not CompileVerdict(0, (graph(wrong=WRONG),)).agrees


def test_other_random_numbers_prove_nothing_but_a_wrong_op_is_wrong() -> None:
    off = replace(FINE, compiled=1.0)
    assert CompileVerdict(0, (graph(comparisons=(off,), is_random_matched=False),), (off,)).agrees
    assert not graph(is_random_matched=False, wrong=WRONG).agrees
    assert not graph(is_random_matched=False, judged_ops=0).is_judged
    assert not CompileVerdict(0, (graph(), graph(comparisons=()))).is_complete
