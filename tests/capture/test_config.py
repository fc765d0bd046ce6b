"""The documented JSON, field by field."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.capture.settings import Load

from sonde.core.selection import ALL_STEPS, StepSet
from sonde.core.statistics import CATEGORIES


def test_the_documents_own_example_is_read_field_by_field(load: Load, tmp_path: Path) -> None:
    config = load(
        op_debug_mode=0,
        net_name="ResNet50",
        iteration="0|5-8|100-120",
        saved_data="tensor",
        kernels=["Default/Conv-op12"],
        statistic_category=["max", "min", "l2norm"],
        e2e={"enable": True, "trans_flag": True, "stat_calc_mode": "host"},
    )
    assert config.path == tmp_path / "out"
    assert config.net_name == "ResNet50"
    assert config.dump_mode == "all"
    assert config.selection.steps == StepSet(((0, 0), (5, 8), (100, 120)))
    assert config.selection.ops is None, "dump_mode 0 dumps every op, whatever kernels lists"
    assert config.ios == {"input", "output"}
    assert config.ranks == frozenset(range(8))
    assert config.asynchronous is False
    assert config.transpose_to_nchw is True
    assert config.saved_data == "tensor"
    assert config.statistic_categories == ("max", "min", "l2norm")
    assert config.debug_mode == "off"


@pytest.mark.document(
    139,
    says='`statistic_category` is optional, default ["max", "min", "l2norm"]',
    how="the same default",
)
@pytest.mark.document(110, 141, 142, 144, 146, 148)
def test_missing_keys_have_the_documented_default(load: Load) -> None:
    config = load()
    assert config.asynchronous is True
    assert config.transpose_to_nchw is True
    assert config.save_kernel_args is False
    assert config.saved_data == "tensor"
    assert config.statistic_categories == ("max", "min", "l2norm")
    assert config.debug_mode == "off"
    assert config.overflow_number == 0
    assert config.initial_step == 0
    assert (config.sample_mode, config.sample_num) == (False, 100)
    assert config.stat_calc_mode == "host"
    assert config.device_stat_precision_mode == "high"
    assert config.memory_budget is None


def test_every_other_field_is_translated(load: Load) -> None:
    config = load(
        dump_mode=1,
        kernels=["Default/Conv-op12", "conv", "name-regex(Default/.+)"],
        input_output=2,
        support_device=[1, 3],
        initial_iteration=10,
        saved_data="full",
        statistic_category=["xxh3", "avg", "avg"],
        e2e={
            "enable": True,
            "trans_flag": False,
            "device_stat_precision_mode": "low",
            "sample_mode": 1,
            "sample_num": 7,
            "save_kernel_args": True,
        },
    )
    assert config.dump_mode == "kernels"
    assert config.selection.ops is not None
    assert [pattern.text for pattern in config.selection.ops] == [
        "Default/Conv-op12",
        "conv",
        "name-regex(Default/.+)",
    ]
    assert config.ios == {"output"}
    assert config.ranks == {1, 3}
    assert config.initial_step == 10
    assert config.saves_tensors
    assert config.saves_statistics
    assert config.statistic_categories == ("xxh3", "avg")
    assert config.transpose_to_nchw is False
    assert config.device_stat_precision_mode == "low"
    assert (config.sample_mode, config.sample_num) == (True, 7)
    assert config.save_kernel_args is True


def test_dump_mode_2_leaves_the_ops_to_set_dump(load: Load) -> None:
    config = load(dump_mode=2)
    assert config.dump_mode == "set_dump"
    assert config.selection.ops is None


def test_the_original_text_is_kept(load: Load) -> None:
    assert load().text == Path("dump.json").read_text()


@pytest.mark.document(
    122,
    says='`iteration` "all" and with spaces, "0 | 5-8 | 100-120"',
    how="key `iteration`, `--dump-steps`; a plain number is that step",
)
@pytest.mark.parametrize(
    ("iteration", "steps"),
    [
        ("all", ALL_STEPS),
        ("3", StepSet(((3, 3),))),
        (" 0 | 5 - 8 ", StepSet(((0, 0), (5, 8)))),
        ("7|5-6", StepSet(((5, 7),))),
        (0, StepSet(((0, 0),))),
        (12, StepSet(((12, 12),))),
    ],
)
def test_steps_in_every_documented_spelling(load: Load, iteration: Any, steps: StepSet) -> None:
    assert load(iteration=iteration).selection.steps == steps


@pytest.mark.parametrize("iteration", ["5-", "-1", "", "|", "0||2", "1,2", "0-1-2", "a", -1])
def test_an_invalid_list_of_steps_is_refused(
    refuse: Callable[..., list[str]], iteration: Any
) -> None:
    assert refuse(iteration=iteration) == [
        f"dump.json: iteration {str(iteration)!r} is not a list of steps such as '0|5-8' or 'all' "
        "[config-iteration]"
    ]


def test_a_range_that_runs_backwards_is_refused(refuse: Callable[..., list[str]]) -> None:
    assert refuse(iteration="3-2") == [
        "dump.json: iteration '3-2': the range 3-2 runs backwards; write 2-3 [config-iteration]"
    ]


def test_steps_that_lie_before_the_first_one_are_refused(
    refuse: Callable[..., list[str]], load: Load
) -> None:
    assert refuse(iteration="0-5", initial_iteration=10) == [
        "dump.json: iteration '0-5' lies before initial_iteration 10: nothing would be dumped "
        "[config-iteration]"
    ]
    assert load(iteration="0-10", initial_iteration=10).initial_step == 10


@pytest.mark.document(
    143,
    says="`e2e_dump_settings.enable`: true is Synchronous Dump, false or not set Asynchronous Dump",
    how="the same; `--dump-to` dumps asynchronously",
)
@pytest.mark.parametrize(
    ("settings", "asynchronous"),
    [
        ({}, True),
        ({"e2e": {}}, True),
        ({"e2e": {"enable": False}}, True),
        ({"e2e": {"enable": True}}, False),
        ({"older": {"enable": True}}, True),
        ({"older": {"enable": True}, "e2e": {"enable": False}}, True),
        ({"older": {"enable": False}, "e2e": {"enable": True}}, False),
        ({"older": {"op_debug_mode": 0}}, True),
    ],
)
def test_synchronous_only_when_the_file_enables_it(
    load: Load, settings: dict[str, Any], asynchronous: bool
) -> None:
    assert load(**settings).asynchronous is asynchronous


@pytest.mark.document(
    50,
    says="async `op_debug_mode` 1: AiCore overflow check; 2: Atomic overflow check; 3: all",
    how="1, 2 and 3 all save the ops with NaN or Inf",
)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_older_documents_overflow_checks_are_one_mode(load: Load, number: int) -> None:
    assert load(older={"enable": True, "op_debug_mode": number}).debug_mode == "overflow"


def test_overflow_and_exception_modes(load: Load) -> None:
    overflow = load(op_debug_mode=3, overflow_number=5, iteration="0-3")
    assert (overflow.debug_mode, overflow.overflow_number) == ("overflow", 5)
    exception = load(op_debug_mode=4, input_output=1, iteration=...)
    assert exception.debug_mode == "exception"
    assert exception.selection.steps == ALL_STEPS


@pytest.mark.document(
    147,
    says="device statistics: only min/max/avg/l2norm",
    how="every statistic on the device but the hashes `md5` and `xxh3`",
)
def test_every_statistic_is_accepted_on_the_host_and_all_but_hashes_on_the_device(
    load: Load,
) -> None:
    assert len(set(CATEGORIES)) == 17
    names = list(CATEGORIES)
    assert load(saved_data="statistic", statistic_category=names).statistic_categories == tuple(
        names
    )
    names = [name for name in names if name not in ("md5", "xxh3")]
    config = load(
        saved_data="statistic", statistic_category=names, e2e={"stat_calc_mode": "device"}
    )
    assert (config.stat_calc_mode, len(config.statistic_categories)) == ("device", 15)
