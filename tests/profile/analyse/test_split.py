import pytest
from tests.profile.made import event, graph, node, trace

from sonde.profile.analyse.event_matching import name_events
from sonde.profile.analyse.split import PARTS, Split, split_step

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def lengths(split: Split) -> dict[str, float]:
    return {part: round(split.seconds(part) * 1e9) for part in PARTS}


def test_a_step_is_dealt_out_whole() -> None:
    step = trace(
        [
            event(LOADER, 0, 100, is_range=True),
            event("aten::stack", 20, 60),
            event("aten::addmm", 150, 300),
            event("aten::relu", 320, 400),
            event("autograd::engine::evaluate_function: ReluBackward0", 460, 700),
            event("Optimizer.step#SGD.step", 800, 950, is_range=True),
        ],
        backwards=[(450, 720)],
        optimizers=[(810, 940)],
    )
    names = name_events(step.main, graph([node("addmm", "a"), node("relu", "r")]))
    split = split_step(step, names)
    assert lengths(split) == {
        "data": 100,
        "forward": 300,  # from the first op in a module to backward
        "backward": 270,
        "optimizer": 150,
        "collectives": 0,
        "rest": 180,
    }
    assert sum(lengths(split).values()) == 1000
    assert split.part_at(310) == "forward"
    assert split.part_at(960) == "rest"


def test_without_the_engines_calls_backward_is_where_its_events_are() -> None:
    step = trace(
        [
            event("aten::addmm", 100, 200),
            event("autograd::engine::evaluate_function: A", 300, 400),
            event("autograd::engine::evaluate_function: B", 420, 500),
        ]
    )
    assert lengths(split_step(step, {}))["backward"] == 200


def test_several_backwards_each_have_a_forward_before_them() -> None:
    step = trace(
        [event("aten::mul", 100, 150), event("aten::mul", 500, 550)],
        backwards=[(200, 300), (600, 700)],
    )
    assert lengths(split_step(step, {}))["forward"] == 200


def test_a_collective_counts_only_where_nothing_is_computed() -> None:
    step = trace(
        [
            event("aten::mm", 100, 200),
            event("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 200, 400),
            event("c10d::allreduce_", 210, 380),
            event("aten::mm", 400, 500),
        ],
        backwards=[(90, 600)],
        collectives=[(210, 380), (220, 550)],
    )
    split = split_step(step, {})
    assert split.spans["collectives"] == [(210, 400), (500, 550)]
    assert split.overlapped == 100
    assert lengths(split)["backward"] == 510 - 240


def test_compiling_is_rest() -> None:
    step = trace([event("aten::mm", 500, 600)], backwards=[(700, 900)], compiling=[(100, 450)])
    split = split_step(step, {})
    assert lengths(split)["forward"] == 200
    assert lengths(split)["rest"] == 600


@pytest.mark.parametrize("backwards", [[], [(500, 600)]])
def test_an_empty_step_is_all_rest_or_backward(backwards: list[tuple[int, int]]) -> None:
    split = split_step(trace([], backwards=backwards), {})
    assert sum(lengths(split).values()) == 1000
    assert lengths(split)["forward"] == 0
